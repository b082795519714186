"""The consolidate flow: the same stages as the inline runner, as Prefect task runs."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, name_run, run_flow
from flows.selector import Approval, NamespaceSelector, PlanId
from storage.runs import Mode, Trigger
from tasks.limits import SafetyLimits
from tasks.policies import ConsolidatePolicy


@flow(name="consolidate", flow_run_name=name_run, persist_result=False)
def consolidate(
    store: str = "",
    namespace: NamespaceSelector | None = None,
    policy: ConsolidatePolicy = ConsolidatePolicy(),
    mode: Mode = "plan",
    now: datetime | None = None,
    limits: SafetyLimits = SafetyLimits(),
    plan_id: PlanId | None = None,
    confirm_plan_id: PlanId | None = None,
    approval: Approval = "refuse",
    trigger: Trigger = "manual",
) -> State:
    """Merge memories that say the same, and report or mark contradictions.

    Args:
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        namespace: The only namespace to work on; absent: all, one after the other.
        policy: What counts as the same, and what happens to contradictions.
        mode: plan shows what would happen, apply does it.
        now: Decide as of this instant; absent: when the run was scheduled.
        limits: How much may go without a confirmation.
        plan_id: Apply this stored plan instead of making one.
        confirm_plan_id: Apply this stored plan although it is over a limit.
        approval: What happens to a plan over a limit: refuse it, or suspend for a decision.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(
        store=store,
        namespace=namespace,
        mode=mode,
        now=now,
        limits=limits,
        plan_id=plan_id,
        confirm_plan_id=confirm_plan_id,
        approval=approval,
        trigger=trigger,
    )
    return run_flow("consolidate", policy, form)
