"""One refresh of one namespace, step by step as spec/refresh.md 3.1.

Expensive work happens outside of transactions; what decides is compared and set inside one.
"""

from dataclasses import dataclass, replace

from storage.attempts import has_due
from storage.errors import MaintenanceError
from storage.index_errors import NoRowsEmbeddedError, SourceChangedError
from storage.partitions import Observation
from storage.publications import Counts, Publication, is_same_set, read_publication
from storage.receipts import Receipt, read_receipt
from tasks.providers.embedder import Vector
from tasks.refresh.publish import prove, prove_nothing, prove_view, publish, stage
from tasks.refresh.recover import adopt, recover
from tasks.refresh.rows import Prepared, collect_vectors, prepare
from tasks.refresh.source import Token, View
from tasks.refresh.verify import take_back, verify
from tasks.refresh.work import Reason, Refreshed, Work
from tasks.signals import hold_sigterm


@dataclass(frozen=True, slots=True)
class _Start:
    """What the run knew before it took a snapshot; `adopted` rows are its own result."""

    seen: Observation
    token: Token | None
    receipt: Receipt | None
    adopted: int | None
    is_pending: bool


def refresh(work: Work) -> Refreshed:
    """Bring the index of a namespace up to its active memories.

    Raises:
        RefreshError: The run did not hold; the class says what is served now.
        EmbeddingRoundError: The embedder failed as a whole; nothing was staged.
        LimitExceededError: Over a budget.
        FenceLostError: Another run has taken the lease over.
    """
    recover(work)
    start = _observe(work)
    done = _match_token(work, start)
    if done is not None:
        return done
    pool: dict[str, Vector] = {}
    for left in reversed(range(work.settings.source_rounds)):
        view = _take_view(work, start)
        if not pool and left == work.settings.source_rounds - 1:
            done = _match_view(work, start, view)
            if done is not None:
                return done
        prepared = prepare(work, view, pool)
        if not prepared.is_whole and left:
            continue
        try:
            return _publish(work, start, view, prepared)
        except SourceChangedError:
            if not left or not work.source.is_co_transactional:
                raise
    raise SourceChangedError


def _observe(work: Work) -> _Start:
    """Look at the index, the token and the evidence; adopt first what a killed run flipped to.

    The store's own token is read in the transaction of the pointer, one from elsewhere after it.
    """
    start = _look(work)
    adopted = adopt(work, start.seen)
    if adopted is None and not work.counters.invalidated:
        return start
    work.counters.token_requests = work.counters.token_observations = 0
    return replace(_look(work), adopted=adopted.counts.published if adopted else None)


def _look(work: Work) -> _Start:
    work.on_step("observe")
    if work.source.is_co_transactional:
        work.on_step("token_1")
    with work.store.read() as reader:
        glimpse = work.glimpse(reader)
        stored = read_receipt(reader, glimpse.pointer.receipt_id)
        is_due = has_due(reader, work.partition.name, clock=work.clock())
        token = None
        if work.source.is_co_transactional:
            token = work.take_token(lambda: work.source.read_token_in(reader))
    seen = work.count(glimpse)
    if not work.source.is_co_transactional:
        work.on_step("token_1")
        token = work.read_token()
    receipt = _find_receipt(work, seen, stored)
    is_pending = is_due or (receipt is not None and receipt.counts.deferred > 0)
    return _Start(seen, token, receipt, None, is_pending)


def _find_receipt(work: Work, seen: Observation, stored: Receipt | None) -> Receipt | None:
    """Give the receipt if it is evidence about what is observed."""
    if stored is None or seen.pointer.phase == "published" or work.settings.recreate_index:
        return None
    if work.owner is not None and stored.receipt_id not in work.owner.receipts:
        return _from_checkpoint(work, seen, stored)
    history = work.settled_history.digest
    proves = stored.proves(seen, generation=work.partition.generation, store_history=history)
    return stored if proves else None


def _from_checkpoint(work: Work, seen: Observation, stored: Receipt) -> Receipt | None:
    """Take an owner's checkpoint for its receipt; without a token it proves no unchanged tick."""
    held = work.owner.checkpoint if work.owner is not None else None
    if held is None or held.index_token is None:
        return None
    token, status = held.index_token, held.index_status
    claimed = replace(
        stored,
        snapshot_digest=held.snapshot_digest,
        snapshot_bytes=held.snapshot_bytes,
        source_token=None,
        generation=held.generation,
        counts=Counts(active=held.active_count, published=held.published_count),
        index_history=token.history_digest,
        index_revision=status.revision,
        partition_count=status.partition_count,
        record_count=status.record_count,
        byte_count=status.byte_count,
    )
    history = work.settled_history.digest
    proves = claimed.proves(seen, generation=work.partition.generation, store_history=history)
    return claimed if proves else None


def _match_token(work: Work, start: _Start) -> Refreshed | None:
    """Prove by the token alone that nothing has changed (R21)."""
    receipt = start.receipt
    is_ours = work.source.is_co_transactional or work.owner is not None
    if receipt is None or start.token is None or not is_ours or start.is_pending:
        return None
    if receipt.source_token != start.token.sequence:
        return None
    return _unchanged(start, "token_match", receipt)


def _unchanged(start: _Start, reason: Reason, receipt: Receipt) -> Refreshed:
    if start.adopted is not None:
        return Refreshed("adopted", receipt.counts, affected=start.adopted)
    return Refreshed(reason, receipt.counts)


def _take_view(work: Work, start: _Start) -> View:
    """Take a snapshot with the second reading of the token (R14, R15)."""
    work.on_step("snapshot_1")
    if work.source.is_co_transactional:
        work.on_step("token_2")
    view = work.take_view(with_token=True)
    if work.source.is_co_transactional:
        return view
    if start.token is None:
        return replace(view, token=None)
    work.on_step("token_2")
    second = work.read_token()
    if second is not None and second != start.token:
        raise SourceChangedError
    return replace(view, token=second)


def _match_view(work: Work, start: _Start, view: View) -> Refreshed | None:
    """Prove by the snapshot that no active memory has changed (R22)."""
    receipt = start.receipt
    if receipt is None or start.is_pending or receipt.snapshot_digest != view.digest:
        return None
    ended = _unchanged(start, "snapshot_match", receipt)
    # The new receipt has the newer token, for what is served already.
    proof = prove_view(view, ended.counts, _read_served(work, receipt))
    _own(work, prove(work, start.seen, proof, ended))
    return ended


def _read_served(work: Work, receipt: Receipt) -> Publication | None:
    with work.store.read() as reader:
        return read_publication(reader, receipt.publication_id or "")


def _publish(work: Work, start: _Start, view: View, prepared: Prepared) -> Refreshed:
    counts, seen = prepared.counts, start.seen
    proof = replace(prove_view(view, counts), records=prepared.records)
    if counts.published == 0:
        if counts.failed or counts.deferred:
            raise NoRowsEmbeddedError
        ended = Refreshed("published_empty", counts)
        if not _is_current(work, view):
            raise SourceChangedError
        proof = replace(proof, failures=prepared.failures)
        _own(work, prove_nothing(work, seen, proof, ended), prepared)
        return ended
    if start.receipt is not None and _is_same(work, start.receipt, view, prepared):
        ended = Refreshed("set_match", counts)
        served = _read_served(work, start.receipt)
        proof = replace(proof, publication=served, failures=prepared.failures)
        _own(work, prove(work, seen, proof, ended))
        return ended
    publication = stage(work, seen, view, prepared)
    with hold_sigterm():
        publish(work, publication, prepared)
        _check_source(work, view, publication)
        after = verify(work, publication)
        ended = Refreshed("published", counts, affected=counts.published)
        proof = replace(proof, publication=publication)
        _own(work, prove(work, after, proof, ended), prepared)
    return ended


def _is_same(work: Work, receipt: Receipt, view: View, prepared: Prepared) -> bool:
    """Tell whether exactly these rows are served already (R23)."""
    if receipt.snapshot_digest != view.digest or receipt.publication_id is None:
        return False
    rows = prepared.rows.select(["memory_id", "revision", "content_digest"])
    with work.store.read() as reader:
        return is_same_set(reader, receipt.publication_id, rows)


def _check_source(work: Work, view: View, publication: Publication) -> None:
    """Take a flip back if a source outside of the store has moved since (R15)."""
    try:
        is_same = _is_current(work, view)
    except MaintenanceError:
        take_back(work, publication)
        raise
    if not is_same:
        take_back(work, publication)
        raise SourceChangedError


def _is_current(work: Work, view: View) -> bool:
    """Ask a source outside of the store whether the view is still what it holds."""
    if work.source.is_co_transactional:
        return True
    work.on_step("token_3")
    third = work.read_token() if view.token is not None else None
    if third is None:
        return work.take_view(with_token=False).digest == view.digest
    return third == view.token


def _own(work: Work, receipt: Receipt, prepared: Prepared | None = None) -> None:
    """Remember the evidence, and the vectors, of a process that keeps its own."""
    if work.owner is None:
        return
    work.owner.checkpoint = None
    work.owner.receipts = {receipt.receipt_id: receipt}
    if prepared is not None:
        work.owner.vectors = collect_vectors(prepared.rows)
