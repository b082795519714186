"""The bounds of the embedding executor, and how texts are packed within them: pure figures.

Source: spec/refresh.md R36-R38 and R49.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

from storage.errors import MaintenanceError

BYTES_PER_COMPONENT = 4
MAX_NODES = 100_000
_NANOS_PER_MS = 1_000_000
_MS_PER_S = 1000

Count = Annotated[int, Field(ge=1)]


class InvalidConfigurationError(MaintenanceError, ValueError):
    """The bounds leave no room for a single row."""

    code = "invalid_configuration"

    def __init__(self, *, dimension: int) -> None:
        """Name the dimension that does not fit."""
        super().__init__("refresh configuration is not valid", dimension=dimension)


class Row(NamedTuple):
    """A text to embed, under the id that its vector will have."""

    record_id: str
    text: str


Batch = list[Row]


class ExecutionBounds(BaseModel):
    """How much goes to a provider at once, how often and how long; a part of the generation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_batch_inputs: Count = Field(default=64, description="Texts in a batch")
    max_batch_text_bytes: Count = Field(default=262_144, description="Text of a batch")
    max_input_text_bytes: Count = Field(default=65_536, description="One text")
    max_request_inputs: Count = Field(default=4096, description="Texts in a request")
    max_request_text_bytes: Count = Field(default=16_777_216, description="Text of a request")
    max_batch_vector_bytes: Count = Field(default=33_554_432, description="Vectors of a batch")
    max_request_vector_bytes: Count = Field(default=67_108_864, description="Vectors of a request")
    max_retries: int = Field(default=2, ge=0, le=8, description="Tries after the first one")
    base_retry_delay_ms: int = Field(
        default=100, ge=0, le=300_000, description="Wait before the first retry, then doubled"
    )
    max_retry_delay_ms: int = Field(
        default=2000, ge=0, le=300_000, description="Longest wait, also when the provider asks"
    )
    request_timeout_ms: int = Field(
        default=30_000, gt=0, le=300_000, description="How long a provider may take to answer"
    )

    @model_validator(mode="after")
    def _has_room_for_one_text(self) -> "ExecutionBounds":
        if self.max_input_text_bytes > min(self.max_batch_text_bytes, self.max_request_text_bytes):
            message = "max_input_text_bytes: the longest text must fit into a batch and a request"
            raise ValueError(message)
        return self

    def list_integers(self) -> tuple[int, ...]:
        """List the 14 integers of the execution digest, in its order.

        Source: spec/refresh.md R2 and R37.
        """
        delays = (self.base_retry_delay_ms, self.max_retry_delay_ms, self.request_timeout_ms)
        return (
            self.max_batch_inputs,
            self.max_batch_text_bytes,
            self.max_input_text_bytes,
            self.max_request_inputs,
            self.max_request_text_bytes,
            self.max_batch_vector_bytes,
            self.max_request_vector_bytes,
            self.max_retries,
            *(part for delay in delays for part in _seconds_and_nanos(delay)),
        )

    def count_nodes(self, dimension: int, *, index_max_records: int = MAX_NODES) -> int:
        """Count the rows that one request may have.

        Raises:
            InvalidConfigurationError: Not even one vector fits.
        """
        vectors = self.max_request_vector_bytes // (BYTES_PER_COMPONENT * dimension)
        nodes = min(self.max_request_inputs, index_max_records, vectors, MAX_NODES)
        if nodes < 1:
            raise InvalidConfigurationError(dimension=dimension)
        return nodes

    def choose_delay_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Choose the wait after a failed try, the first one being 0, in seconds."""
        wanted_ms = float(self.base_retry_delay_ms * 2**attempt)
        if retry_after_s is not None:
            wanted_ms = retry_after_s * _MS_PER_S
        return max(0.0, min(wanted_ms, self.max_retry_delay_ms)) / _MS_PER_S

    def measure_stretch_s(self) -> float:
        """Measure the longest time that one batch can take, all tries and waits, in seconds."""
        waits = sum(self.choose_delay_s(attempt, None) for attempt in range(self.max_retries))
        return self.request_timeout_ms / _MS_PER_S * (self.max_retries + 1) + waits


class FailureBudget(BaseModel):
    """How many rows of a round may fail before the whole round does; no part of the generation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    on_row_failure: Literal["publish_partial", "fail_run"] = Field(
        default="publish_partial", description="Whether the first failed row fails the run"
    )
    max_failed_rows: int = Field(default=100, ge=0, description="Rows that may fail")
    max_failed_ratio: float = Field(default=0.5, ge=0, le=1, description="Share that may fail")
    ratio_min_rows: Count = Field(default=10, description="Rows from which the share counts")

    def is_over(self, *, failed: int, sent: int) -> bool:
        """Tell whether too many of the rows sent have failed; the bounds themselves pass."""
        over_ratio = sent >= self.ratio_min_rows and failed > self.max_failed_ratio * sent
        return failed > self.max_failed_rows or over_ratio


def pack_rows(rows: Sequence[Row], bounds: ExecutionBounds, dimension: int) -> list[Batch]:
    """Pack rows into batches in their order; a batch closes before it would exceed a bound.

    A request is a run of batches with bounds of its own, so a batch ends where a request does.

    Source: spec/refresh.md R36.

    Raises:
        InvalidConfigurationError: Not even one vector fits into a batch or a request.
    """
    vectors = bounds.max_batch_vector_bytes // (BYTES_PER_COMPONENT * dimension)
    inputs = min(bounds.max_batch_inputs, vectors)
    nodes = bounds.count_nodes(dimension)
    if inputs < 1:
        raise InvalidConfigurationError(dimension=dimension)
    return [
        batch
        for request in _cut(rows, nodes, bounds.max_request_text_bytes)
        for batch in _cut(request, inputs, bounds.max_batch_text_bytes)
    ]


def _cut(rows: Sequence[Row], max_rows: int, max_bytes: int) -> Iterator[Batch]:
    batch: Batch = []
    used = 0
    for row in rows:
        size = len(row.text.encode())
        if batch and (len(batch) == max_rows or used + size > max_bytes):
            yield batch
            batch, used = [], 0
        batch.append(row)
        used += size
    if batch:
        yield batch


def _seconds_and_nanos(delay_ms: int) -> tuple[int, int]:
    seconds, rest_ms = divmod(delay_ms, _MS_PER_S)
    return seconds, rest_ms * _NANOS_PER_MS
