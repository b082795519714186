"""The restore flow: the same work as the inline runner, as Prefect task runs."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, name_run, run_flow
from flows.selector import NamespaceSelector
from storage.runs import Mode, Trigger
from tasks.restoring import RestorePolicy


@flow(name="restore", flow_run_name=name_run, persist_result=False)
def restore(
    policy: RestorePolicy,
    store: str = "",
    namespace: NamespaceSelector | None = None,
    mode: Mode = "plan",
    now: datetime | None = None,
    trigger: Trigger = "manual",
) -> State:
    """Give back memories that a job took: tombstones, and memories that were merged.

    Args:
        policy: What to give back: memories, all that a run took, or all since an instant.
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        namespace: The only namespace to work on; absent: all, one after the other.
        mode: plan shows what would happen, apply does it.
        now: Decide as of this instant; absent: when the run was scheduled.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(store=store, namespace=namespace, mode=mode, now=now, trigger=trigger)
    return run_flow("restore", policy, form)
