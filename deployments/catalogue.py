"""Every deployment as data: a row is a job, its flow and what it does by default.

Adding a job is one row here, one in `prefect.yaml`, its flow file, and its cron in
`tasks/schedules.py`, which MEMTEND_SCHEDULES can replace. Jobs that remove memories
are guarded: their schedules only plan until MEMTEND_SCHEDULED_MODE=apply, and a plan over the
limits waits for a person.

One schedule a night does the guarded work: that of maintain, in the right order and in one run.
Those of sweep, prune and consolidate are there for who wants them apart, and ship switched off,
since two schedules would do the same twice; so does that of maintain_fleet. Those of refresh and
health stay on: they look after the hours in between, and find nothing to do after maintain.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from types import MappingProxyType
from typing import Any

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import (
    ConcurrencyLimitConfig,
    ConcurrencyLimitStrategy,
    State,
)
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.types.entrypoint import EntrypointType
from pydantic import BaseModel

from storage.runs import Mode
from tasks.rules.slots import Interval
from tasks.schedules import SHIPPED, Timing, begins_on, list_timings

TAG = "memtend"
# A second run of a deployment is cancelled, not queued: after a pause one run catches up (P33).
LIMIT = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)


@dataclass(frozen=True, slots=True)
class Row:
    """One deployment; `is_alone`: no two runs of it at once."""

    job: str
    entrypoint: str
    mode: Mode | None = None
    is_guarded: bool = False
    is_alone: bool = True

    @property
    def cron(self) -> str | None:
        """The shipped schedule (UTC); None: it has none."""
        return SHIPPED.get(self.job)

    @property
    def slug(self) -> str:
        """The name under which the server keeps the schedule, and whether it is switched on."""
        return f"memtend-{self.job}"


def _guarded(job: str, *, is_alone: bool = True) -> Row:
    return Row(job, f"flows.{job}:{job}", "plan", is_guarded=True, is_alone=is_alone)


CATALOGUE = (
    _guarded("maintain"),
    _guarded("maintain_fleet"),
    _guarded("maintain_store", is_alone=False),
    _guarded("sweep"),
    _guarded("prune"),
    _guarded("consolidate"),
    Row("refresh", "flows.refresh:refresh", "apply"),
    Row("janitor", "flows.janitor:janitor", "apply"),
    Row("health", "flows.health:health", "apply"),
    Row("restore", "flows.restore:restore", "plan"),
    Row("erase", "flows.erase:erase", "plan"),
)


def load_flow(row: Row) -> Flow[..., State]:
    """Import the flow of a row."""
    module, _, name = row.entrypoint.partition(":")
    flow: Flow[..., State] = getattr(import_module(module), name)
    return flow


def choose_parameters(row: Row) -> dict[str, Any]:
    """Choose what the form is filled with, apart from the defaults of the flow."""
    chosen: dict[str, Any] = {} if row.mode is None else {"mode": row.mode}
    return chosen | ({"approval": "suspend"} if row.is_guarded else {})


def choose_scheduled(row: Row, scheduled_mode: Mode) -> dict[str, Any]:
    """Choose what a scheduled run gets on top."""
    guarded = {"mode": scheduled_mode} if row.is_guarded else {}
    return {"trigger": "schedule", **guarded}


def build_deployments(
    name: str, scheduled_mode: Mode, chosen: Mapping[str, Timing] = MappingProxyType({})
) -> list[RunnerDeployment]:
    """Build the deployments of all rows under one name.

    Args:
        name: Of each deployment; the flow tells the job.
        scheduled_mode: What the schedules of guarded jobs do.
        chosen: Schedules other than the shipped ones, by job.
    """
    timings = list_timings(chosen)
    return [_build(row, name, scheduled_mode, timings.get(row.job)) for row in CATALOGUE]


def switch_off_new(
    client: SyncPrefectClient,
    deployments: Sequence[RunnerDeployment],
    chosen: Mapping[str, Timing],
) -> None:
    """Let schedules begin switched off that are to, unless the server has them already.

    What the server has stays as the operator left it: a schedule that says nothing about being on
    or off does not change that.
    """
    off = {row.slug for row in CATALOGUE if not begins_on(row.job, chosen)}
    for one in deployments:
        if not one.schedules:
            continue
        fresh = off - _list_slugs(client, one)
        one.schedules = [
            schedule.model_copy(update={"active": False})
            if isinstance(schedule, DeploymentScheduleCreate) and schedule.slug in fresh
            else schedule
            for schedule in one.schedules
        ]


def _list_slugs(client: SyncPrefectClient, deployment: RunnerDeployment) -> set[str | None]:
    try:
        found = client.read_deployment_by_name(f"{deployment.flow_name}/{deployment.name}")
    except ObjectNotFound:
        return set()
    return {schedule.slug for schedule in found.schedules}


def list_switches(client: SyncPrefectClient, name: str) -> dict[str, bool]:
    """List whether each job's schedule is on, as the server has it; jobs without one are absent."""
    switches: dict[str, bool] = {}
    for row in CATALOGUE:
        if row.cron is None:
            continue
        found = client.read_deployment_by_name(f"{row.job}/{name}")
        switches[row.job] = any(one.active for one in found.schedules if one.slug == row.slug)
    return switches


def _build(row: Row, name: str, scheduled_mode: Mode, timing: Timing | None) -> RunnerDeployment:
    flow = load_flow(row)
    # Without `active` the server keeps what an operator switched off (P30).
    schedules = []
    if timing is not None:
        said = choose_scheduled(row, scheduled_mode)
        schedule = _schedule(timing)
        schedules.append(
            DeploymentScheduleCreate(schedule=schedule, slug=row.slug, parameters=said)
        )
    return RunnerDeployment.from_flow(
        flow,
        name,
        schedules=schedules or None,
        concurrency_limit=LIMIT if row.is_alone else None,
        parameters=_dump_defaults(flow) | choose_parameters(row),
        tags=[TAG, row.job],
        # The rest of the docstring is the help of the form's fields.
        description=(inspect.getdoc(flow.fn) or "").partition("\n\nArgs:")[0],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def _schedule(timing: Timing) -> CronSchedule | IntervalSchedule:
    if isinstance(timing, Interval):
        interval = timedelta(seconds=timing.interval_s)
        return IntervalSchedule(interval=interval, anchor_date=timing.anchor, timezone="UTC")
    return CronSchedule(cron=timing.cron, timezone=timing.zone)


def _dump_defaults(flow: Flow[..., State]) -> dict[str, Any]:
    """Dump the policies and limits of a flow, so that each field stands in the form (P11)."""
    return {
        name: parameter.default.model_dump(mode="json")
        for name, parameter in inspect.signature(flow.fn).parameters.items()
        if isinstance(parameter.default, BaseModel)
    }
