"""The sweep flow: the same stages as the inline runner, as Prefect task runs."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, run_flow
from flows.selector import NamespaceSelector
from storage.runs import Mode, Trigger
from tasks.limits import SafetyLimits
from tasks.policies import SweepPolicy


@flow(name="sweep", flow_run_name="sweep-{mode}", persist_result=False)
def sweep(
    store: str = "",
    namespace: NamespaceSelector | None = None,
    policy: SweepPolicy = SweepPolicy(),
    mode: Mode = "plan",
    now: datetime | None = None,
    limits: SafetyLimits = SafetyLimits(),
    plan_id: str | None = None,
    confirm_plan_id: str | None = None,
    trigger: Trigger = "manual",
) -> State:
    """Delete what has expired, retire what nobody uses any more, purge old tombstones.

    Args:
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        namespace: The only namespace to work on; absent: all, one after the other.
        policy: Decay, threshold and retention.
        mode: plan shows what would happen, apply does it.
        now: Decide as of this instant; absent: when the run was scheduled.
        limits: How much may go without a confirmation.
        plan_id: Apply this stored plan instead of making one.
        confirm_plan_id: Apply this stored plan although it is over a limit.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(store, namespace, mode, now, limits, plan_id, confirm_plan_id, trigger)
    return run_flow("sweep", policy, form)
