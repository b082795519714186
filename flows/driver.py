"""What the job flows share: from form to request, from results to a Prefect state."""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Failed

from flows.edge import choose_embedder, new_run_id, read_clock
from flows.selector import NamespaceSelector
from storage.instants import to_utc
from storage.runs import Mode, Trigger
from storage.settings import Settings
from tasks.inline import run_job
from tasks.limits import SafetyLimits
from tasks.policies import Policy
from tasks.report import describe_error
from tasks.requests import JobRequest
from tasks.steps import TaskCall, end_state, report_results


@dataclass(frozen=True, slots=True)
class JobForm:
    """The parameters of a job flow, apart from its policy."""

    store: str
    namespace: NamespaceSelector | None
    mode: Mode
    now: datetime | None
    limits: SafetyLimits
    plan_id: str | None
    confirm_plan_id: str | None
    trigger: Trigger


def run_flow(job: str, policy: Policy, form: JobForm) -> State:
    """Run a job inside its flow; errors become the state, their text is never a stranger's."""
    try:
        results = run_job(_request(job, policy, form), call=TaskCall())
        report_results(job, results)
    except Exception as error:  # noqa: BLE001 - an exception's text would reach Prefect's database
        said = describe_error(error)
        return Failed(name="failed", message=str(said["message"]))
    return end_state(results)


def _request(job: str, policy: Policy, form: JobForm) -> JobRequest:
    settings = Settings.from_env(os.environ)
    scheduled = flow_run.scheduled_start_time
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
        flow_run_id=str(flow_run.id),
        lock_wait_s=settings.lock_wait_s,
        lease_ttl_s=settings.lease_ttl_s,
        embedder=choose_embedder(settings.embedder),
    )
