"""Spread the upkeep of a fleet over the workers there are: one run of maintain_store a store.

The server gives each run to one worker, and refuses a second one for the same store of the same
try of the fleet's run, so every store is maintained once. The fleet's run takes a place itself
while it waits.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun, State
from prefect.deployments import run_deployment
from prefect.runtime import deployment, flow_run

from flows.driver import end_early, name_run, read_scheduled
from flows.edge import read_settings
from flows.selector import Approval
from storage.errors import AdmissionError
from storage.instants import format_instant, to_utc
from storage.runs import Mode, Outcome, Trigger
from tasks.artifacts import publish, report_stores
from tasks.fleet import FleetStore, read_fleet
from tasks.limits import SafetyLimits
from tasks.maintaining import MaintainPolicy
from tasks.report import WORST_FIRST, describe_error
from tasks.steps import MAX_TASK_RUNS, make_state

_FLOW = "maintain_store"
_POLL_S = 2.0
_PAGE = 200  # the server gives no more runs at once


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetForm:
    """The parameters of the fleet's flow."""

    fleet: str
    policy: MaintainPolicy
    mode: Mode
    now: datetime | None
    limits: SafetyLimits
    approval: Approval
    wait_s: int
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class _Ordered:
    """One store, and its flow run or what kept it from being ordered."""

    store: FleetStore
    run_id: UUID | None = None
    error: str = ""


def name_store_run() -> str:
    """Name the run of one store after its directory, too."""
    return f"{name_run()} {Path(flow_run.parameters.get('store') or '').name}".rstrip()


def spread_runs(form: FleetForm) -> State:
    """Order a run for each store, wait for them, and end with the worst of their outcomes."""
    try:
        _check_deployed()
        stores = read_fleet(_find_file(form)).stores
        is_linked = len(stores) <= MAX_TASK_RUNS
        ordered = [
            _order(form, store, number, is_linked=is_linked) for number, store in enumerate(stores)
        ]
        return _report(ordered, _wait(ordered, form.wait_s))
    except Exception as error:  # noqa: BLE001 - an exception's text would reach Prefect's database
        return end_early(error)


def _check_deployed() -> None:
    if deployment.id is None:
        raise AdmissionError("fleet", "runs from a deployment only; without one: memtend run")


def _find_file(form: FleetForm) -> Path:
    if form.fleet:
        return Path(form.fleet)
    file = read_settings().fleet
    if file is None:
        raise AdmissionError("fleet", "name a file, or set MEMTEND_FLEET")
    return file


def _order(form: FleetForm, store: FleetStore, number: int, *, is_linked: bool) -> _Ordered:
    try:
        made = run_deployment(
            f"{_FLOW}/{deployment.name}",
            parameters=_fill_form(form, store),
            timeout=0,
            # A link is a task run of the fleet's flow run, and those are few.
            as_subflow=is_linked,
            idempotency_key=f"{flow_run.id}-{flow_run.run_count}-{number}",
        )
    except Exception as error:  # noqa: BLE001 - one store says nothing about the others
        return _Ordered(store, error=str(describe_error(error)["message"]))
    return _Ordered(store, cast("FlowRun", made).id)  # there is no loop to await it in


def _fill_form(form: FleetForm, store: FleetStore) -> dict[str, Any]:
    scheduled = read_scheduled()
    return {
        "store": str(store.path),
        "namespace": store.namespace.model_dump() if store.namespace is not None else None,
        "policy": form.policy.model_dump(mode="json"),
        "mode": form.mode,
        "now": format_instant(to_utc(form.now or scheduled)),
        "limits": form.limits.model_dump(mode="json"),
        "approval": form.approval,
        "trigger": form.trigger,
        "slot": format_instant(scheduled) if form.trigger == "schedule" else None,
    }


def _wait(ordered: Sequence[_Ordered], wait_s: int) -> dict[UUID, FlowRun]:
    """Wait until each run has ended or waits for a person; then give all of them as they are."""
    waiting = [one.run_id for one in ordered if one.run_id is not None]
    found: dict[UUID, FlowRun] = {}
    deadline = time.monotonic() + wait_s
    with get_client(sync_client=True) as client:
        while True:
            found |= _read_runs(client, waiting)
            waiting = [run_id for run_id in waiting if not _is_settled(found.get(run_id))]
            if not waiting or time.monotonic() >= deadline:
                return found
            time.sleep(_POLL_S)


def _read_runs(client: SyncPrefectClient, run_ids: Sequence[UUID]) -> dict[UUID, FlowRun]:
    found: dict[UUID, FlowRun] = {}
    for start in range(0, len(run_ids), _PAGE):
        some = FlowRunFilter(id=FlowRunFilterId(any_=list(run_ids[start : start + _PAGE])))
        found |= {run.id: run for run in client.read_flow_runs(flow_run_filter=some, limit=_PAGE)}
    return found


def _is_settled(run: FlowRun | None) -> bool:
    state = run.state if run is not None else None
    return state is not None and (state.is_final() or state.is_paused())


def _report(ordered: Sequence[_Ordered], found: dict[UUID, FlowRun]) -> State:
    rows: list[dict[str, str]] = []
    outcomes: list[Outcome] = []
    for one in ordered:
        run = found.get(one.run_id) if one.run_id is not None else None
        state = run.state if run is not None else None
        outcome = _judge(state)
        outcomes.append(outcome)
        said = one.error if state is None else str(state.name)
        name = "" if run is None else f"{run.name} ({run.id})"
        told = {"outcome": outcome, "state": said, "run": name}
        rows.append({"store": one.store.describe(), **told})
    worst = min(outcomes, key=WORST_FIRST.index)
    publish(report_stores, "maintain_fleet", worst, rows)
    return make_state(worst, "; ".join(f"{row['store']} {row['outcome']}" for row in rows))


def _judge(state: State | None) -> Outcome:
    """Give the outcome that a state stands for; partial: the run is still at work."""
    if state is None:
        return "failed"
    if state.is_paused():
        return "refused"  # until a person has decided
    for outcome in WORST_FIRST:
        if outcome == state.name:
            return outcome
    return "failed" if state.is_final() else "partial"
