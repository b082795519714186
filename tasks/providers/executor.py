"""Drives an embedder over rows: batches, retries, splitting, checks and counters.

Either every row has an outcome, or the whole round fails with one of the codes of the spec, and
its counters. Nothing here keeps a connection, a text or a vector longer than the call.

Source: spec/refresh.md 2.5 and 2.6. An embedder in this process cannot be interrupted, so
`request_timeout_ms` is kept by those that wait for another machine.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tasks.providers.bounds import (
    Batch,
    ExecutionBounds,
    FailureBudget,
    Row,
    pack_rows,
)
from tasks.providers.checks import RowFailure, check_text, normalise_vector
from tasks.providers.embedder import (
    Embedder,
    EmbeddingIdentity,
    ProviderDeniedError,
    ProviderRateLimitedError,
    ProviderResponseError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    Vector,
)
from tasks.providers.outcomes import (
    EmbeddingCancelledError,
    EmbeddingCounters,
    EmbeddingFailedError,
    EmbeddingRefusedError,
    EmbeddingResult,
    EmbeddingUnavailableError,
    ProviderResponseInvalidError,
    RowFailuresOverBudgetError,
)

Told = Callable[[Sequence[str]], None]
# What a host's own embedder raises without knowing our errors counts like them.
_RETRIED = (
    ProviderTimeoutError,
    ProviderRateLimitedError,
    ProviderUnavailableError,
    TimeoutError,
    ConnectionError,
)


def embed_rows(  # noqa: PLR0913 - who, what, within which bounds, and the caller's callbacks
    embedder: Embedder,
    rows: Iterable[tuple[str, str]],
    bounds: ExecutionBounds,
    *,
    suspects: Collection[str] = (),
    budget: FailureBudget | None = None,
    before_batch: Told | None = None,
    after_batch: Told | None = None,
    should_stop: Callable[[], bool] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> EmbeddingResult:
    """Embed (record id, text) rows in their order; each row ends as a vector or as a failure.

    Args:
        embedder: Called from this thread only, one batch after the other.
        rows: Ids are unique. Blank and too long texts never reach the embedder.
        bounds: Batches, tries and waits.
        suspects: Ids that may take the process down: each alone, after all others.
        budget: How many failed rows the round bears; by default the spec's figures.
        before_batch: Told the ids of a batch before its first try.
        after_batch: Told the same ids when the batch is over, however it ended.
        should_stop: Asked before every try.
        sleep: Waits between tries, in seconds.

    Raises:
        EmbeddingRoundError: The round failed; the classes below it say how.
        InvalidConfigurationError: Not even one vector fits into the bounds.
    """
    given = _check_ids([Row(*row) for row in rows])
    work = _Round(
        embedder,
        bounds,
        budget or FailureBudget(),
        should_stop or (lambda: False),
        sleep,
        embedder.identity,
    )
    sent = work.refuse_texts(given)
    for batch in _plan_batches(sent, bounds, suspects, work.identity.dimension):
        ids = [row.record_id for row in batch]
        _tell(before_batch, ids)
        try:
            work.embed_batch(batch)
        finally:
            _tell(after_batch, ids)
    work.judge_failures(len(sent))
    return EmbeddingResult(work.vectors, work.failures, work.counters)


def embed_query(embedder: Embedder, text: str) -> Vector:
    """Embed a query; a vector that a row could not have either is no answer.

    Raises:
        ProviderResponseError: The vector is not usable.
        ProviderError: Whatever else the embedder says.
    """
    (vector,) = _read_vectors([embedder.embed_query(text)], 1)
    checked = normalise_vector(vector, embedder.identity)
    if isinstance(checked, RowFailure):
        raise ProviderResponseError(reason=checked.value)
    return checked


@dataclass(slots=True)
class _Round:
    """One call of `embed_rows` at work."""

    embedder: Embedder
    bounds: ExecutionBounds
    budget: FailureBudget
    should_stop: Callable[[], bool]
    sleep: Callable[[float], None]
    identity: EmbeddingIdentity
    vectors: dict[str, Vector] = field(default_factory=dict)
    failures: dict[str, RowFailure] = field(default_factory=dict)
    counters: EmbeddingCounters = field(default_factory=EmbeddingCounters)
    failed_sent: int = 0

    def refuse_texts(self, rows: Sequence[Row]) -> list[Row]:
        """Fail the rows whose text is not to be sent, and give the others."""
        sent = []
        for row in rows:
            reason = check_text(row.text, self.bounds.max_input_text_bytes)
            if reason is None:
                sent.append(row)
            else:
                self._fail(row, reason)
        return sent

    def embed_batch(self, batch: Batch) -> None:
        """Embed a batch; if it raises, its halves, down to the row that is to blame."""
        self.counters.embed_inputs += len(batch)
        self.counters.embed_input_bytes += _count_bytes(batch)
        self._split(batch)

    def judge_failures(self, sent: int) -> None:
        """End the round if too many of the rows sent have failed."""
        if self.budget.is_over(failed=self.failed_sent, sent=sent):
            raise RowFailuresOverBudgetError(self.counters)

    def _split(self, batch: Batch) -> None:
        answer = self._try_batch(batch)
        if answer is not None:
            self._accept(batch, answer)
        elif len(batch) == 1:
            self._fail_sent(batch[0], RowFailure.PROVIDER_EXCEPTION)
        else:
            half = len(batch) // 2
            self._split(batch[:half])
            self._split(batch[half:])

    def _try_batch(self, batch: Batch) -> list[Vector] | None:
        """Ask for the vectors of a batch, again if it may help; None when a row is to blame."""
        texts = [row.text for row in batch]
        for attempt in range(self.bounds.max_retries + 1):
            if self.should_stop():
                raise EmbeddingCancelledError(self.counters)
            self._count_try(batch)
            try:
                return self._ask(texts)
            except _RETRIED as error:
                after_s = getattr(error, "retry_after_s", None)
            except Exception as error:  # noqa: BLE001 - a host's embedder may raise anything
                self._raise_if_final(error)
                return None
            if attempt < self.bounds.max_retries:
                self.sleep(self.bounds.choose_delay_s(attempt, after_s))
        raise EmbeddingUnavailableError(self.counters)

    def _raise_if_final(self, error: Exception) -> None:
        """End the round if smaller batches would not help; without the provider's own words."""
        if isinstance(error, ProviderDeniedError):
            raise EmbeddingRefusedError(self.counters) from None
        if isinstance(error, ProviderResponseError):
            raise ProviderResponseInvalidError(self.counters) from None
        if self.budget.on_row_failure == "fail_run":
            raise EmbeddingFailedError(self.counters) from None

    def _ask(self, texts: Sequence[str]) -> list[Vector]:
        answer = self.embedder.embed_documents(texts)
        if self.embedder.identity != self.identity:
            raise ProviderResponseError(reason="identity")
        if isinstance(answer, np.ndarray) and answer.shape[1:] != (self.identity.dimension,):
            raise ProviderResponseError(reason="dimension")
        return _read_vectors(answer, len(texts))

    def _accept(self, batch: Batch, answer: Sequence[Vector]) -> None:
        for row, vector in zip(batch, answer, strict=True):
            checked = normalise_vector(vector, self.identity)
            if isinstance(checked, RowFailure):
                self._fail_sent(row, checked)
            else:
                self.vectors[row.record_id] = checked

    def _fail_sent(self, row: Row, reason: RowFailure) -> None:
        self._fail(row, reason)
        self.failed_sent += 1
        # The share is judged at the end; beyond this number no more calls need to be paid.
        if self.failed_sent > self.budget.max_failed_rows:
            raise RowFailuresOverBudgetError(self.counters)

    def _fail(self, row: Row, reason: RowFailure) -> None:
        if self.budget.on_row_failure == "fail_run":
            raise EmbeddingFailedError(self.counters)
        self.failures[row.record_id] = reason
        self.counters.rows_failed += 1

    def _count_try(self, batch: Batch) -> None:
        self.counters.provider_requests += 1
        self.counters.provider_inputs += len(batch)
        self.counters.provider_input_bytes += _count_bytes(batch)


def _plan_batches(
    rows: Sequence[Row], bounds: ExecutionBounds, suspects: Collection[str], dimension: int
) -> list[Batch]:
    alone = set(suspects)
    normal = [row for row in rows if row.record_id not in alone]
    singles = [[row] for row in rows if row.record_id in alone]
    return [*pack_rows(normal, bounds, dimension), *singles]


def _check_ids(rows: list[Row]) -> list[Row]:
    repeated = sum(n - 1 for n in Counter(row.record_id for row in rows).values())
    if repeated:
        message = f"record ids must be unique in a request, {repeated} of {len(rows)} are repeated"
        raise ValueError(message)
    return rows


def _read_vectors(answer: Sequence[Vector] | Vector, count: int) -> list[Vector]:
    """Read an answer as one float32 array a text."""
    try:
        with np.errstate(over="ignore"):
            rows = [np.asarray(row, dtype=np.float32) for row in answer]
    except (TypeError, ValueError):
        raise ProviderResponseError(reason="numbers") from None
    if len(rows) != count:
        raise ProviderResponseError(expected=count, found=len(rows))
    return rows


def _count_bytes(batch: Batch) -> int:
    return sum(len(row.text.encode()) for row in batch)


def _tell(told: Told | None, ids: Sequence[str]) -> None:
    if told is not None:
        told(ids)
