"""Ask a person about plans over a limit: the flow run suspends, and goes on with the answer.

Nothing is held meanwhile: the process ends, and the plan lies in the store. A resumed run starts
from the top, reads what it did before, and asks again under the same key, which gives the answer.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

from prefect.flow_runs import suspend_flow_run
from prefect.input import RunInput
from pydantic import Field, ValidationError

from storage.errors import PlanRefusedError
from storage.models import format_namespace
from tasks.artifacts import record_decision
from tasks.report import RunResult

# Another run may hold the lease when the answer comes; a killed one holds it for five minutes.
_PAUSES_S = (5, 10, 20, 40, 80, 160)
# Prefect's own timeout ends a run as Failed; the automation, which says refused, comes first.
_MARGIN_S = 600
Apply = Callable[[RunResult], RunResult]


class Decision(RunInput):
    """What a person says about a plan over a limit."""

    decision: Literal["approve", "reject"] = Field(
        description="approve applies exactly this plan, reject applies nothing"
    )
    approver: str = Field(min_length=1, max_length=256, description="Who decides")
    note: str = Field(default="", max_length=1024, description="Why; kept with the run")


def settle_refused(
    results: Sequence[RunResult], *, timeout_s: int, apply: Apply
) -> list[RunResult]:
    """Ask about each refused plan in turn, and apply the approved ones.

    Args:
        results: What became of the flow run so far.
        timeout_s: How long each question waits; then the run ends as refused.
        apply: Applies the plan of a refused run although it is over a limit, and reports that.

    Returns:
        The results, with those of approved plans in the place of their refusals.
    """
    return [
        _settle(result, timeout_s, apply) if is_waiting(result) else result for result in results
    ]


def is_waiting(result: RunResult) -> bool:
    """Tell whether a run made a plan over a limit, which a person may decide about."""
    return result.end.code == PlanRefusedError.code and result.end.plan_id is not None


def _settle(refused: RunResult, timeout_s: int, apply: Apply) -> RunResult:
    plan_id = str(refused.end.plan_id)
    answer = _ask(refused, plan_id, timeout_s + _MARGIN_S)
    said = answer.model_dump(include={"decision", "approver", "note"})
    record_decision(refused.job, plan_id, **said)
    if answer.decision == "reject":
        return refused
    result = apply(refused)
    for pause_s in _PAUSES_S:
        if result.end.outcome != "skipped_busy":
            break
        time.sleep(pause_s)
        result = apply(refused)
    return result


def _ask(refused: RunResult, plan_id: str, timeout_s: int) -> Decision:
    form = Decision.with_initial_data(description=_describe(refused))
    key = plan_id.replace("_", "-")  # Prefect refuses anything but letters, digits and dashes
    while True:
        with suppress(ValidationError):  # an earlier try of this run asked, and nobody answered
            return suspend_flow_run(wait_for_input=form, timeout=timeout_s, key=key)
        key += "-again"


def _describe(refused: RunResult) -> str:
    end = refused.end
    return (
        f"**{end.error}**\n\n"
        f"`{refused.job}` would remove {end.found} memories of "
        f"`{format_namespace(refused.namespace)}`. The plan is on the run's tab Artifacts; "
        f"`memtend show {end.plan_id} --rows 0` shows all of it.\n\n"
        "Memories that changed since the plan are left alone."
    )
