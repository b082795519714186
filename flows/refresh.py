"""The refresh flow: the same work as the inline runner, as Prefect task runs."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, name_run, run_flow
from flows.selector import NamespaceSelector
from storage.runs import Mode, Trigger
from tasks.policies import RefreshPolicy


@flow(name="refresh", flow_run_name=name_run, persist_result=False)
def refresh(
    store: str = "",
    namespace: NamespaceSelector | None = None,
    policy: RefreshPolicy = RefreshPolicy(),
    mode: Mode = "apply",
    now: datetime | None = None,
    trigger: Trigger = "manual",
) -> State:
    """Bring the vector index up to the active memories, embedding only what changed.

    Args:
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        namespace: The only namespace to work on; absent: all, one after the other.
        policy: How much may be embedded, and how many memories may fail.
        mode: plan shows what would happen, apply does it.
        now: Decide as of this instant; absent: when the run was scheduled.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(store=store, namespace=namespace, mode=mode, now=now, trigger=trigger)
    return run_flow("refresh", policy, form)
