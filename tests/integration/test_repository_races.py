"""Change sets from several threads and processes: no lost revision, typed conflicts."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.children import start_child
from helpers.sets import SPACE, START, change, change_set, create, edge, evidence

from storage import Store, StoreReader
from storage.access import AccessEvent, record_events
from storage.errors import MaintenanceError, RevisionConflictError, StorageError
from storage.namespaces import find_namespace, read_sequence
from storage.records import read_history
from storage.removal import remove_memories
from storage.repository import ChangeResult, apply_change_set, read_state

pytestmark = pytest.mark.slow

FAULT = """
CREATE TABLE said (x TEXT);
CREATE TRIGGER fault AFTER UPDATE ON memories REFERENCING OLD TABLE AS o FOR EACH STATEMENT
INSERT INTO said SELECT CASE WHEN id = 'b' THEN error('fault') ELSE id END FROM o
"""


def _owner(reader: StoreReader) -> int:
    found = find_namespace(reader, SPACE)
    assert found is not None
    return found.namespace_id


def _sequence(store: Store) -> int:
    with store.read() as reader:
        return read_sequence(reader, _owner(reader))


def _try(call: Callable[[], ChangeResult]) -> ChangeResult | MaintenanceError:
    try:
        return call()
    except MaintenanceError as error:
        return error


def _revision(store: Store, memory_id: str) -> int:
    with store.read() as reader:
        record = read_state(reader, SPACE, memory_id)
    assert record is not None
    return record.revision


def test_v118_of_two_writers_with_one_expectation_one_wins_each_round(store: Store) -> None:
    apply_change_set(store, change_set("k", 0, create("n1")))

    def annotate(actor: int, turn: int) -> ChangeResult | MaintenanceError:
        operation = change("annotate", "n1", turn + 1, tags=[f"actor{actor}", f"round{turn}"])
        key = f"k{turn}-{actor}"
        return _try(lambda: apply_change_set(store, change_set(key, turn + 1, operation)))

    with ThreadPoolExecutor(2) as pool:
        for turn in range(200):
            both = list(pool.map(annotate, (1, 2), (turn, turn)))
            lost = [one for one in both if isinstance(one, RevisionConflictError)]
            assert len(lost) == 1
            assert lost[0].facts["actual"] == turn + 2
    with store.read() as reader:
        assert len(read_history(reader, _owner(reader), "n1")) == 200
    assert (_revision(store, "n1"), _sequence(store)) == (201, 201)


def test_v119_the_same_set_sent_twice_at_once_is_replayed_once(store: Store) -> None:
    same = change_set("k1", 0, create("n1"))
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: apply_change_set(store, same), range(2)))
    assert sorted(one.replayed for one in both) == [False, True]
    assert _sequence(store) == 1


def test_v120_eight_writers_create_eight_memories(store: Store) -> None:
    sets = [change_set(f"k{i}", 0, create(f"n{i}")) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda one: apply_change_set(store, one), sets))
    assert sorted(result.sequence for result in results) == list(range(1, 9))


def test_v121_uses_do_not_disturb_a_revision(store: Store) -> None:
    apply_change_set(store, change_set("k", 0, create("n1")))
    revise = change("revise", "n1", 1, content="beta", mode="correction")
    revise["evidence"] = [evidence("e://r", 1)]
    events = [
        AccessEvent(id=f"u{i}", namespace=SPACE, memory_id="n1", revision=1, occurred_at=START)
        for i in range(100)
    ]
    with ThreadPoolExecutor(2) as pool:
        revised = pool.submit(apply_change_set, store, change_set("k2", 1, revise))
        for start in range(0, 100, 10):
            assert record_events(store, "use", events[start : start + 10]) == [None] * 10
        revised.result()
    with store.read() as reader:
        record = read_state(reader, SPACE, "n1")
    assert record is not None
    assert (record.revision, record.access_count, _sequence(store)) == (2, 100, 2)


def test_v124_a_failing_statement_leaves_nothing(store: Store) -> None:
    apply_change_set(store, change_set("k", 0, create("a"), create("b")))
    with store.write() as writer:
        writer.run_script(FAULT)
    operations = [change("annotate", name, 1, pinned=True) for name in ("a", "b")]
    with pytest.raises(StorageError):
        apply_change_set(store, change_set("k2", 1, *operations))
    assert (_revision(store, "a"), _revision(store, "b"), _sequence(store)) == (1, 1, 1)


def test_v125_a_removed_partner_blocks_no_later_change(store: Store) -> None:
    apply_change_set(store, change_set("k", 0, create("a"), create("b")))
    conflict = [
        change("add_relation", "a", 1, **edge("conflicts_with", "b")),
        change("add_relation", "b", 1, **edge("conflicts_with", "a")),
        change("set_status", "a", 2, status="conflicted"),
        change("set_status", "b", 2, status="conflicted"),
    ]
    apply_change_set(store, change_set("k2", 1, *conflict))
    with store.write() as writer:
        remove_memories(writer, _owner(writer), ["b"], now=START)
    with store.read() as reader:
        lonely = read_state(reader, SPACE, "a")
    assert lonely is not None
    assert (lonely.revision, lonely.revision_kind, lonely.relations) == (4, "relation_changed", ())
    result = apply_change_set(store, change_set("k3", 2, change("annotate", "a", 4, tags=["kept"])))
    record = result.memories[0].record
    assert record is not None
    assert (record.status, record.tags) == ("conflicted", ("kept",))


def _supersede(store: Store) -> None:
    """Build old, superseded by new."""
    apply_change_set(store, change_set("k", 0, create("old"), create("new")))
    operations = [
        change("add_relation", "old", 1, **edge("superseded_by", "new")),
        change("add_relation", "new", 1, **edge("supersedes", "old")),
        change("set_status", "old", 2, status="superseded"),
    ]
    apply_change_set(store, change_set("k2", 1, *operations))


def test_v126_a_restored_memory_stays_superseded_without_its_successor(store: Store) -> None:
    _supersede(store)
    gone = change("set_status", "old", 3, status="tombstoned")
    apply_change_set(store, change_set("k3", 2, gone))
    with store.write() as writer:
        remove_memories(writer, _owner(writer), ["new"], now=START)
    revision = _revision(store, "old")
    result = apply_change_set(store, change_set("k4", 3, change("restore", "old", revision)))
    record = result.memories[0].record
    assert record is not None
    assert (record.status, record.relations) == ("superseded", ())


def test_v127_the_replay_of_a_set_says_what_was_removed(store: Store) -> None:
    first = change_set("k1", 0, create("a", "quartz"), create("b"))
    apply_change_set(store, first)
    with store.write() as writer:
        remove_memories(writer, _owner(writer), ["a"], now=START)
    again = apply_change_set(store, first)
    assert again.replayed
    assert [(one.memory_id, one.record is None) for one in again.memories] == [
        ("a", True),
        ("b", False),
    ]


def test_v128_a_removal_is_one_step_and_leaves_no_rows(store: Store) -> None:
    apply_change_set(store, change_set("k", 0, *(create(name) for name in "abc")))
    with store.write() as writer:
        assert remove_memories(writer, _owner(writer), "abc", now=START) == 3
        for table in ("memories", "evidence", "revisions", "access_events"):
            assert writer.rows(f"SELECT count(*) FROM {table}")[0][0] == 0  # noqa: S608
    assert _sequence(store) == 2


def test_two_processes_lose_no_revision_of_one_memory(store: Store) -> None:
    apply_change_set(store, change_set("k", 0, create("n1")))
    turns = 30
    with (
        start_child("change_memory", store.path, "left", turns) as left,
        start_child("change_memory", store.path, "right", turns) as right,
    ):
        assert [left.hear(), right.hear()] == ["ready", "ready"]
        left.signal()
        right.signal()
        conflicts = [left.hear_all(), right.hear_all()]
    assert _revision(store, "n1") == 1 + 2 * turns
    assert _sequence(store) == 1 + 2 * turns
    assert all(len(said) == 1 for said in conflicts)
    with store.read() as reader:
        states = read_history(reader, _owner(reader), "n1")
    assert [state.revision for state in states] == list(range(1, 2 * turns + 1))
