"""The cases of health (spec/cases.md C56, C57), as people, flows and notebooks read them."""

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest
from helpers.cli import run_here
from helpers.health import run_health
from helpers.refreshes import World
from helpers.rows import NOW, memory_table

from storage import Store
from storage.exports import read_export
from storage.health import list_breaches
from storage.instants import format_instant
from storage.memories import insert_memories
from tasks.refresh.settings import RefreshSettings
from tasks.status import show_status

AT = ("--now", format_instant(NOW))
STATES = {
    "active": 3,
    "candidate": 0,
    "superseded": 2,
    "conflicted": 0,
    "expired_pending": 1,
    "tombstoned": 1,
}
HOUR = 3_600


@pytest.fixture
def mixed(store: Store) -> Store:
    """Give a store with memories of every state that C56 names."""
    rows: list[dict[str, object]] = [{"id": f"active-{n}"} for n in range(3)]
    rows += [{"id": f"superseded-{n}", "status": "superseded"} for n in range(2)]
    rows += [{"id": "gone", "status": "tombstoned", "tombstoned_at": NOW}]
    rows += [{"id": "expired", "expires_at": NOW - timedelta(seconds=1)}]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
    return store


def test_c56_three_readers_count_the_same_disjoint_states(mixed: Store) -> None:
    shown = run_here("status", *AT, "--store", mixed.path, "--json").value["memories"]
    assert sum(STATES.values()) == 7
    assert shown == {"total": 7, **STATES}

    ended = run_health(mixed).end
    told = {name: ended.figures[f"memories.{name}"] for name in shown}
    assert told == shown

    exported = read_export(mixed.path, "status")
    assert exported is not None
    assert json.loads(exported.column("status")[0].as_py())["memories"] == shown
    series = read_export(mixed.path, "health")
    assert series is not None
    whole = series.filter((pc.field("subject") == "memories") & pc.field("tenant").is_null())
    kept = dict(zip(whole["metric"].to_pylist(), whole["value"].to_pylist(), strict=True))
    assert kept == shown


def test_c56_people_see_every_state(mixed: Store) -> None:
    said = run_here("status", *AT, "--store", mixed.path)
    lines = [line.split() for line in said.out.splitlines()]
    assert said.exit_code == 0
    assert all([name, str(count)] in lines for name, count in STATES.items())
    assert ["total", "7"] in lines


def read_index(world: World) -> dict[str, object]:
    index = show_status(world.store, now=world.clock())["index"]
    return {name: index[name] for name in ("pending", "retrying", "permanent", "failed")}


def list_broken(world: World) -> list[str]:
    limits = {"max_refresh_backlog": 0, "max_retrying_rows": 0, "min_coverage": 0.5}
    ended = run_health(world.store, world.clock(), **limits)
    with world.store.read() as reader:
        return [one.name for one in list_breaches(reader, [ended.run_id])]


def test_c57_hopeless_rows_are_no_backlog_and_stay_visible(tmp_path: Path) -> None:
    """They are the second half of V58, too."""
    world = World(tmp_path / "store", {}, RefreshSettings())
    world.faults = {f"text {n}": "raise" for n in range(2)}
    with world.store.session():
        world.do_tx([{"op": "add", "id": f"m{n}", "text": f"text {n}"} for n in range(5)])
        world.do_run()
    assert read_index(world) == {"pending": 2, "retrying": 2, "permanent": 0, "failed": 2}
    assert show_status(world.store, now=world.clock())["is_degraded"]
    assert list_broken(world) == ["max_refresh_backlog", "max_retrying_rows"]

    with world.store.session():
        for _ in range(4):
            world.do_advance(24 * HOUR)
            world.do_run()
    assert read_index(world) == {"pending": 0, "retrying": 0, "permanent": 2, "failed": 2}
    refresh = show_status(world.store, now=world.clock())["jobs"]["refresh"]
    assert (refresh["backlog"], refresh["failed_rows"], refresh["permanent_rows"]) == (0, 0, 2)
    assert not show_status(world.store, now=world.clock())["is_degraded"]
    assert list_broken(world) == []
