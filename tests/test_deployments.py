"""The catalogue of deployments: what runs when, in which mode, and that it can."""

import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import helpers.prefect_home  # noqa: F401 - before prefect
import pytest
from helpers.cli import run_here
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.callables import parameter_schema
from ruamel.yaml import YAML

from deployments.automations import list_automations
from deployments.catalogue import (
    CATALOGUE,
    Row,
    build_deployments,
    choose_parameters,
    choose_scheduled,
    load_flow,
)
from deployments.deploy import HEARTBEAT, JOB_VARIABLES, deploy_all
from storage.errors import StorageError
from storage.runs import Mode
from storage.settings import Settings
from tasks.maintaining import GUARDED
from tasks.schedules import SHIPPED, begins_on, read_timings

ROOT = Path(__file__).parents[1]
BUILT = {one.flow_name: one for one in build_deployments("test", "plan")}
rows = pytest.mark.parametrize("row", CATALOGUE, ids=[row.job for row in CATALOGUE])
# What a person has to fill in, since no value does no harm.
_ONE: dict[str, Any] = {"policy": {"ids": ["m1"]}}
REQUIRED: dict[str, dict[str, Any]] = {"restore": _ONE, "erase": _ONE}
MACHINE = re.compile(r"/(home|root|tmp|work|usr)/|https?:|\d+\.\d+\.\d+\.\d+")


def schedules_of(deployment: RunnerDeployment) -> list[DeploymentScheduleCreate]:
    found = deployment.schedules or []
    assert all(isinstance(one, DeploymentScheduleCreate) for one in found)
    return [one for one in found if isinstance(one, DeploymentScheduleCreate)]


def test_table_of_deployments() -> None:
    """Flow, cron (UTC), mode of a manual run, mode of a scheduled one, whether it begins on."""
    table = {
        row.job: (
            row.entrypoint,
            row.cron,
            choose_parameters(row).get("mode"),
            choose_scheduled(row, "plan").get("mode", row.mode) if row.cron else None,
            row.cron is not None and begins_on(row.job, {}),
        )
        for row in CATALOGUE
    }
    assert table == {
        "maintain": ("flows.maintain:maintain", "30 1 * * *", "plan", "plan", True),
        "maintain_fleet": (
            "flows.maintain_fleet:maintain_fleet",
            *("30 1 * * *", "plan", "plan", False),
        ),
        "maintain_store": (
            "flows.maintain_store:maintain_store",
            *(None, "plan", None, False),
        ),
        "sweep": ("flows.sweep:sweep", "10 2 * * *", "plan", "plan", False),
        "prune": ("flows.prune:prune", "40 2 * * *", "plan", "plan", False),
        "consolidate": ("flows.consolidate:consolidate", "0 3 * * *", "plan", "plan", False),
        "refresh": ("flows.refresh:refresh", "20 * * * *", "apply", "apply", True),
        "janitor": ("flows.janitor:janitor", "50 3 * * *", "apply", "apply", True),
        "health": ("flows.health:health", "5,35 * * * *", "apply", "apply", True),
        "restore": ("flows.restore:restore", None, "plan", None, False),
        "erase": ("flows.erase:erase", None, "plan", None, False),
    }
    assert len(table) == len(CATALOGUE)


def test_every_flow_is_in_the_catalogue() -> None:
    flows = {path.stem for path in (ROOT / "flows").glob("*.py") if "@flow(" in path.read_text()}
    assert {row.entrypoint.split(":")[0].removeprefix("flows.") for row in CATALOGUE} == flows
    assert SHIPPED.keys() <= flows


@rows
def test_entrypoint_resolves(row: Row) -> None:
    flow: Flow[..., Any] = load_flow_from_entrypoint(row.entrypoint, use_placeholder_flow=False)
    assert flow.name == row.job
    assert BUILT[row.job].entrypoint == row.entrypoint.replace(":", ".")


@rows
def test_parameters_of_manual_and_scheduled_runs_are_valid(row: Row) -> None:
    deployment = BUILT[row.job]
    filled = deployment.parameters | REQUIRED.get(row.job, {})
    load_flow(row).validate_parameters(filled)
    for schedule in schedules_of(deployment):
        assert schedule.parameters["trigger"] == "schedule"
        load_flow(row).validate_parameters({**filled, **schedule.parameters})


@rows
def test_form_is_prefilled_described_and_closed(row: Row) -> None:
    schema = parameter_schema(load_flow(row)).model_dump()
    assert all(field["description"] for field in schema["properties"].values())
    for name, model in schema["definitions"].items():
        assert model["additionalProperties"] is False, name
        assert all(field.get("description") for field in model["properties"].values()), name
    policy = schema["properties"].get("policy")
    if policy is not None:
        assert BUILT[row.job].parameters.get("policy") == policy.get("default")


@rows
def test_schedule_is_utc_cron_and_keeps_the_operators_switch(row: Row) -> None:
    found = schedules_of(BUILT[row.job])
    assert len(found) == (row.cron is not None)
    for one in found:
        assert isinstance(one.schedule, CronSchedule)
        assert (one.schedule.cron, one.schedule.timezone) == (row.cron, "UTC")
        assert one.slug == f"memtend-{row.job}"
        assert "active" not in one.model_fields_set


def test_chosen_schedule_stands_in_the_place_of_the_shipped_one() -> None:
    chosen = read_timings(
        '{"prune": {"cron": "30 2 * * *", "zone": "Europe/Berlin"},'
        ' "refresh": {"interval_s": 900, "offset_s": 60}}'
    )
    built = {one.flow_name: schedules_of(one) for one in build_deployments("x", "plan", chosen)}
    (prune,), (refresh,) = built["prune"], built["refresh"]
    assert isinstance(prune.schedule, CronSchedule)
    assert (prune.schedule.cron, prune.schedule.timezone) == ("30 2 * * *", "Europe/Berlin")
    assert isinstance(refresh.schedule, IntervalSchedule)
    assert refresh.schedule.interval == timedelta(seconds=900)
    assert refresh.schedule.anchor_date == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert (prune.slug, refresh.slug) == ("memtend-prune", "memtend-refresh")
    untouched = {job: one for job, one in built.items() if job not in chosen}
    assert untouched == {job: schedules_of(one) for job, one in BUILT.items() if job not in chosen}


@pytest.mark.parametrize("job", [row.job for row in CATALOGUE if row.is_alone])
def test_second_run_of_a_deployment_is_cancelled(job: str) -> None:
    built = BUILT[job]
    assert built.concurrency_limit == 1
    assert built.concurrency_options is not None
    assert built.concurrency_options.collision_strategy is ConcurrencyLimitStrategy.CANCEL_NEW


def test_only_the_runs_of_a_fleets_stores_are_many_at_once() -> None:
    assert [row.job for row in CATALOGUE if not row.is_alone] == ["maintain_store"]
    assert BUILT["maintain_store"].concurrency_limit is None


def test_no_two_schedules_begin_on_that_do_the_same() -> None:
    on = {row.job for row in CATALOGUE if row.cron is not None and begins_on(row.job, {})}
    assert "maintain" in on
    assert not on & {*GUARDED, "maintain_fleet"}


def test_form_of_a_restore_is_not_filled_in() -> None:
    schema = parameter_schema(load_flow_from_entrypoint("flows.restore:restore")).model_dump()
    assert schema["required"] == ["policy"]
    assert BUILT["restore"].parameters == {"mode": "plan"}


@pytest.mark.parametrize("mode", ["plan", "apply"])
def test_one_setting_turns_destructive_schedules_and_no_others(mode: Mode) -> None:
    for built, row in zip(build_deployments("test", mode), CATALOGUE, strict=True):
        for schedule in schedules_of(built):
            scheduled = {**built.parameters, **schedule.parameters}["mode"]
            assert scheduled == (mode if row.is_guarded else row.mode)
    guarded = {row.job for row in CATALOGUE if row.is_guarded}
    assert guarded >= {*GUARDED, "maintain", "maintain_fleet", "maintain_store"}
    assert not guarded & {"refresh", "janitor", "health"}


def read_yaml() -> dict[str, Any]:
    text = files("deployments").joinpath("prefect.yaml").read_text(encoding="utf-8")
    assert not MACHINE.search(text)
    found: dict[str, Any] = YAML(typ="safe").load(text)
    return found


def describe(row: Row) -> dict[str, Any]:
    """Describe a row as it stands in prefect.yaml."""
    schedule = {
        "slug": row.slug,
        "cron": row.cron,
        "timezone": "UTC",
        "parameters": choose_scheduled(row, "plan"),
    } | ({} if begins_on(row.job, {}) else {"active": False})
    limit = {"concurrency_limit": {"limit": 1, "collision_strategy": "CANCEL_NEW"}}
    return {
        "name": "pool",
        "entrypoint": row.entrypoint,
        "tags": ["memtend", row.job],
        "parameters": choose_parameters(row),
        "schedules": [schedule] if row.cron is not None else [],
        "work_pool": {"name": "memtend", "job_variables": JOB_VARIABLES},
    } | (limit if row.is_alone else {})


def test_yaml_and_catalogue_agree() -> None:
    read = read_yaml()
    assert read["pull"] == []
    shown = [{"schedules": [], "parameters": {}} | one for one in read["deployments"]]
    assert shown == [describe(row) for row in CATALOGUE]


def test_automations_look_at_our_runs_only_and_spare_waiting_ones() -> None:
    silent, undecided = list_automations(60)
    for one in (silent, undecided):
        assert "prefect.tag.memtend" in str(one.trigger.model_dump(mode="json")["match_related"])
    assert {"prefect.flow-run.Suspended", "prefect.flow-run.Paused"} <= getattr(
        silent.trigger, "expect", set()
    )
    assert getattr(undecided.trigger, "after", set()) == {"prefect.flow-run.Suspended"}


def test_workers_runs_give_signs_of_life_in_time() -> None:
    silent, _ = list_automations(60)
    longest = getattr(silent.trigger, "within", timedelta())
    assert timedelta(seconds=2 * int(JOB_VARIABLES["env"][HEARTBEAT])) < longest


def test_deploy_needs_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    answer = run_here("--json", "deploy")
    assert answer.exit_code == 1
    assert "PREFECT_API_URL" in answer.error["message"]


def test_deploy_tells_of_a_server_that_does_not_answer() -> None:
    nowhere = temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"})
    with nowhere, pytest.raises(StorageError, match="no Prefect server answers"):
        deploy_all(Settings(), name="x", pool="y")
