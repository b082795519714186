"""The janitor takes what nobody needs, reports it, and finds nothing the second time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lancedb
import pyarrow as pa
import pytest
from helpers.janitor import (
    DAY,
    HOUR,
    done_in,
    found_in,
    lease_janitor,
    make_world,
    own_table,
    plan,
    read_counts,
    read_phases,
    republish,
    sweep,
    take_trace,
)
from helpers.refreshes import World

from storage.compaction import COPY_FILE
from storage.errors import FenceLostError
from storage.publications import begin_collecting
from storage.vectors import EXACT_ROWS, VectorStore, vector_schema
from tasks.janitor import JanitorPolicy, sweep_up
from tasks.upkeep import STEPS

SECOND_GENERATION = "fixture-r2"


def add_rows(world: World, publication_id: str, count: int, *, table: str | None = None) -> None:
    """Write rows that no publication of the store owns."""
    columns = {name: pa.array([publication_id] * count) for name in vector_schema(2).names} | {
        "memory_revision": pa.array([1] * count),
        "staged_at": pa.array([world.clock()] * count, pa.timestamp("us", tz="UTC")),
        "vector": pa.array(
            [[1.0, 0.5 + n / count] for n in range(count)], pa.list_(pa.float32(), 2)
        ),
    }
    rows = pa.table([columns[name] for name in vector_schema(2).names], schema=vector_schema(2))
    VectorStore(world.store.path).add(table or own_table(world), rows)


def read_serving(world: World) -> tuple[str, int]:
    pointer = world.read_pointer()
    return pointer["publication_id"], pointer["records"]


def test_new_store_has_nothing_to_do(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    before = take_trace(world)
    assert found_in(plan(world)) == {}
    lease = lease_janitor(world)
    held = take_trace(world)
    report = sweep_up(world.store, JanitorPolicy(), clock=world.clock, lease=lease)
    assert (report.end.outcome, found_in(report)) == ("unchanged", {})
    assert [step.name for step in report.steps] == [step.name for step in STEPS]
    assert take_trace(world) == held
    assert held.tables == before.tables


def test_third_newest_publication_is_collected_once_the_grace_has_passed(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store", memories=3)
    for number in range(3):
        republish(world, f"newer {number}")
    serving = read_serving(world)
    assert list(read_counts(world).values()) == [3, 3, 3, 3]
    report = plan(world)
    assert found_in(report) == {"vectors": 2}
    assert next(s.figures for s in report.steps if s.name == "vectors") == {"rows": 6}

    done = sweep(world)
    assert (done.end.outcome, done_in(done)) == ("applied", {"vectors": 2})
    assert list(read_phases(world).values()) == ["collected", "collected", "superseded", "verified"]
    assert list(read_counts(world).values()) == [0, 0, 3, 3]
    assert read_serving(world) == serving
    assert done.after is not None
    assert (done.before.tables[0].rows, done.after.tables[0].rows) == (12, 6)


def test_second_run_writes_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store", memories=3)
    for number in range(3):
        republish(world, f"newer {number}")
    add_rows(world, "pub_" + "e" * 32, 5)
    world.do_advance(HOUR)
    assert done_in(sweep(world)) == {"vectors": 2, "orphans": 1}
    lease = lease_janitor(world)
    before = take_trace(world)
    report = sweep_up(world.store, JanitorPolicy(), clock=world.clock, lease=lease)
    assert (report.end.outcome, report.end.found) == ("unchanged", 0)
    assert take_trace(world) == before


def test_superseded_publication_stays_during_the_grace(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    for number in range(3):
        world.do_tx([{"op": "revise", "id": "m0", "text": f"newer {number}"}])
        world.do_run()
    world.do_advance(HOUR - 1)
    assert found_in(sweep(world)) == {}
    world.do_advance(1)
    assert done_in(sweep(world)) == {"vectors": 2}


@pytest.mark.parametrize("deletes", [False, True])
def test_collection_that_was_killed_is_finished(tmp_path: Path, deletes: bool) -> None:
    """W8: between the two transactions, before or after the vectors went."""
    world = make_world(tmp_path / "store")
    for number in range(3):
        republish(world, f"newer {number}")
    oldest = next(iter(read_phases(world)))
    with world.store.write() as writer:
        begin_collecting(writer, [oldest])
    if deletes:
        VectorStore(world.store.path).delete_publications(own_table(world), [oldest])
    assert done_in(sweep(world)) == {"vectors": 2}
    assert list(read_counts(world).values()) == [0, 0, 1, 1]
    assert list(read_phases(world).values())[:2] == ["collected", "collected"]


def test_staged_rows_of_a_live_run_are_left_alone(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    world.do_tx([{"op": "revise", "id": "m0", "text": "newer"}])
    assert world.do_run(kill="after_stage")["state"] == "killed"
    world.do_advance(DAY)
    assert found_in(sweep(world)) == {}
    assert list(read_phases(world).values()) == ["verified", "staged"]
    assert world.do_run()["state"] == "completed"
    world.do_advance(HOUR)
    assert done_in(sweep(world)) == {"vectors": 1}
    assert list(read_counts(world).values()) == [1, 0, 1]


def test_rows_that_no_publication_owns_go_after_the_grace(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    add_rows(world, "pub_" + "e" * 32, 7)
    assert found_in(sweep(world)) == {}
    world.do_advance(HOUR)
    report = sweep(world)
    assert done_in(report) == {"orphans": 1}
    assert next(s.figures for s in report.steps if s.name == "orphans") == {"rows": 7}
    assert VectorStore(world.store.path).figures(own_table(world)).rows == 1


def test_foreign_table_is_never_touched(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    database = lancedb.connect(world.store.path / "vectors")
    for name in ("mv_0123456789abcdef_d2", "notes"):
        database.create_table(name, schema=vector_schema(2))
        add_rows(world, "pub_" + "e" * 32, 3, table=name)
    world.do_advance(DAY)
    report = sweep(world)
    assert found_in(report) == {}
    assert next(s.figures for s in report.steps if s.name == "tables")["foreign"] == 2
    figures = {one.name: (one.rows, one.versions) for one in report.before.tables}
    assert figures["notes"] == figures["mv_0123456789abcdef_d2"] == (3, 2)


def test_table_of_an_older_history_goes_once_nothing_is_served_from_it(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store", memories=2)
    older = own_table(world)
    world.do_copy_store()
    world.do_advance(DAY)
    assert found_in(sweep(world)) == {}
    world.do_advance(DAY)
    assert found_in(sweep(world)) == {}, "the pointer still names a publication there"
    assert read_serving(world)[1] == 2
    assert world.do_run()["state"] == "completed"
    world.do_advance(HOUR - 1)
    assert found_in(sweep(world)) == {}
    world.do_advance(1)
    assert done_in(sweep(world)) == {"tables": 1}
    assert VectorStore(world.store.path).tables() == [own_table(world)] != [older]
    assert list(read_phases(world).values()) == ["collected", "verified"]
    assert world.do_run()["reason"] == "token_match"


def test_table_that_a_rebuild_gave_up_goes(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    older = own_table(world)
    world.settings = replace(world.settings, recreate_index=True)
    assert world.do_run()["state"] == "completed"
    world.do_advance(HOUR)
    assert done_in(sweep(world)) == {"tables": 1}
    assert VectorStore(world.store.path).tables() == [f"{older}_r1"]


def make_second_generation(path: Path) -> World:
    world = make_world(path, memories=2)
    world.do_change_model_revision(SECOND_GENERATION)
    assert world.do_run()["state"] == "completed"
    return world


@pytest.mark.parametrize(
    ("policy", "days", "collected"),
    [
        pytest.param(JanitorPolicy(), 30, 0, id="not-without-consent"),
        pytest.param(JanitorPolicy(collect_generations=True), 6, 0, id="not-before-seven-days"),
        pytest.param(JanitorPolicy(collect_generations=True), 7, 1, id="after-seven-days"),
    ],
)
def test_generation_that_nobody_serves(
    tmp_path: Path, policy: JanitorPolicy, days: int, collected: int
) -> None:
    world = make_second_generation(tmp_path / "store")
    serving = read_serving(world)
    world.do_advance(days * DAY)
    report = sweep(world, policy)
    figures = next(step.figures for step in report.steps if step.name == "generations")
    assert (figures["unserved"], figures["rows"]) == (1, 2)
    assert done_in(report) == ({"generations": 1, "vectors": 1} if collected else {})
    assert list(read_counts(world).values()) == ([0, 2] if collected else [2, 2])
    assert read_serving(world) == serving
    assert found_in(sweep(world, policy)) == {}


def test_configured_generation_is_kept_and_comes_back_after_it_was_collected(
    tmp_path: Path,
) -> None:
    world = make_second_generation(tmp_path / "store")
    first, policy = "fixture-r1", JanitorPolicy(collect_generations=True)
    world.do_advance(7 * DAY)
    world.do_change_model_revision(first)
    configured = frozenset({world.partition().generation})
    kept = sweep_up(
        world.store, policy, clock=world.clock, lease=lease_janitor(world), configured=configured
    )
    assert found_in(kept) == {}
    world.do_advance(HOUR)
    assert done_in(sweep(world, policy)) == {"generations": 1, "vectors": 1}
    assert world.do_run()["reason"] == "published"
    assert read_serving(world)[1] == 2


def test_overgrown_table_is_compacted(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    for number in range(4):
        add_rows(world, f"pub_{number:032x}", 2)
    policy = JanitorPolicy(optimize_after_commits=4)
    assert found_in(plan(world, policy)) == {"versions": 1}
    report = sweep(world, policy)
    assert report.after is not None
    assert (report.before.tables[0].fragments, report.after.tables[0].fragments) == (5, 1)
    assert read_serving(world)[1] == 1
    before = take_trace(world).tables
    assert found_in(sweep(world, policy)) == {}
    assert take_trace(world).tables == before


def test_large_table_gets_an_index_once(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    add_rows(world, "pub_" + "e" * 32, EXACT_ROWS - 2)
    assert found_in(sweep(world)) == {}
    add_rows(world, "pub_" + "f" * 32, 1)
    assert done_in(sweep(world)) == {"indexes": 1}
    before = take_trace(world).tables
    assert found_in(sweep(world)) == {}
    assert take_trace(world).tables == before
    name, _ = read_serving(world)
    hits = VectorStore(world.store.path).search(
        own_table(world),
        publication_id=name,
        vector=[1.0, 0.0],
        limit=3,
    )
    assert [hit.memory_id for hit in hits] == ["m0"]


def test_left_over_copy_of_the_database_is_removed(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    for name in (COPY_FILE, f"{COPY_FILE}.wal"):
        (world.store.path / name).write_bytes(b"half")
    assert done_in(sweep(world)) == {"leftovers": 2}
    assert not list(world.store.path.glob(f"{COPY_FILE}*"))
    assert world.do_run()["reason"] == "token_match"


def break_table(world: World) -> None:
    for manifest in (world.store.path / "vectors").rglob("*.manifest"):
        manifest.write_bytes(b"broken")


def break_disk(world: World) -> None:
    (world.store.path / COPY_FILE).mkdir()


@pytest.mark.parametrize(
    ("break_part", "code"),
    [
        pytest.param(break_table, "index_unreadable", id="vector-table"),
        pytest.param(break_disk, "internal:IsADirectoryError", id="left-over-directory"),
    ],
)
def test_failing_step_is_reported_and_stops_no_other(
    tmp_path: Path, break_part: Callable[[World], None], code: str
) -> None:
    world = make_world(tmp_path / "store")
    world.do_advance(400 * DAY + 1)
    world.do_tx([{"op": "revise", "id": "m0", "text": "newer"}])
    world.do_run()
    break_part(world)
    report = sweep(world)
    assert (report.error, report.end.outcome) == (code, "partial")
    assert done_in(report)["receipts"] == 1
    assert report.end.found == report.end.applied + report.end.failed


def test_janitor_that_lost_its_lease_writes_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    for number in range(3):
        republish(world, f"newer {number}")
    lease = lease_janitor(world)
    world.do_steal_lease()
    before = take_trace(world)
    with pytest.raises(FenceLostError):
        sweep_up(world.store, JanitorPolicy(), clock=world.clock, lease=lease)
    assert take_trace(world) == before
