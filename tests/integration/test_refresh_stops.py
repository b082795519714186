"""A refresh that is asked to stop: before its commit point nothing is served, after it all is."""

from pathlib import Path
from typing import Any

import pytest
from helpers.refreshes import World

from storage.errors import MaintenanceError
from tasks.refresh.run import refresh
from tasks.refresh.settings import RefreshSettings
from tasks.refresh.work import Refreshed

TEXTS = {"ALPHA": "rotate signing keys each quarter", "BETA": "backups live in the oslo vaults"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "store", TEXTS, RefreshSettings())
    added = [{"op": "add", "id": name.lower(), "text": name} for name in TEXTS]
    world.do({"op": "tx", "ops": added})
    return world


def run_until(world: World, point: str) -> tuple[str | None, dict[str, Any]]:
    """Run a refresh that somebody asks to stop at a point; give its error and the pointer."""
    reached: list[str] = []
    lease = world.begin("run-stopped", world.target)
    work = world.work(lease)
    work.on_step = reached.append
    work.should_stop = lambda: point in reached or (point == "embed" and "snapshot_1" in reached)
    try:
        came: MaintenanceError | Refreshed = refresh(work)
    except MaintenanceError as error:
        came = error
    world.finish(work, came)
    code = came.code if isinstance(came, MaintenanceError) else None
    return code, world.read_pointer()


@pytest.mark.parametrize("point", ["embed", "before_stage", "after_stage", "before_publish"])
def test_nothing_is_served_if_it_comes_before_the_commit_point(world: World, point: str) -> None:
    code, pointer = run_until(world, point)
    assert code == "cancelled"
    assert (pointer["revision"], pointer["phase"]) == (0, "empty")
    with world.store.read() as reader:
        marked = (
            "SELECT count(*) FROM embedding_attempts WHERE in_flight IS NOT NULL OR crashes > 0"
        )
        assert reader.rows(marked) == [(0,)]
    assert world.do({"op": "run"})["state"] == "completed"


@pytest.mark.parametrize("point", ["after_flip", "before_verify", "before_receipt"])
def test_it_is_finished_if_it_comes_after_the_commit_point(world: World, point: str) -> None:
    code, pointer = run_until(world, point)
    assert code is None
    assert (pointer["revision"], pointer["phase"], pointer["records"]) == (1, "verified", 2)
    assert world.do({"op": "run"})["state"] == "unchanged"


def test_cancelled_error_gives_up_what_was_staged(world: World) -> None:
    run_until(world, "before_publish")
    with world.store.read() as reader:
        assert reader.rows("SELECT phase FROM publications") == [("abandoned",)]
