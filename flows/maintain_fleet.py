"""The maintain_fleet flow: one run of maintain_store for each store of a fleet, and a summary."""

from datetime import datetime
from typing import Annotated

from prefect import flow
from prefect.client.schemas.objects import State
from pydantic import Field

from flows.driver import name_run
from flows.fleet import FleetForm, spread_runs
from flows.selector import Approval
from storage.runs import Mode, Trigger
from tasks.limits import SafetyLimits
from tasks.maintaining import MaintainPolicy


@flow(name="maintain_fleet", flow_run_name=name_run, persist_result=False)
def maintain_fleet(
    fleet: str = "",
    policy: MaintainPolicy = MaintainPolicy(),
    mode: Mode = "plan",
    now: datetime | None = None,
    limits: SafetyLimits = SafetyLimits(),
    approval: Approval = "refuse",
    wait_s: Annotated[int, Field(ge=1, le=604_800)] = 21_600,
    trigger: Trigger = "manual",
) -> State:
    """Do all upkeep of every store of a fleet, on whatever workers there are.

    A store that fails does not stop the others.

    Args:
        fleet: File that lists the stores; empty: the MEMTEND_FLEET setting.
        policy: The policy of each step.
        mode: Of sweep, prune and consolidate; refresh and health are always applied.
        now: Decide as of this instant; absent: when the run was scheduled.
        limits: How much a step may remove without a confirmation.
        approval: What happens to plans over a limit: refuse them, or suspend that store's run.
        wait_s: How long to wait for the stores' runs, in seconds; they go on afterwards.
        trigger: What started the run; schedules say so themselves.
    """
    form = FleetForm(
        fleet=fleet,
        policy=policy,
        mode=mode,
        now=now,
        limits=limits,
        approval=approval,
        wait_s=wait_s,
        trigger=trigger,
    )
    return spread_runs(form)
