"""The doctor lists what is wrong without a trace, and repairs exactly that."""

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from helpers.refresh_processes import ProcessWorld
from helpers.rows import NOW
from helpers.runs import dump_tables

from storage import Store
from storage.compaction import COPY_FILE
from storage.leases import Lease, acquire_lease, keep_lease, list_held
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.runs import RunStart, begin_run, read_run
from tasks.control import close_store, pause
from tasks.doctor import Finding, examine, repair
from tasks.doctor_store import StoreDoctor, check_packages, judge_disk

TTL_S = 300


def look(store: Store, *, after_s: int = 0) -> dict[str, Finding]:
    """Examine a store; give only what says something."""
    now = NOW + timedelta(seconds=after_s)
    findings = examine(StoreDoctor(store, lambda: now).list_checks())
    return {one.name: one for one in findings if one.broken or one.due}


def begin(store: Store, run_id: str, job: str = "prune", *, at: datetime = NOW) -> Lease:
    with store.write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        lease = acquire_lease(writer, target, job, holder=run_id, clock=at, ttl_s=TTL_S)
        start = RunStart(run_id, job, target.namespace_id, "apply", "manual", at, at)
        begin_run(writer, start, lease_fence=lease.fence)
    return lease


def outcome_of(store: Store, run_id: str) -> str:
    with store.read() as reader:
        return str(read_run(reader, run_id)["outcome"])


def test_new_store_has_nothing_to_say(store: Store) -> None:
    assert look(store) == {}


def test_run_at_work_is_left_alone(store: Store) -> None:
    begin(store, "alive")
    assert look(store, after_s=TTL_S - 1) == {}


def test_killed_run_is_listed_without_a_trace_and_settled_when_asked(store: Store) -> None:
    begin(store, "dead")
    before = dump_tables(store)
    found = look(store, after_s=TTL_S)
    assert set(found) == {"stale_runs", "expired_leases"}
    assert (found["stale_runs"].broken, found["stale_runs"].examples) == (1, ("dead",))
    assert found["expired_leases"].examples == ("prune dead",)
    assert all(one.repair for one in found.values())
    assert dump_tables(store) == before

    repaired = repair(found.values())
    assert [(one.repaired, one.left) for one in repaired] == [(1, 0), (1, 0)]
    assert outcome_of(store, "dead") == "abandoned"
    with store.read() as reader:
        assert list_held(reader) == []
    assert look(store, after_s=TTL_S) == {}


def test_run_that_came_back_after_the_look_is_left_alone(store: Store) -> None:
    lease = begin(store, "slow")
    found = look(store, after_s=TTL_S)
    with store.write() as writer:
        keep_lease(writer, lease, clock=NOW + timedelta(seconds=TTL_S))
    assert [one.repaired for one in repair(found.values())] == [0, 0]
    assert outcome_of(store, "slow") == "running"


def test_repair_touches_only_what_was_listed(store: Store) -> None:
    begin(store, "dead")
    found = look(store, after_s=TTL_S)
    begin(store, "later", "refresh", at=NOW - timedelta(seconds=TTL_S))
    repair(found.values())
    assert outcome_of(store, "later") == "running"
    assert set(look(store, after_s=TTL_S)) == {"stale_runs", "expired_leases"}


def test_run_whose_lease_went_to_another_is_stale(store: Store) -> None:
    """Another job's lease is no reason to be alive."""
    begin(store, "dead")
    begin(store, "alive", "refresh", at=NOW + timedelta(seconds=TTL_S))
    assert look(store, after_s=TTL_S)["stale_runs"].examples == ("dead",)


@pytest.fixture
def world(store: Store, tmp_path: Path) -> ProcessWorld:
    return ProcessWorld(store, tmp_path / "log", 3)


class DiedError(RuntimeError):
    """Stands for the end of a process."""


def test_publication_of_a_dead_run_is_given_up(world: ProcessWorld) -> None:
    def die(step: str) -> None:
        if step == "added":
            raise DiedError

    with pytest.raises(DiedError):
        world.run("dead", die)
    found = look(world.store)
    assert {"orphan_stagings", "stale_runs"} <= set(found)
    repair(found.values())
    assert [phase for _, phase in world.read_phases()] == ["abandoned"]
    assert "orphan_stagings" not in look(world.store)
    world.run("next")
    world.assert_settled("last")


def test_served_vectors_that_are_gone_are_found_and_a_refresh_brings_them_back(
    world: ProcessWorld,
) -> None:
    world.run("first")
    assert "pointers_without_vectors" not in look(world.store)
    for table in (world.store.path / "vectors").glob("*.lance"):
        shutil.rmtree(table)
    found = look(world.store)["pointers_without_vectors"]
    assert (found.broken, found.examples, found.repair) == (1, (world.partition,), None)
    assert found.advice == "memtend run refresh"
    assert world.run("second") == "published"
    assert "pointers_without_vectors" not in look(world.store)


def test_memories_that_the_index_lacks_are_counted(world: ProcessWorld) -> None:
    assert "index_coverage" not in look(world.store)
    world.run("first")
    assert "index_coverage" not in look(world.store)
    world.change(added=["new"], revised=["m0"])
    assert look(world.store)["index_coverage"].due == 2


def test_broken_rule_is_shown_and_never_repaired(world: ProcessWorld) -> None:
    with world.store.write() as writer:
        writer.execute("DELETE FROM evidence WHERE memory_id = 'm1'")
    found = look(world.store)
    before = dump_tables(world.store)
    (done,) = repair([found["active_without_evidence"]])
    assert (done.broken, done.examples, done.repaired, done.left) == (1, ("m1",), None, 1)
    assert dump_tables(world.store) == before


def test_what_the_janitor_would_do_is_due(store: Store) -> None:
    (store.path / f"{COPY_FILE}.tmp").write_bytes(b"left over")
    found = look(store)["growth_leftovers"]
    assert (found.broken, found.due, found.advice) == (0, 1, "memtend run janitor")


@pytest.mark.parametrize("table", ["partitions", "leases", "control", "relations"])
def test_check_that_cannot_be_made_stops_no_other(store: Store, table: str) -> None:
    begin(store, "dead")
    names = {name for name, _ in StoreDoctor(store, lambda: NOW).list_checks()}
    with store.write() as writer:
        writer.run_script(f"ALTER TABLE {table} RENAME TO lost")
    found = look(store, after_s=TTL_S)
    failed = {name for name, one in found.items() if one.examples == ("storage_failure",)}
    assert failed
    assert failed < names | set(found)


def stop(store: Store) -> None:
    close_store(store, timeout_s=1, clock=lambda: NOW)


@pytest.mark.parametrize(
    ("switch", "said"),
    [
        (lambda store: pause(store, "sweep", clock=lambda: NOW), ("sweep",)),
        (lambda store: pause(store, None, clock=lambda: NOW), ("every job",)),
        (stop, ("closed",)),
    ],
    ids=["one-job", "every-job", "closed"],
)
def test_what_is_switched_off_is_said(
    store: Store, switch: Callable[[Store], object], said: tuple[str, ...]
) -> None:
    switch(store)
    found = look(store)["switched_off"]
    assert (found.examples, found.broken, found.left) == (said, 0, 0)


@pytest.mark.parametrize(
    ("database", "free", "broken"),
    [
        (2**20, 100 * 2**20, 0),
        (2**20, 100 * 2**20 - 1, 1),
        (2**30, 2**31, 0),
        (2**30, 2**31 - 1, 1),
    ],
)
def test_disk_needs_room_for_a_copy(database: int, free: int, broken: int) -> None:
    assert judge_disk(database, free).broken == broken


def test_foreign_distribution_is_named() -> None:
    owners = {"flows": ["memtend", "other"], "tasks": ["memtend"], "json": ["other"]}
    found = check_packages(owners)
    assert (found.broken, found.examples) == (1, ("flows of other",))
    assert check_packages({"flows": ["memtend", "memtend"]}).broken == 0


def test_repair_that_fails_is_told_without_foreign_text(store: Store) -> None:
    def fail() -> int:
        raise ValueError(store.path)

    (done,) = repair([Finding("any", broken=1, repair="try", act=fail)])
    assert (done.repaired, done.left) == (0, 1)
    assert done.advice == "the repair failed: internal:ValueError"
