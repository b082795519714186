"""consolidate: the executor. A batch is one transaction; a cluster is merged or left alone.

A batch is whole change sets; a failing one is redone in smaller ones, down to one change set, whose
losers count as failed. Killed at any point, the next run goes on from the receipts.
Source: spec/consolidate.md R56-R58, DESIGN 10.1.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from storage import Store, StoreWriter
from storage.applying import ApplyContext, record_failure
from storage.errors import FenceLostError, MaintenanceError, PlanRefusedError, StoreBusyError
from storage.leases import Lease, keep_lease
from storage.merging import Dealt, MergeStage, PendingMerge, list_pending, record_outcomes
from storage.plans import PlanHeader
from storage.run_errors import RunCancelledError
from tasks.consolidate.linking import link_conflicts
from tasks.consolidate.recording import Author, Ledger, open_ledger
from tasks.consolidate.seed import SEED_PROFILE
from tasks.consolidate.summarising import load_refiner, refine_plan
from tasks.duplicate_texts import PROFILE
from tasks.policies import ConsolidatePolicy
from tasks.requests import Clock, JobRequest, OnBatch
from tasks.rules.clusters import MAX_LOSERS

_CHANGED, _CANONICAL_CHANGED, _APPLIED = "changed_since_plan", "canonical_changed", "applied"


def apply_consolidation(
    request: JobRequest, plan: PlanHeader, lease: Lease, on_batch: OnBatch | None = None
) -> dict[str, int]:
    """Execute a stored plan: every loser gets its outcome, merged ones a receipt.

    Args:
        request: What was asked for; its clock is wall time, for the lease and the receipts.
        plan: The header of the stored plan.
        lease: The lease of the run, checked and prolonged in every transaction.
        on_batch: Told how many decisions were dealt with, after each transaction.

    Returns:
        What was done beside the decisions, counted.

    Raises:
        PlanRefusedError: The plan was made under another detection profile.
        AdmissionError: The policy wants a refiner, and there is none.
        FenceLostError: Another run took over the lease; nothing more was written.
        StoreBusyError: The store's lock was not free in time.
    """
    policy = ConsolidatePolicy.model_validate(plan.policy)
    _check_profile(plan, policy)
    # A run that cannot do all that is asked does nothing.
    refiner = load_refiner(request) if policy.refine else None
    store = request.handle()
    _merge_all(store, plan, lease, clock=request.clock, on_batch=on_batch)
    figures: dict[str, int] = {}
    if policy.conflict_mode != "report":
        is_marking = policy.conflict_mode == "mark"
        figures |= link_conflicts(store, plan, lease, is_marking=is_marking, clock=request.clock)
    if refiner is not None:
        figures |= refine_plan(request, plan, policy, lease, refiner)
    return figures


def _check_profile(plan: PlanHeader, policy: ConsolidatePolicy) -> None:
    if policy.profile != SEED_PROFILE:
        if plan.profile != PROFILE:
            raise PlanRefusedError(plan.plan_id, "profile")
    elif not policy.allow_seed_profile:
        raise PlanRefusedError(plan.plan_id, "allow_seed_profile")


def _merge_all(
    store: Store, plan: PlanHeader, lease: Lease, *, clock: Clock, on_batch: OnBatch | None
) -> None:
    size = plan.batch_size
    while True:
        try:
            done = _apply_next(store, plan, lease, size=size, clock=clock())
            size = min(size * 2, plan.batch_size)
        except (FenceLostError, RunCancelledError, StoreBusyError):
            raise
        except MaintenanceError as error:
            if size > 1:
                size = max(1, size // 4)
                continue
            done = _fail_next(store, plan, lease, error, clock=clock())
        if done == 0:
            return
        if on_batch is not None:
            on_batch(done)


def _fail_next(
    store: Store, plan: PlanHeader, lease: Lease, error: MaintenanceError, *, clock: datetime
) -> int:
    """Record that the next change set failed."""
    cause = str(error.facts.get("cause", type(error).__name__))
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock)
        context = _context(plan, lease, clock)
        (losers,) = _take_change_sets(list_pending(writer, context, size=MAX_LOSERS), size=1)
        settled, failed = _sort_out(losers)
        record_outcomes(writer, context, settled, MergeStage({}))
        for _ in failed:
            record_failure(writer, context, cause)
    return len(losers)


def _context(plan: PlanHeader, lease: Lease, clock: datetime) -> ApplyContext:
    return ApplyContext(plan.plan_id, lease.holder, plan.namespace_id, plan.now, clock)


def _apply_next(store: Store, plan: PlanHeader, lease: Lease, *, size: int, clock: datetime) -> int:
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock)
        context = _context(plan, lease, clock)
        pending = list_pending(writer, context, size=size + MAX_LOSERS)
        change_sets = _take_change_sets(pending, size=size)
        if change_sets:
            _apply_batch(writer, context, change_sets)
        return sum(map(len, change_sets))


def _apply_batch(
    writer: StoreWriter, context: ApplyContext, change_sets: Sequence[Sequence[PendingMerge]]
) -> None:
    author = Author(
        context.namespace_id, context.plan_id, context.run_id, context.now, context.clock
    )
    pending = [one for losers in change_sets for one in losers]
    canonicals = {one.canonical_id for one in pending if one.is_canonical_same}
    losers = {one.loser_id for one in pending if one.is_same and one.is_canonical_same}
    ledger = open_ledger(writer, author, canonicals, losers)
    dealt = [one for each in change_sets for one in _merge(ledger, each)]
    ledger.commit(writer)
    record_outcomes(writer, context, dealt, ledger.stage)


def _take_change_sets(
    pending: Sequence[PendingMerge], *, size: int
) -> list[Sequence[PendingMerge]]:
    """Take the first change sets that have so many losers at most together, at least one."""
    taken: list[Sequence[PendingMerge]] = []
    for losers in _split(pending):
        if taken and sum(map(len, taken)) + len(losers) > size:
            break
        taken.append(losers)
    return taken


def _split(pending: Sequence[PendingMerge]) -> Iterator[Sequence[PendingMerge]]:
    """Yield the losers of one canonical as change sets take them in."""
    for _, group in groupby(pending, key=lambda one: one.canonical_id):
        losers = list(group)
        for start in range(0, len(losers), MAX_LOSERS):
            yield losers[start : start + MAX_LOSERS]


def _sort_out(losers: Sequence[PendingMerge]) -> tuple[list[Dealt], list[PendingMerge]]:
    """Divide the losers of a canonical: settled ones, as something has changed, and the others."""
    if not losers[0].is_canonical_same:
        return [Dealt(one.position, _CANONICAL_CHANGED) for one in losers], []
    settled = [Dealt(one.position, _CHANGED) for one in losers if not one.is_same]
    return settled, [one for one in losers if one.is_same]


def _merge(ledger: Ledger, losers: Sequence[PendingMerge]) -> Iterator[Dealt]:
    """Merge the losers of one canonical that are as they were planned."""
    settled, same = _sort_out(losers)
    yield from settled
    if same:
        done = ledger.merge(same[0].canonical_id, [one.loser_id for one in same])
        for one in same:
            outcome = done.skipped.get(one.loser_id, _APPLIED)
            revision = ledger.stage.memories[one.loser_id].current.revision
            yield Dealt(one.position, outcome, revision)
