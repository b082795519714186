"""The flow of one store of a fleet: maintain, started by maintain_fleet with the fleet's slot."""

from datetime import datetime

from prefect import flow
from prefect.client.schemas.objects import State

from flows.driver import JobForm, run_flow
from flows.fleet import name_store_run
from flows.selector import Approval, NamespaceSelector
from storage.runs import Mode, Trigger
from tasks.limits import SafetyLimits
from tasks.maintaining import MAINTAIN, MaintainPolicy


@flow(name="maintain_store", flow_run_name=name_store_run, persist_result=False)
def maintain_store(
    store: str = "",
    namespace: NamespaceSelector | None = None,
    policy: MaintainPolicy = MaintainPolicy(),
    mode: Mode = "plan",
    now: datetime | None = None,
    limits: SafetyLimits = SafetyLimits(),
    approval: Approval = "refuse",
    trigger: Trigger = "manual",
    slot: datetime | None = None,
) -> State:
    """Do all upkeep of one store of a fleet; maintain_fleet starts one such run for each.

    Args:
        store: Directory of the store; empty: the MEMTEND_STORE setting.
        namespace: The only namespace to work on; absent: all, one after the other.
        policy: The policy of each step.
        mode: Of sweep, prune and consolidate; refresh and health are always applied.
        now: Decide as of this instant; absent: when the run was scheduled.
        limits: How much a step may remove without a confirmation.
        approval: What happens to plans over a limit: refuse them, or suspend after the last step.
        trigger: What started the fleet's run.
        slot: The instant that the fleet's run was scheduled for.
    """
    form = JobForm(
        store=store,
        namespace=namespace,
        mode=mode,
        now=now,
        limits=limits,
        approval=approval,
        trigger=trigger,
        slot=slot,
    )
    return run_flow(MAINTAIN, policy, form)
