"""consolidate: the executor. A batch is one transaction; a cluster is merged or left alone.

A failing batch is redone in smaller ones, down to a single change set. Killed at any point, the
next run goes on from the receipts. Source: spec/consolidate.md R56-R58, DESIGN 10.1.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from storage import Store, StoreWriter
from storage.applying import ApplyContext, record_failure
from storage.errors import FenceLostError, PlanRefusedError, StorageError, StoreBusyError
from storage.leases import Lease, keep_lease
from storage.merging import Dealt, PendingMerge, list_pending, record_outcomes
from storage.plans import PlanHeader
from tasks.consolidate.linking import link_conflicts
from tasks.consolidate.recording import Author, Ledger, open_ledger
from tasks.consolidate.seed import SEED_PROFILE
from tasks.consolidate.summarising import refine_plan
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
        FenceLostError: Another run took over the lease; nothing more was written.
        StoreBusyError: The store's lock was not free in time.
    """
    policy = ConsolidatePolicy.model_validate(plan.policy)
    _check_profile(plan, policy)
    store = request.handle()
    _merge_all(store, plan, lease, clock=request.clock, on_batch=on_batch)
    figures: dict[str, int] = {}
    if policy.conflict_mode != "report":
        is_marking = policy.conflict_mode == "mark"
        figures |= link_conflicts(store, plan, lease, is_marking=is_marking, clock=request.clock)
    if policy.refine:
        figures |= refine_plan(request, plan, policy, lease)
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
        except (FenceLostError, StoreBusyError):
            raise
        except StorageError as error:
            if size > 1:
                size = max(1, size // 4)
                continue
            done = _fail_next(store, plan, lease, error, clock=clock())
        if done == 0:
            return
        if on_batch is not None:
            on_batch(done)


def _fail_next(
    store: Store, plan: PlanHeader, lease: Lease, error: StorageError, *, clock: datetime
) -> int:
    cause = str(error.facts.get("cause", type(error).__name__))
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock)
        record_failure(writer, _context(plan, lease, clock), cause)
    return 1


def _context(plan: PlanHeader, lease: Lease, clock: datetime) -> ApplyContext:
    return ApplyContext(plan.plan_id, lease.holder, plan.namespace_id, plan.now, clock)


def _apply_next(store: Store, plan: PlanHeader, lease: Lease, *, size: int, clock: datetime) -> int:
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock)
        context = _context(plan, lease, clock)
        pending = list_pending(writer, context, size=size)
        if pending:
            _apply_batch(writer, context, pending)
        return len(pending)


def _apply_batch(
    writer: StoreWriter, context: ApplyContext, pending: Sequence[PendingMerge]
) -> None:
    author = Author(
        context.namespace_id, context.plan_id, context.run_id, context.now, context.clock
    )
    canonicals = {one.canonical_id for one in pending if one.is_canonical_same}
    losers = {one.loser_id for one in pending if one.is_same and one.is_canonical_same}
    ledger = open_ledger(writer, author, canonicals, losers)
    dealt = [one for chunk in _split(pending) for one in _merge(ledger, chunk)]
    ledger.commit(writer)
    record_outcomes(writer, context, dealt, ledger.stage)


def _split(pending: Sequence[PendingMerge]) -> Iterator[list[PendingMerge]]:
    """Yield the losers of one canonical as change sets take them in."""
    for _, group in groupby(pending, key=lambda one: one.canonical_id):
        losers = list(group)
        for start in range(0, len(losers), MAX_LOSERS):
            yield losers[start : start + MAX_LOSERS]


def _merge(ledger: Ledger, losers: Sequence[PendingMerge]) -> Iterator[Dealt]:
    """Merge the losers of one canonical that are as they were planned."""
    if not losers[0].is_canonical_same:
        yield from (Dealt(one.position, _CANONICAL_CHANGED) for one in losers)
        return
    same = [one for one in losers if one.is_same]
    yield from (Dealt(one.position, _CHANGED) for one in losers if not one.is_same)
    if same:
        done = ledger.merge(same[0].canonical_id, [one.loser_id for one in same])
        for one in same:
            outcome = done.skipped.get(one.loser_id, _APPLIED)
            revision = ledger.stage.memories[one.loser_id].current.revision
            yield Dealt(one.position, outcome, revision)
