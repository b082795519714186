"""The guard and the executor of plans: judged once, then applied batch by batch."""

from collections.abc import Callable
from datetime import datetime

from storage import Store, StoreReader
from storage.applying import (
    ApplyContext,
    apply_batch,
    find_next,
    record_failure,
)
from storage.errors import FenceLostError, PlanRefusedError, StorageError, StoreBusyError
from storage.leases import Lease, keep_lease
from storage.plans import PlanHeader
from tasks.limits import SafetyLimits
from tasks.requests import Clock, OnBatch

Allow = Callable[[StoreReader, PlanHeader, str], int | None]


def guard_plan(
    plan: PlanHeader, limits: SafetyLimits, *, confirm_plan_id: str | None = None
) -> None:
    """Refuse a plan that removes too much, unless exactly this plan was confirmed.

    Source: spec/prune.md R18, spec/sweep.md R18.

    Raises:
        PlanRefusedError: A limit was hit, or another plan was confirmed.
    """
    if confirm_plan_id is not None:
        if confirm_plan_id != plan.plan_id:
            raise PlanRefusedError(plan.plan_id, "confirm_plan_id")
        return
    total = plan.planned + plan.carried
    figures = {"planned": total, "visible": plan.visible}
    if limits.max_rows is not None and total > limits.max_rows:
        raise PlanRefusedError(plan.plan_id, "max_rows", **figures, allowed=limits.max_rows)
    allowed = limits.allowed(plan.visible)
    if allowed is not None and plan.judged > allowed:
        figures["planned"] = plan.judged
        raise PlanRefusedError(plan.plan_id, "max_fraction", **figures, allowed=allowed)


def apply_plan(  # noqa: PLR0913 - store, what, whose, and three callbacks
    store: Store,
    plan: PlanHeader,
    lease: Lease,
    *,
    allow: Allow,
    clock: Clock,
    on_batch: OnBatch | None = None,
) -> None:
    """Execute a stored plan: every decision gets its outcome, applied ones a receipt.

    A batch is one transaction. If writing it fails, smaller ones are tried, down to single rows, so
    that one bad row costs only itself. Killed at any point, the next run goes on from the receipts.

    Args:
        store: The store; no lock may be held.
        plan: The header of the stored plan.
        lease: The lease of the run, checked and prolonged in every transaction.
        allow: How many rows of a reason may go, from the rows as they are now.
        clock: Wall time, for the lease and the receipts.
        on_batch: Told how many decisions were dealt with, after each transaction.

    Raises:
        FenceLostError: Another run took over the lease; nothing more was written.
        StoreBusyError: The store's lock was not free in time.
    """
    size = plan.batch_size
    while True:
        try:
            done = _apply_next(store, plan, lease, size=size, allow=allow, clock=clock)
            size = min(size * 2, plan.batch_size)
        except (FenceLostError, StoreBusyError):
            raise
        except StorageError as error:
            if size > 1:
                size = max(1, size // 4)
                continue
            done = _record_failure(store, plan, lease, error, clock=clock())
        if done == 0:
            return
        if on_batch is not None:
            on_batch(done)


def _apply_next(  # noqa: PLR0913 - the pieces of one transaction
    store: Store, plan: PlanHeader, lease: Lease, *, size: int, allow: Allow, clock: Clock
) -> int:
    with store.write() as writer:
        context = _context(plan, lease, clock())
        keep_lease(writer, lease, clock=context.clock)
        batch = find_next(writer, context)
        if batch is None:
            return 0
        allowance = allow(writer, plan, batch.reason)
        return apply_batch(writer, context, batch, size=size, allowance=allowance)


def _record_failure(
    store: Store, plan: PlanHeader, lease: Lease, error: StorageError, *, clock: datetime
) -> int:
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock)
        cause = str(error.facts.get("cause", type(error).__name__))
        record_failure(writer, _context(plan, lease, clock), cause)
    return 1


def _context(plan: PlanHeader, lease: Lease, clock: datetime) -> ApplyContext:
    return ApplyContext(plan.plan_id, lease.holder, plan.namespace_id, plan.now, clock)
