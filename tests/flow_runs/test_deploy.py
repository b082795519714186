"""Deployments for a work pool: registered twice, by us and by Prefect's own command, and run."""

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from helpers.children import ROOT
from helpers.cli import run_here
from prefect.client.orchestration import get_client
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.settings import PREFECT_API_URL
from prefect.states import Scheduled

from deployments.catalogue import CATALOGUE
from deployments.deploy import JOB_VARIABLES
from storage import Store
from storage.runs import list_runs
from tasks.schedules import begins_on

pytestmark = [pytest.mark.slow, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def read_deployments(name: str) -> dict[str, DeploymentResponse]:
    with get_client(sync_client=True) as client:
        found = client.read_deployments()
    return {one.tags[1]: one for one in found if one.name == name}


def deploy(name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value())
    answer = run_here("--json", "deploy", "--pool", "machines", "--name", name)
    assert answer.exit_code == 0
    return list(answer.value["deployments"])


def list_off(found: dict[str, DeploymentResponse]) -> set[str]:
    return {job for job, one in found.items() if one.schedules and not one.schedules[0].active}


def test_deploying_again_keeps_the_operators_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert deploy("again", monkeypatch) == [f"{row.job}/again" for row in CATALOGUE]
    first = read_deployments("again")
    off = {row.job for row in CATALOGUE if row.cron and not begins_on(row.job, {})}
    assert list_off(first) == off
    with get_client(sync_client=True) as client:
        for job, is_on in (("maintain", False), ("sweep", True)):
            one = first[job]
            client.update_deployment_schedule(one.id, one.schedules[0].id, active=is_on)
    deploy("again", monkeypatch)
    second = read_deployments("again")
    assert {job: one.id for job, one in second.items()} == {j: one.id for j, one in first.items()}
    assert list_off(second) == list_off(first) ^ {"maintain", "sweep"}


def test_schedule_that_is_edited_stays_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """V19, R4, R5: the interval is activated where the store is at hand, and then no more."""
    monkeypatch.setenv("MEMTEND_STORE", str(store.path))
    edits = [
        '{"prune": {"interval_s": 86400, "offset_s": 11700}}',
        '{"prune": {"cron": "30 2 * * *", "zone": "Europe/Berlin"}}',
    ]
    shown = []
    for edit in edits:
        monkeypatch.setenv("MEMTEND_SCHEDULES", edit)
        deploy("edited", monkeypatch)
        found = read_deployments("edited")["prune"]
        (schedule,) = found.schedules
        assert found.job_variables["env"]["MEMTEND_SCHEDULES"] == edit
        with store.read() as reader:
            activated = reader.rows("SELECT job, interval_s FROM activations")
        shown.append((type(schedule.schedule), schedule.active, activated))
    assert shown == [
        (IntervalSchedule, True, [("prune", 86400)]),
        (CronSchedule, True, []),
    ]


def test_no_path_of_this_machine_is_in_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    deploy("anywhere", monkeypatch)
    for one in read_deployments("anywhere").values():
        assert (one.path, one.pull_steps) == (None, [])
        assert one.job_variables == JOB_VARIABLES
        assert str(ROOT) not in one.model_dump_json()


def run_prefect(*words: str, cwd: Path, store: Path) -> None:
    environ = {
        "PREFECT_API_URL": PREFECT_API_URL.value(),
        "PYTHONPATH": str(ROOT),
        "MEMTEND_STORE": str(store),
    }
    subprocess.run(  # noqa: S603 - Prefect's own command
        [sys.executable, "-m", "prefect", "--no-prompt", *words],
        cwd=cwd,
        env=os.environ | environ,
        check=True,
        capture_output=True,
        timeout=240,
    )


def test_worker_runs_what_prefects_own_command_deployed(
    store: Store, tmp_path: Path, now: datetime
) -> None:
    """From a folder that has nothing to do with the checkout."""
    run_prefect("work-pool", "create", "memtend", "--type", "process", cwd=tmp_path, store=tmp_path)
    file = str(ROOT / "deployments" / "prefect.yaml")
    run_prefect("deploy", "--prefect-file", file, "--all", cwd=tmp_path, store=tmp_path)
    found = read_deployments("pool")
    assert set(found) == {row.job for row in CATALOGUE}
    assert all(str(ROOT) not in one.model_dump_json() for one in found.values())
    with get_client(sync_client=True) as client:
        form = {"mode": "plan", "now": now.isoformat()}
        ordered = client.create_flow_run_from_deployment(
            found["prune"].id, parameters=form, state=Scheduled()
        )
        words = ("worker", "start", "--pool", "memtend", "--run-once")
        run_prefect(*words, cwd=tmp_path, store=store.path)
        state = client.read_flow_run(ordered.id).state
    assert state is not None
    assert state.name in {"planned", "unchanged"}
    with store.read() as reader:
        assert [run["job"] for run in list_runs(reader, limit=2)] == ["prune"]
