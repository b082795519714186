"""The two automations of a server: runs whose process died, and plans that nobody decided about.

Both look at runs with our tag only. What an operator switched off stays off, and an automation that
is as it should be is left alone, because a change of it forgets what it was waiting for.
"""

from collections.abc import Sequence
from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events import EventTrigger
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, Posture

from deployments.catalogue import TAG
from storage.digests import digest_values

_RUNS = {"prefect.resource.id": "prefect.flow-run.*"}
_OURS = {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
_ENDS = ("Completed", "Failed", "Cancelled", "Crashed")
# A run that waits for a person has no process and no heartbeat (P43a).
_SIGNS_OF_LIFE = ("heartbeat", *_ENDS, "Suspended", "Paused", "AwaitingRetry")
_SIGNS_OF_A_DECISION = ("Running", "Resuming", "Scheduled", "Pending", *_ENDS, "Cancelling")
_SILENCE = timedelta(seconds=90)


def list_automations(approval_timeout_s: int) -> list[AutomationCore]:
    """List the automations as they should be."""
    return [
        AutomationCore(
            name="memtend: runs without a heartbeat",
            description="Marks a run as crashed whose process is gone.",
            trigger=_expect(("heartbeat",), _SIGNS_OF_LIFE, _SILENCE),
            actions=[
                ChangeFlowRunState(
                    state=StateType.CRASHED, message="no heartbeat: the process is gone"
                )
            ],
        ),
        AutomationCore(
            name="memtend: plans without a decision",
            description="Refuses a plan over a limit that nobody decided about in time.",
            trigger=_expect(
                ("Suspended",), _SIGNS_OF_A_DECISION, timedelta(seconds=approval_timeout_s)
            ),
            actions=[
                ChangeFlowRunState(
                    state=StateType.FAILED,
                    name="refused",
                    message="nobody decided in time; nothing was applied",
                    force=True,
                )
            ],
        ),
    ]


def register_automations(client: SyncPrefectClient, wanted: Sequence[AutomationCore]) -> None:
    """Create what is missing and update what differs."""
    for one in wanted:
        marked = one.model_copy(update={"description": _mark(one)})
        found = client.read_automations_by_name(one.name)
        if not found:
            client.create_automation(marked)
        elif found[0].description != marked.description:
            kept = marked.model_copy(update={"enabled": found[0].enabled})
            client.update_automation(found[0].id, kept)


def _expect(after: Sequence[str], expected: Sequence[str], within: timedelta) -> EventTrigger:
    return EventTrigger(
        after={_event(name) for name in after},
        expect={_event(name) for name in expected},
        match=_RUNS,
        match_related=_OURS,
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=within,
    )


def _event(name: str) -> str:
    return f"prefect.flow-run.{name}"


def _mark(one: AutomationCore) -> str:
    """Add a digest of the definition: it tells whether the server has this one."""
    trigger = one.trigger.model_dump(mode="json", exclude={"id"})
    for name in ("after", "expect", "for_each"):
        trigger[name] = sorted(trigger[name])
    actions = [action.model_dump(mode="json") for action in one.actions]
    return f"{one.description} [{digest_values([trigger, actions])[7:19]}]"
