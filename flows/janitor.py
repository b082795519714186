"""The janitor flow: the same work as the inline runner, as Prefect task runs."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, name_run, run_flow
from storage.runs import Mode, Trigger
from tasks.janitor import JanitorPolicy


@flow(name="janitor", flow_run_name=name_run, persist_result=False)
def janitor(
    store: str = "",
    policy: JanitorPolicy = JanitorPolicy(),
    mode: Mode = "apply",
    now: datetime | None = None,
    trigger: Trigger = "manual",
) -> State:
    """Sweep up what no memory needs: orphan vectors, old versions, old rows about runs, holes.

    Args:
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        policy: From when on something may go, and when a rewrite pays.
        mode: plan shows what would happen, apply does it.
        now: Decide as of this instant; absent: when the run was scheduled.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(store=store, mode=mode, now=now, trigger=trigger)
    return run_flow("janitor", policy, form)
