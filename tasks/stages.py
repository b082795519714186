"""The stages of a run, in order: lease, plan, guard, apply, finish.

Each is a plain function over paths, ids and small records, so that the inline runner calls them
directly and a flow calls the same ones as Prefect tasks.
"""

from dataclasses import replace
from datetime import datetime

from storage import open_store
from storage.epochs import enter_epoch
from storage.errors import AdmissionError, LeaseHeldError, PlanRefusedError, StoreBusyError
from storage.leases import Lease, acquire_lease, keep_lease, release_lease
from storage.namespaces import StoredNamespace, list_namespaces, read_namespace
from storage.plans import PlanHeader, count_outcomes, has_receipt, read_plan, store_plan
from storage.runs import (
    Mode,
    RunEnd,
    RunStart,
    begin_run,
    finish_run,
    note_plan,
    record_skipped,
)
from tasks.apply import apply_plan, guard_plan
from tasks.jobs import DIRECT_JOBS, find_job
from tasks.report import count_up, end_planned
from tasks.requests import JobRequest, OnBatch


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
) -> Lease | LeaseHeldError | StoreBusyError:
    """Take the lease and open the run's row, or say why not: being busy is no fault."""
    clock = request.clock()
    try:
        with request.handle().write() as writer:
            lease = acquire_lease(
                writer, target, request.job, holder=run_id, clock=clock, ttl_s=request.lease_ttl_s
            )
            begin_run(writer, _start(request, target, run_id, clock), lease_fence=lease.fence)
            if request.job not in DIRECT_JOBS:
                enter_epoch(writer, lease, clock=clock)
    except (LeaseHeldError, StoreBusyError) as error:
        return error
    return lease


def plan_stage(request: JobRequest, target: StoredNamespace, lease: Lease) -> PlanHeader:
    """Make the plan and store it; an empty plan is stored only where a plan was asked for."""
    store = request.handle()
    if request.plan_id is not None:
        with store.write() as writer:
            keep_lease(writer, lease, clock=request.clock())
            note_plan(writer, lease.holder, request.plan_id)
            return read_plan(writer, request.plan_id)
    job = find_job(request.job)
    with store.read() as reader:
        plan = job.plan(reader, request.policy, namespace=target, now=request.now)
    if plan.header.planned or request.mode == "plan":
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
    store = request.handle()
    allow = find_job(request.job).allow
    apply_plan(store, plan, lease, allow=allow, clock=request.clock, on_batch=on_batch)
    with store.read() as reader:
        return count_up(plan, count_outcomes(reader, plan.plan_id, lease.holder))


def end_stage(plan: PlanHeader, mode: Mode) -> RunEnd | None:
    """End a run that has nothing to apply: a plan was asked for, or there is nothing to do."""
    if mode == "plan":
        return end_planned(plan)
    if plan.planned == 0:
        return replace(count_up(plan, {}), plan_id=None)
    return None


def finish_stage(request: JobRequest, lease: Lease, end: RunEnd) -> None:
    """Write the run's outcome and give the lease back, in one transaction."""
    with request.handle().write() as writer:
        finish_run(writer, lease.holder, end, clock=request.clock())
        release_lease(writer, lease, clock=request.clock())


def skip_stage(request: JobRequest, target: StoredNamespace, run_id: str, end: RunEnd) -> None:
    """Write the row of a run that did not get its lease."""
    with request.handle().write() as writer:
        record_skipped(writer, _start(request, target, run_id, request.clock()), end)


def _start(request: JobRequest, target: StoredNamespace, run_id: str, clock: datetime) -> RunStart:
    return RunStart(
        run_id=run_id,
        job=request.job,
        namespace_id=target.namespace_id,
        mode=request.mode,
        trigger=request.trigger,
        now=request.now,
        started_at=clock,
        flow_run_id=request.flow_run_id,
    )
