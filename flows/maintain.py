"""The maintain flow: the steps of the inline runner, each as one Prefect task run."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, name_run, run_flow
from flows.selector import Approval, NamespaceSelector
from storage.runs import Mode, Trigger
from tasks.limits import SafetyLimits
from tasks.maintaining import MAINTAIN, MaintainPolicy


@flow(name="maintain", flow_run_name=name_run, persist_result=False)
def maintain(
    store: str = "",
    namespace: NamespaceSelector | None = None,
    policy: MaintainPolicy = MaintainPolicy(),
    mode: Mode = "plan",
    now: datetime | None = None,
    limits: SafetyLimits = SafetyLimits(),
    approval: Approval = "refuse",
    trigger: Trigger = "manual",
) -> State:
    """Do all upkeep of a store in order: sweep, prune, consolidate, refresh, health.

    A step that fails does not stop the next one.

    Args:
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        namespace: The only namespace to work on; absent: all, one after the other.
        policy: The policy of each step.
        mode: Of sweep, prune and consolidate; refresh and health are always applied.
        now: Decide as of this instant; absent: when the run was scheduled.
        limits: How much a step may remove without a confirmation.
        approval: What happens to plans over a limit: refuse them, or suspend after the last step.
        trigger: What started the run; schedules say so themselves.
    """
    form = JobForm(
        store=store,
        namespace=namespace,
        mode=mode,
        now=now,
        limits=limits,
        approval=approval,
        trigger=trigger,
    )
    return run_flow(MAINTAIN, policy, form)
