"""A fleet on a work pool: its stores are spread over real workers, and none is forgotten."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib.resources import as_file, files
from pathlib import Path
from uuid import UUID

import pytest
from helpers.children import ROOT
from helpers.cli import run_here
from helpers.deployed_runs import deploy, execute
from helpers.vectors import copy_store
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_API_URL
from prefect.states import Scheduled

from storage import Store
from storage.runs import list_runs
from tasks.importing import import_file
from tasks.maintaining import STEPS

pytestmark = [pytest.mark.slow, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]
NAMES = ("north", "east", "south", "west")
LONGEST_S = 300


@pytest.fixture
def stores(tmp_path: Path, now: datetime) -> list[Store]:
    stores = [copy_store(tmp_path / name) for name in NAMES]
    with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
        for store in stores:
            import_file(store, sample, clock=now)
    return stores


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Give the file of a fleet whose second store is missing."""
    file = tmp_path / "fleet.toml"
    names = (NAMES[0], "nowhere", *NAMES[1:])
    file.write_text("".join(f'[[stores]]\npath = "{name}"\n' for name in names), encoding="utf-8")
    return file


def order_fleet(client: SyncPrefectClient, deployment_id: UUID, **form: object) -> FlowRun:
    return client.create_flow_run_from_deployment(deployment_id, parameters=form, state=Scheduled())


@contextmanager
def start_worker(name: str, cwd: Path) -> Iterator[None]:
    """Run a worker of a process pool, from a folder that has nothing to do with the checkout."""
    environ = {
        "PREFECT_API_URL": str(PREFECT_API_URL.value()),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PYTHONPATH": str(ROOT),
        "MEMTEND_EMBEDDER": "hash",
    }
    words = ("worker", "start", "--pool", "fleet", "--name", name, "--limit", "2")
    with subprocess.Popen(  # noqa: S603 - Prefect's own command
        [sys.executable, "-m", "prefect", *words],
        cwd=cwd,
        env=os.environ | environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.kill()


def wait_for(client: SyncPrefectClient, run_id: UUID) -> State:
    deadline = time.monotonic() + LONGEST_S
    while True:
        state = client.read_flow_run(run_id).state
        if state is not None and state.is_final():
            return state
        assert time.monotonic() < deadline, state
        time.sleep(1)


def test_two_workers_maintain_every_store_once(
    stores: list[Store], fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", str(PREFECT_API_URL.value()))
    assert run_here("deploy", "--pool", "fleet", "--name", "fleet").exit_code == 0
    with get_client(sync_client=True) as client, ExitStack() as workers:
        for name in ("one", "two"):
            workers.enter_context(start_worker(name, tmp_path))
        found = client.read_deployment_by_name("maintain_fleet/fleet")
        ordered = order_fleet(client, found.id, fleet=str(fleet), wait_s=LONGEST_S)
        state = wait_for(client, ordered.id)
    assert state.name == "failed"
    assert "nowhere failed" in str(state.message)
    for store in stores:
        assert f"{store.path} applied" in str(state.message)
        with store.read() as reader:
            jobs = Counter(run["job"] for run in list_runs(reader, limit=20))
            assert jobs == Counter(["maintain", *STEPS])


def test_fleet_does_not_wait_longer_than_it_is_told(fleet: Path) -> None:
    """Nobody is there to do the work."""
    deploy("maintain_store")
    with get_client(sync_client=True) as client:
        ordered = order_fleet(client, deploy("maintain_fleet"), fleet=str(fleet), wait_s=1)
    state = execute(ordered.id)
    assert state.name == "partial"
    assert str(state.message).count(" partial") == len(NAMES) + 1


def test_fleet_that_is_tried_again_orders_its_stores_anew(fleet: Path) -> None:
    """R8: what another try made of them is not told again."""
    stores = deploy("maintain_store")
    with get_client(sync_client=True) as client:
        ordered = order_fleet(client, deploy("maintain_fleet"), fleet=str(fleet), wait_s=1)
        of_stores = DeploymentFilter(id=DeploymentFilterId(any_=[stores]))
        counts = [len(client.read_flow_runs(deployment_filter=of_stores))]
        for _ in range(2):
            execute(ordered.id)
            counts.append(len(client.read_flow_runs(deployment_filter=of_stores)))
            client.set_flow_run_state(ordered.id, Scheduled(), force=True)
    assert [counts[1] - counts[0], counts[2] - counts[1]] == [len(NAMES) + 1] * 2


def test_fleet_without_a_file_is_refused() -> None:
    with get_client(sync_client=True) as client:
        ordered = order_fleet(client, deploy("maintain_fleet"))
    assert execute(ordered.id).name == "refused"
