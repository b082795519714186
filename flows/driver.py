"""What the job flows share: from form to request, from results to a Prefect state."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect.client.schemas.objects import State
from prefect.runtime import deployment, flow_run

from flows.approval import is_waiting, settle_refused
from flows.edge import choose_embedder, choose_refiner, new_run_id, read_clock, read_settings
from flows.selector import Approval, NamespaceSelector
from storage import open_store
from storage.flow_runs import list_runs_of
from storage.instants import to_utc
from storage.models import Namespace, format_namespace
from storage.runs import Mode, Trigger
from tasks.artifacts import publish, report_results, report_steps
from tasks.limits import SafetyLimits
from tasks.maintaining import (
    MAINTAIN,
    attempt_job,
    attempt_jobs,
    find_step,
    judge_results,
    list_results,
    record_settled,
    run_maintain,
    tell_all,
)
from tasks.policies import Policy
from tasks.report import RunResult, describe_error, end_with_error
from tasks.requests import JobRequest, OnBatch
from tasks.rules.slots import Interval
from tasks.schedules import Cron, list_schedules, read_timings
from tasks.steps import MAX_TASK_RUNS, TaskCall, call_step, end_state, make_state

_STAGES = 5  # of one approved plan: begin, plan, guard, apply, finish


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForm:
    """The parameters of a job flow, apart from its policy."""

    store: str
    mode: Mode
    now: datetime | None
    trigger: Trigger
    namespace: NamespaceSelector | None = None
    limits: SafetyLimits = field(default_factory=SafetyLimits)
    plan_id: str | None = None
    confirm_plan_id: str | None = None
    approval: Approval = "refuse"
    slot: datetime | None = None


def name_run() -> str:
    """Name a run after its job, namespace and mode."""
    given: dict[str, Any] = flow_run.parameters
    chosen = given.get("namespace")
    where = "all"
    if chosen is not None:
        where = format_namespace(NamespaceSelector.model_validate(chosen).namespace())
    return f"{flow_run.flow_name} {where} {given.get('mode', '')}".rstrip()


def read_scheduled() -> datetime:
    """Read when this flow run was to start; Prefect gives a datetime of a kind of its own."""
    scheduled: datetime = flow_run.scheduled_start_time
    return to_utc(datetime.fromisoformat(scheduled.isoformat()))


def run_flow(job: str, policy: Policy, form: JobForm) -> State:
    """Run a job inside its flow; errors become the state, their text is never a stranger's."""
    try:
        request = _request(job, policy, form)
        # Only the run of a deployment can be started again after its wait.
        if form.approval == "refuse" or form.mode == "plan" or deployment.id is None:
            return _end(request, _run_once(request, MAX_TASK_RUNS))
        results = _read_earlier(request) or _run_once(request, MAX_TASK_RUNS - _STAGES)
        timeout_s = read_settings().approval_timeout_s
        apply = partial(_apply_refused, request)
        settled = settle_refused(results, timeout_s=timeout_s, apply=apply)
        _record_settled(request, results, settled)
        return _end(request, settled)
    except Exception as error:  # noqa: BLE001 - an exception's text would reach Prefect's database
        return end_early(error)


def _end(request: JobRequest, results: list[RunResult]) -> State:
    state = end_state(results)
    if request.job == MAINTAIN:
        return make_state(judge_results(results), str(state.message))
    return state


def end_early(error: Exception) -> State:
    """End a flow run that an error stopped outside of any job."""
    return make_state(end_with_error(error, None).outcome, str(describe_error(error)["message"]))


def _run_once(request: JobRequest, task_runs: int) -> list[RunResult]:
    if request.job == MAINTAIN:
        steps = run_maintain(request, _run_step)
        publish(report_steps, request, steps)
        return list_results(steps)
    call = TaskCall(request.job, task_runs)
    results = attempt_job(request, call=call, on_batch=call.progress.advance)
    publish(report_results, request, results)
    return results


def _run_step(requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
    request = requests[0]
    call = TaskCall(request.job, 0)  # the step is the task run
    run = partial(attempt_jobs, requests, tell_all(call.progress.advance, keep), call=call)
    return call_step(request.job, run, lambda done: publish(report_results, request, done))


def _apply_refused(request: JobRequest, refused: RunResult) -> RunResult:
    """Apply the plan of a refused run: a person says so, so no slot can be missed."""
    plan_id = refused.end.plan_id
    step = find_step(request, refused.job) if request.job == MAINTAIN else request
    confirmed = replace(step, plan_id=None, confirm_plan_id=plan_id, trigger="manual", slot=None)
    (result,) = _run_once(confirmed, _STAGES)
    return result


def _record_settled(
    request: JobRequest, before: Sequence[RunResult], after: Sequence[RunResult]
) -> None:
    applied = [new for old, new in zip(before, after, strict=True) if new is not old]
    if request.job == MAINTAIN and applied:
        publish(record_settled, request, applied)


def _read_earlier(request: JobRequest) -> list[RunResult]:
    """Read what this flow run did before it waited: the last run of each job and namespace.

    Empty: nothing waits for a decision, so it is no resumed run but one that is tried again.
    """
    store = open_store(request.store, lock_wait_s=request.lock_wait_s)
    with store.read() as reader:
        ended = list_runs_of(reader, str(request.flow_run_id))
    last: dict[tuple[str, Namespace], RunResult] = {}
    is_whole = request.job != MAINTAIN
    for one in ended:
        if one.job == MAINTAIN:  # its steps tell the same
            is_whole = is_whole or one.end.outcome != "abandoned"
            continue
        about = (one.job, one.namespace)
        if one.end.plan_id is not None or about not in last:
            last[about] = RunResult(one.run_id, one.job, one.namespace, one.end)
    results = list(last.values())
    return results if is_whole and any(map(is_waiting, results)) else []


def _request(job: str, policy: Policy, form: JobForm) -> JobRequest:
    settings = read_settings()
    scheduled = read_scheduled()
    # The slot of a fleet's store is that of the fleet, whose schedule is another one.
    timing = read_timings(settings.schedules).get(job) if form.slot is None else None
    return JobRequest(
        store=Path(form.store) if form.store else settings.store,
        job=job,
        policy=policy,
        now=to_utc(form.now or scheduled),
        clock=read_clock,
        new_run_id=new_run_id,
        mode=form.mode,
        namespace=form.namespace.namespace() if form.namespace is not None else None,
        limits=form.limits,
        plan_id=form.plan_id,
        confirm_plan_id=form.confirm_plan_id,
        trigger=form.trigger,
        slot=to_utc(form.slot or scheduled) if form.trigger == "schedule" else None,
        slot_zone=timing.day_zone if isinstance(timing, Cron) else None,
        interval_s=timing.interval_s if isinstance(timing, Interval) else None,
        schedules=list_schedules(settings.schedules),
        flow_run_id=str(flow_run.id),
        lock_wait_s=settings.lock_wait_s,
        lease_ttl_s=settings.lease_ttl_s,
        embedder=choose_embedder(settings.embedder),
        refiner=choose_refiner(settings.refiner),
    )
