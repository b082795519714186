"""refresh as a job: the work of a request on one namespace, and what it would do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from storage.epochs import enter_epoch
from storage.errors import LeaseHeldError
from storage.fresh import new_uuid
from storage.history import History, read_history_of_store, settle_history
from storage.identities import derive_authority
from storage.index_errors import ConfigurationError, IndexUnreadableError
from storage.leases import (
    Lease,
    acquire_lease,
    is_cancel_requested,
    keep_lease,
    release_lease,
)
from storage.namespaces import StoredNamespace
from storage.partitions import Partition
from storage.runs import RunEnd, read_last_code
from storage.vectors import VectorStore
from tasks.policies import RefreshPolicy
from tasks.providers.bounds import ExecutionBounds, FailureBudget
from tasks.providers.embedder import Embedder
from tasks.providers.registry import find_traits
from tasks.providers.weights import EmbedderSetupError
from tasks.refresh.binding import build_binding, find_partition
from tasks.refresh.ending import end_failed, end_refreshed
from tasks.refresh.rows import foresee
from tasks.refresh.run import refresh
from tasks.refresh.settings import RefreshSettings
from tasks.refresh.source import StoreSource
from tasks.refresh.work import Work
from tasks.report import Performed, end_with_error
from tasks.requests import EmbedderChoice, JobRequest, OnBatch

# What one table of vectors is made for (DESIGN §8).
MAX_RECORDS = 5_000_000
_BYTES_BESIDE_VECTOR = 1_024
# A provider that is paid for has a budget even if the policy names none (DESIGN 10.20).
_PAID_BUDGET = 4_096
_PAID = "http"
_CANCEL_POLL = timedelta(seconds=1)
# What a preview works under: it writes nothing, so there is nothing to fence.
_NO_LEASE = Lease("", -1, "refresh", "", 0, 0)


def perform_refresh(
    request: JobRequest, target: StoredNamespace, lease: Lease, on_batch: OnBatch | None = None
) -> Performed:
    """Refresh the index of a namespace, under a lease that the caller gives back.

    An index that neither this run nor the one before it could read is made anew (R33).
    """
    try:
        choice, embedder = find_embedder(request)
        check_lease_ttl(choice.name, ExecutionBounds(), lease.ttl_s)
    except (ConfigurationError, EmbedderSetupError) as error:
        code = ConfigurationError.code
        return Performed(RunEnd("refused", code=code, error=str(error)), error)
    if not _read_policy(request).recreate_index:
        return _refresh(request, target, lease, choice=choice, embedder=embedder, on_batch=on_batch)
    try:
        with _rebuild_lease(request, target, lease):
            return _refresh(
                request, target, lease, choice=choice, embedder=embedder, on_batch=on_batch
            )
    except LeaseHeldError as error:
        return Performed(end_with_error(error, None), error)


@contextmanager
def _rebuild_lease(request: JobRequest, target: StoredNamespace, lease: Lease) -> Iterator[None]:
    """Keep everybody else from the vector tables, whatever the namespace (DESIGN 5)."""
    store = request.handle()
    with store.write() as writer:
        taken = acquire_lease(
            writer,
            target,
            "rebuild",
            holder=lease.holder,
            clock=request.clock(),
            ttl_s=lease.ttl_s,
        )
    try:
        yield
    finally:
        with store.write() as writer:
            release_lease(writer, taken, clock=request.clock())


def _refresh(  # noqa: PLR0913 - who asks for what, and what was found for it
    request: JobRequest,
    target: StoredNamespace,
    lease: Lease,
    *,
    choice: EmbedderChoice,
    embedder: Embedder,
    on_batch: OnBatch | None,
) -> Performed:
    store, clock = request.handle(), request.clock()
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock)
        history = settle_history(writer, store.path, clock=clock)
        partition = configure_partition(target, history, choice.name, embedder)
        enter_epoch(writer, lease, generation=partition.generation, clock=clock)
        last = read_last_code(writer, target.namespace_id, lease.job)
    work = _make_work(request, target, lease, partition, embedder)
    work.on_batch = on_batch
    work.should_stop = _watch_cancel(work)
    done = _perform(work)
    if isinstance(done.error, IndexUnreadableError) and last == IndexUnreadableError.code:
        with _rebuild_lease(request, target, lease):
            work.settings = replace(work.settings, recreate_index=True)
            return _perform(work)
    return done


def _watch_cancel(work: Work) -> Callable[[], bool]:
    """Ask the lease, once a second at most, whether the run is to end before its commit point."""
    asked_at: datetime | None = None

    def should_stop() -> bool:
        nonlocal asked_at
        now = work.clock()
        if asked_at is not None and now - asked_at < _CANCEL_POLL:
            return False
        asked_at = now
        with work.store.read() as reader:
            return is_cancel_requested(reader, work.lease)

    return should_stop


def _perform(work: Work) -> Performed:
    try:
        return Performed(end_refreshed(work, refresh(work)))
    except Exception as error:  # noqa: BLE001 - every error becomes the run's outcome
        return Performed(end_failed(work, error), error)


def preview_refresh(request: JobRequest, target: StoredNamespace) -> dict[str, Any]:
    """Tell what a refresh would do with each active memory; nothing is embedded or written.

    Returns:
        found, reasons {embed, reuse, defer, skip: count} and decisions, as plans have them.
    """
    choice, embedder = find_embedder(request)
    store = request.handle()
    with store.read() as reader:
        history = read_history_of_store(reader, store.path)
    partition = configure_partition(target, history, choice.name, embedder)
    work = _make_work(request, target, _NO_LEASE, partition, embedder)
    rows = foresee(work, work.source.take_view())
    reasons: dict[str, int] = {}
    for row in rows:
        reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    return {"found": len(rows), "reasons": dict(sorted(reasons.items())), "decisions": rows}


def find_embedder(request: JobRequest) -> tuple[EmbedderChoice, Embedder]:
    """Load the embedder that a request chooses.

    Raises:
        ConfigurationError: The request chooses none.
        EmbedderSetupError: It cannot be loaded.
    """
    if request.embedder is None:
        raise ConfigurationError(field="embedder")
    return request.embedder, request.embedder.load()


def check_lease_ttl(name: str, bounds: ExecutionBounds, ttl_s: float) -> None:
    """Refuse a lease that a batch over the network could outlast (spec/maintenance.md R13).

    Raises:
        ConfigurationError: The lease is shorter than twice the longest stretch.
    """
    stretch_s = bounds.measure_stretch_s()
    if name == _PAID and ttl_s < 2 * stretch_s:
        raise ConfigurationError(lease_ttl_s=ttl_s, longest_stretch_s=stretch_s)


def configure_partition(
    target: StoredNamespace, history: History, name: str, embedder: Embedder
) -> Partition:
    """Find the partition that an embedder fills, with its measured recall defaults."""
    identity, recall = embedder.identity, find_traits(name).recall
    binding = build_binding(
        derive_authority(history.store_uuid),
        identity,
        ExecutionBounds(),
        candidate_limit=recall.candidate_limit,
        min_score=recall.min_score,
        max_records=MAX_RECORDS,
        max_bytes=MAX_RECORDS * (4 * identity.dimension + _BYTES_BESIDE_VECTOR),
    )
    return find_partition(target, binding)


def _make_work(
    request: JobRequest,
    target: StoredNamespace,
    lease: Lease,
    partition: Partition,
    embedder: Embedder,
) -> Work:
    name = request.embedder.name if request.embedder is not None else ""
    store, settings = request.handle(), _read_settings(request, name)
    return Work(
        store=store,
        vectors=VectorStore(store.path),
        target=target,
        lease=lease,
        partition=partition,
        embedder=embedder,
        bounds=ExecutionBounds(),
        settings=settings,
        source=StoreSource(store, target, settings),
        clock=request.clock,
        new_id=lambda: new_uuid().replace("-", ""),
        marks_crashes=find_traits(name).may_crash,
    )


def _read_policy(request: JobRequest) -> RefreshPolicy:
    return RefreshPolicy.model_validate(request.policy.model_dump())


def _read_settings(request: JobRequest, name: str) -> RefreshSettings:
    policy = _read_policy(request)
    budget = policy.max_embed_per_run or (_PAID_BUDGET if name == _PAID else None)
    return RefreshSettings(
        source_rounds=policy.source_rounds,
        max_embed_per_run=budget,
        failures=FailureBudget(
            on_row_failure=policy.on_row_failure,
            max_failed_rows=policy.max_failed_rows,
            max_failed_ratio=policy.max_failed_share,
        ),
        recreate_index=policy.recreate_index,
    )
