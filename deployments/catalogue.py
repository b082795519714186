"""Every deployment as data: a row is a job, its flow, its schedule and what it does by default.

Adding a job is one row here, one in `prefect.yaml`, and its flow file. Jobs that remove memories
are guarded: their schedules only plan until MEMTEND_SCHEDULED_MODE=apply, and a plan over the
limits waits for a person.
"""

import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from prefect import Flow
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import (
    ConcurrencyLimitConfig,
    ConcurrencyLimitStrategy,
    State,
)
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.types.entrypoint import EntrypointType
from pydantic import BaseModel

from storage.runs import Mode

TAG = "memtend"
# A second run of a deployment is cancelled, not queued: after a pause one run catches up (P33).
LIMIT = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)


@dataclass(frozen=True, slots=True)
class Row:
    """One deployment; `cron` is UTC, None: no schedule."""

    job: str
    entrypoint: str
    cron: str | None = None
    mode: Mode | None = None
    is_guarded: bool = False

    @property
    def slug(self) -> str:
        """The name under which the server keeps the schedule, and whether it is switched on."""
        return f"memtend-{self.job}"


CATALOGUE = (
    Row("sweep", "flows.sweep:sweep", "10 2 * * *", "plan", is_guarded=True),
    Row("prune", "flows.prune:prune", "40 2 * * *", "plan", is_guarded=True),
    Row("refresh", "flows.refresh:refresh", "20 * * * *", "apply"),
    Row("janitor", "flows.janitor:janitor", "50 3 * * *", "apply"),
    Row("health", "flows.health:health", "5,35 * * * *", "apply"),
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


def build_deployments(name: str, scheduled_mode: Mode) -> list[RunnerDeployment]:
    """Build the deployments of all rows under one name.

    Args:
        name: Of each deployment; the flow tells the job.
        scheduled_mode: What the schedules of guarded jobs do.
    """
    return [_build(row, name, scheduled_mode) for row in CATALOGUE]


def _build(row: Row, name: str, scheduled_mode: Mode) -> RunnerDeployment:
    flow = load_flow(row)
    # Without `active` the server keeps what an operator switched off (P30).
    schedules = [
        DeploymentScheduleCreate(
            schedule=CronSchedule(cron=cron, timezone="UTC"),
            slug=row.slug,
            parameters=choose_scheduled(row, scheduled_mode),
        )
        for cron in (row.cron,)
        if cron is not None
    ]
    return RunnerDeployment.from_flow(
        flow,
        name,
        schedules=schedules or None,
        concurrency_limit=LIMIT,
        parameters=_dump_defaults(flow) | choose_parameters(row),
        tags=[TAG, row.job],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def _dump_defaults(flow: Flow[..., State]) -> dict[str, Any]:
    """Dump the policies and limits of a flow, so that each field stands in the form (P11)."""
    return {
        name: parameter.default.model_dump(mode="json")
        for name, parameter in inspect.signature(flow.fn).parameters.items()
        if isinstance(parameter.default, BaseModel)
    }
