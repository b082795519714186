"""The health flow: the same work as the inline runner, as Prefect task runs."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, name_run, run_flow
from storage.runs import Mode, Trigger
from tasks.health.policy import HealthPolicy


@flow(name="health", flow_run_name=name_run, persist_result=False)
def health(
    store: str = "",
    policy: HealthPolicy = HealthPolicy(),
    mode: Mode = "apply",
    now: datetime | None = None,
    trigger: Trigger = "manual",
) -> State:
    """Take a snapshot of the store: keep it, export it, and tell which thresholds are broken.

    Args:
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        policy: The thresholds, and how long figures are kept.
        mode: plan only tells what is broken, apply keeps and exports the snapshot.
        now: Judge memories as of this instant; absent: when the run was scheduled.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(store=store, mode=mode, now=now, trigger=trigger)
    return run_flow("health", policy, form)
