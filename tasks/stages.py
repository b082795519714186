"""The stages of a run, in order: lease, plan, guard, apply, finish.

Each is a plain function over paths, ids and small records, so that the inline runner calls them
directly and a flow calls the same ones as Prefect tasks.
"""

from dataclasses import replace

from storage import StoreReader, StoreWriter, open_store
from storage.control import read_phase
from storage.epochs import enter_epoch
from storage.errors import (
    AdmissionError,
    LeaseHeldError,
    MaintenanceError,
    PlanRefusedError,
    StoreBusyError,
)
from storage.instants import format_instant
from storage.leases import Lease, acquire_lease, keep_lease, release_lease
from storage.namespaces import StoredNamespace, list_namespaces, read_namespace
from storage.plans import PlanHeader, count_outcomes, has_receipt, read_plan, store_plan
from storage.run_errors import SlotMissedError, StoreNotRunningError
from storage.runs import (
    Mode,
    RunEnd,
    RunStart,
    begin_run,
    finish_run,
    note_plan,
    record_skipped,
)
from storage.slots import has_settled_day, read_activation, read_last_settled
from tasks.apply import guard_plan
from tasks.jobs import DIRECT_JOBS, find_job
from tasks.report import count_cut_short, count_up, end_planned, end_with_error
from tasks.requests import JobRequest, OnBatch
from tasks.rules.slots import find_day, judge_slot


def find_targets(request: JobRequest) -> tuple[JobRequest, list[StoredNamespace]]:
    """Resolve what the request is about; a confirmed plan is the plan that is applied.

    Raises:
        PlanNotFoundError: There is no stored plan with that id.
        AdmissionError: The plan belongs to another job, or the namespace does not exist.
    """
    plan_id = request.plan_id or request.confirm_plan_id
    store = open_store(request.store, lock_wait_s=request.lock_wait_s)
    with store.read() as reader:
        if plan_id is None:
            return request, _select(list_namespaces(reader), request)
        plan = read_plan(reader, plan_id)
        if plan.job != request.job:
            raise AdmissionError("plan", f"{plan_id} is a plan of {plan.job}")
        owner = read_namespace(reader, plan.namespace_id)
    if request.namespace is not None and request.namespace != owner.namespace:
        raise AdmissionError("namespace", f"{plan_id} is a plan of another namespace")
    return replace(request, plan_id=plan_id, now=plan.now), [owner]


def _select(stored: list[StoredNamespace], request: JobRequest) -> list[StoredNamespace]:
    namespace = request.namespace
    direct = DIRECT_JOBS.get(request.job)
    if direct is not None and direct.is_store_wide:
        if namespace is not None:
            raise AdmissionError("namespace", f"{request.job} works on the whole store")
        return stored[:1]
    chosen = [one for one in stored if namespace is None or one.namespace == namespace]
    if not chosen:
        raise AdmissionError("namespace", "the store has no such namespace")
    return chosen


def begin_stage(
    request: JobRequest, target: StoredNamespace, run_id: str
) -> Lease | MaintenanceError:
    """Take the lease and open the run's row, or store why not: to be skipped is no fault.

    Source: spec/maintenance.md 3.3; a store that stays locked gets no row.
    """
    start = _start(request, target, run_id)
    try:
        with request.handle().write() as writer:
            skipped = _find_skip(writer, request, start)
            if skipped is None:
                try:
                    return _grant(writer, request, target, start)
                except LeaseHeldError as error:
                    skipped = error
            record_skipped(writer, start, end_with_error(skipped, None))
            return skipped
    except StoreBusyError as error:
        return error


def _find_skip(
    reader: StoreReader, request: JobRequest, start: RunStart
) -> MaintenanceError | None:
    """Say why a run needs no lease: a pause, a closed store, or a slot that was missed."""
    phase = read_phase(reader, start.job)
    if phase != "running":
        return StoreNotRunningError(start.job, phase)
    # A stored plan was chosen by a person, also where a scheduled run made it.
    is_chosen = request.plan_id is not None or start.trigger == "manual"
    if start.slot is None or is_chosen:
        return None
    interval_s, owner = request.interval_s or 0, start.namespace_id
    missed = judge_slot(
        start.slot,
        last_settled=read_last_settled(reader, start),
        is_day_settled=start.slot_day is not None and has_settled_day(reader, start),
        activated_at=read_activation(reader, owner, start.job, interval_s=interval_s),
        interval_s=interval_s,
    )
    return SlotMissedError(start.job, format_instant(start.slot), missed) if missed else None


def _grant(
    writer: StoreWriter, request: JobRequest, target: StoredNamespace, start: RunStart
) -> Lease:
    lease = acquire_lease(
        writer,
        target,
        request.job,
        holder=start.run_id,
        clock=start.started_at,
        ttl_s=request.lease_ttl_s,
    )
    begin_run(writer, start, lease_fence=lease.fence)
    if request.job not in DIRECT_JOBS:
        enter_epoch(writer, lease, clock=start.started_at)
    return lease


def plan_stage(request: JobRequest, target: StoredNamespace, lease: Lease) -> PlanHeader:
    """Make the plan and store it; an empty plan is stored only where a plan was asked for."""
    store = request.handle()
    if request.plan_id is not None:
        with store.write() as writer:
            keep_lease(writer, lease, clock=request.clock())
            note_plan(writer, lease.holder, request.plan_id)
            return read_plan(writer, request.plan_id)
    plan = find_job(request.job).make_plan(store, request.policy, namespace=target, now=request.now)
    if plan.header.has_work or request.mode == "plan":
        with store.write() as writer:
            keep_lease(writer, lease, clock=request.clock())
            store_plan(writer, plan, clock=request.clock())
            note_plan(writer, lease.holder, plan.header.plan_id)
    return plan.header


def guard_stage(request: JobRequest, plan: PlanHeader) -> PlanRefusedError | None:
    """Judge the safety limits, unless the plan was begun already; give the refusal, if any."""
    with request.handle().read() as reader:
        is_begun = has_receipt(reader, plan.plan_id)
    if is_begun and request.confirm_plan_id in {None, plan.plan_id}:
        return None
    try:
        guard_plan(plan, request.limits, confirm_plan_id=request.confirm_plan_id)
    except PlanRefusedError as error:
        return error
    return None


def apply_stage(
    request: JobRequest, plan: PlanHeader, lease: Lease, on_batch: OnBatch | None = None
) -> RunEnd:
    """Apply the stored plan and add up what became of it."""
    figures = find_job(request.job).apply(request, plan, lease, on_batch)
    with request.handle().read() as reader:
        return count_up(plan, count_outcomes(reader, plan.plan_id, lease.holder), figures)


def end_stage(plan: PlanHeader, mode: Mode) -> RunEnd | None:
    """End a run that has nothing to apply: a plan was asked for, or there is nothing to do."""
    if mode == "plan":
        return end_planned(plan)
    if not plan.has_work:
        return replace(count_up(plan, {}), plan_id=None)
    return None


def fail_stage(
    request: JobRequest, plan: PlanHeader | None, lease: Lease, error: BaseException
) -> RunEnd:
    """End a run that an error stopped; batches that were committed before stay and count."""
    end = end_with_error(error, plan)
    if plan is None or end.outcome != "failed":
        return end
    with request.handle().read() as reader:
        return count_cut_short(end, plan, count_outcomes(reader, plan.plan_id, lease.holder))


def finish_stage(request: JobRequest, lease: Lease, end: RunEnd) -> None:
    """Write the run's outcome and give the lease back, in one transaction."""
    with request.handle().write() as writer:
        finish_run(writer, lease.holder, end, clock=request.clock())
        release_lease(writer, lease, clock=request.clock())


def _start(request: JobRequest, target: StoredNamespace, run_id: str) -> RunStart:
    slot, zone = request.slot, request.slot_zone
    return RunStart(
        run_id=run_id,
        job=request.job,
        namespace_id=target.namespace_id,
        mode=request.mode,
        trigger=request.trigger,
        now=request.now,
        started_at=request.clock(),
        flow_run_id=request.flow_run_id,
        slot=slot,
        slot_day=find_day(slot, zone) if slot is not None and zone is not None else None,
    )
