"""A memtend store under the store API: one revision a write, one use a read, nothing lost."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from helpers.rows import memory_table
from helpers.runs import dump_tables
from helpers.store_contract import START, TestClock, ids_of

from storage import Store
from storage.change_errors import MemoryExistsError
from storage.errors import AdmissionError, ConflictError, LimitExceededError, StoreBusyError
from storage.items import count_reads
from storage.memories import insert_memories, read_memory
from storage.merge_sources import read_sources
from storage.models import DEFAULT_NAMESPACE, MemoryRecord, Namespace
from storage.namespaces import read_sequence
from storage.records import read_history, read_record
from tasks.inline import prune_store
from tasks.limits import SafetyLimits
from tasks.memory_protocol import PruneNotAppliedError
from tasks.memory_store import DuckMemoryStore, MemoryItem
from tasks.policies import PrunePolicy

TEXT = "Run careful ledger archive checks after parser changes."
LOUD = "RUN CAREFUL LEDGER ARCHIVE CHECKS AFTER PARSER CHANGES!!"
SPACE = Namespace(tenant="t", principal="p", scope="s")
# As many updates fail as the placeholder says; the count of them outlives their transactions.
FAULTS = """
CREATE TABLE said (x TEXT);
CREATE SEQUENCE tries;
CREATE TRIGGER fault AFTER UPDATE ON memories REFERENCING OLD TABLE AS o FOR EACH STATEMENT
INSERT INTO said SELECT CASE WHEN nextval('tries') <= {} THEN error('fault') ELSE id END FROM o
"""


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def memory(store: Store, clock: TestClock) -> DuckMemoryStore:
    return bind(store, clock)


def bind(
    store: Store, clock: Callable[[], datetime], namespace: Namespace = DEFAULT_NAMESPACE
) -> DuckMemoryStore:
    numbers = iter(range(1_000))
    return DuckMemoryStore(store, namespace, clock=clock, new_id=lambda: f"new-{next(numbers)}")


def read(store: Store, memory_id: str) -> MemoryRecord:
    with store.read() as reader:
        record = read_record(reader, 1, memory_id)
    assert record is not None
    return record


def sequence(store: Store) -> int:
    with store.read() as reader:
        return read_sequence(reader, 1)


def test_created_memory_says_where_it_came_from(
    store: Store, memory: DuckMemoryStore, clock: TestClock
) -> None:
    memory.store(MemoryItem("one", id="a"))
    record = read(store, "a")
    assert (record.origin, record.revision_kind, record.status) == (
        "store_api",
        "created",
        "active",
    )
    assert record.created_at == record.updated_at == record.content_at == clock.now
    [said] = record.evidence
    assert (said.uri, said.kind) == ("memtend:store:a:1", "user_statement")
    assert sequence(store) == 1


def test_replaced_memory_keeps_its_past_and_its_uses(
    store: Store, memory: DuckMemoryStore, clock: TestClock
) -> None:
    memory.store(MemoryItem("one", id="a", tags=["x"], metadata={"k": "v"}, kind="semantic"))
    memory.retrieve("a")
    clock.move(minutes=1)
    returned = memory.store_and_return(MemoryItem("two", id="a", importance=0.75))
    record = read(store, "a")
    assert (record.revision, record.revision_kind, record.kind) == (2, "corrected", "episodic")
    assert (record.tags, record.metadata, record.importance) == ((), {}, 0.75)
    assert (record.created_at, record.last_accessed_at) == (START, START)
    assert record.updated_at == record.content_at == clock.now
    assert [item.uri for item in record.evidence] == ["memtend:store:a:1", "memtend:store:a:2"]
    assert (returned.revision, returned.access_count) == (2, 1)
    with store.read() as reader:
        [before] = read_history(reader, 1, "a")
    assert (before.content, before.kind, before.tags) == ("one", "semantic", ("x",))
    assert sequence(store) == 2


def test_memory_can_be_replaced_more_often_than_evidence_fits(
    store: Store, memory: DuckMemoryStore
) -> None:
    with store.session():
        for number in range(70):
            memory.store(MemoryItem(f"text {number}", id="a"))
    record = read(store, "a")
    assert (record.revision, len(record.evidence)) == (70, 64)


def test_replacing_by_an_earlier_clock_moves_no_time_back(
    store: Store, memory: DuckMemoryStore, clock: TestClock
) -> None:
    memory.store(MemoryItem("one", id="a"))
    clock.move(days=-1)
    memory.store(MemoryItem("two", id="a"))
    assert read(store, "a").updated_at == START


def test_copy_is_merged_in_one_revision(
    store: Store, memory: DuckMemoryStore, clock: TestClock
) -> None:
    memory.store(MemoryItem(TEXT, id="a", importance=0.5, metadata={"source": "x"}))
    memory.retrieve("a")
    clock.move(minutes=1)
    returned = memory.store_and_return(
        MemoryItem(LOUD.rstrip("!"), id="b", kind="semantic", metadata={"source": "y"})
    )
    assert (returned.id, returned.revision, returned.access_count) == ("a", 2, 1)
    record = read(store, "a")
    assert (record.content, record.kind, record.revision_kind) == (TEXT, "semantic", "merged")
    assert record.created_at == START
    assert record.content_at == record.updated_at == clock.now
    assert record.metadata == {
        "source": "x",
        "duplicate_count": "1",
        "duplicate_ids": "b",
        "last_duplicate_at": "2026-09-30T00:01:00Z",
    }
    with store.read() as reader:
        assert read_sources(reader, 1, ["a"]) == {"a": ("b",)}
        losses = reader.rows("SELECT losses FROM merge_sources")[0][0]
        assert [state.revision for state in read_history(reader, 1, "a")] == [1]
    assert json.loads(losses) == {
        "kind": "episodic",
        "metadata": [{"key": "source", "kept": "x", "lost": "y", "from": "b"}],
    }
    assert (memory.count(), sequence(store)) == (1, 2)


def test_merged_text_is_found_by_its_words(store: Store, memory: DuckMemoryStore) -> None:
    memory.store(MemoryItem(TEXT, id="a", importance=0.25))
    memory.store(MemoryItem(LOUD.rstrip("!"), id="b", importance=0.75))
    memory.store(MemoryItem(TEXT.replace(" ", ", "), id="c", importance=0.5))
    record = read(store, "a")
    assert (record.content, record.revision) == (LOUD.rstrip("!"), 3)
    assert record.metadata["duplicate_ids"] == "b,c"
    assert [item.uri for item in record.evidence] == ["memtend:store:a:1", "memtend:store:b:1"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"content": f"{TEXT} C"}, {"content": f"{TEXT} C++"}, id="marks"),
        pytest.param({"content": f"{TEXT} 3.5"}, {"content": f"{TEXT} 3 5"}, id="figures"),
        pytest.param({}, {"expires_at": START + timedelta(days=1)}, id="expiry"),
        pytest.param(
            {"tags": [f"a{i}" for i in range(40)]},
            {"tags": [f"b{i}" for i in range(40)]},
            id="over-a-limit",
        ),
    ],
)
def test_copies_that_cannot_be_merged_without_loss_stay_apart(
    memory: DuckMemoryStore, first: dict[str, Any], second: dict[str, Any]
) -> None:
    memory.store(MemoryItem(**{"content": TEXT, "id": "a", **first}))
    returned = memory.store_and_return(MemoryItem(**{"content": TEXT, "id": "b", **second}))
    assert (returned.id, memory.count()) == ("b", 2)


def test_hidden_copies_take_nothing_in(memory: DuckMemoryStore, clock: TestClock) -> None:
    expires_at = clock.now + timedelta(minutes=1)
    memory.store(MemoryItem(TEXT, id="expired", expires_at=expires_at))
    memory.store(MemoryItem(TEXT, id="deleted"))
    memory.delete("deleted")
    clock.move(minutes=1)
    assert memory.store_and_return(MemoryItem(TEXT, id="b", expires_at=expires_at)).id == "b"
    assert memory.store_and_return(MemoryItem(TEXT, id="c")).id == "c"


def test_namespaces_share_nothing(store: Store, clock: TestClock) -> None:
    left, right = bind(store, clock), bind(store, clock, SPACE)
    left.store(MemoryItem(TEXT, id="a", tags=["x"]))
    assert right.store_and_return(MemoryItem(TEXT, id="b")).id == "b"
    assert ids_of(left.search("ledger", 10)) == ids_of(left.search_by_tags(["x"], 10)) == ["a"]
    assert right.retrieve("a") is None
    assert right.delete("a") is False
    assert (right.clear(), left.count()) == (1, 1)


def test_refused_item_leaves_nothing(store: Store, memory: DuckMemoryStore) -> None:
    memory.store(MemoryItem("one", id="a"))
    memory.delete("a")
    before = dump_tables(store)
    with pytest.raises(MemoryExistsError):
        memory.store(MemoryItem("one", id="a"))
    refusals: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"content": " "}, AdmissionError, "memory.content"),
        ({"content": "x", "id": "a\n"}, AdmissionError, "memory.id"),
        ({"content": "x", "kind": "secret"}, AdmissionError, "memory.kind"),
        ({"content": "x", "importance": float("nan")}, AdmissionError, "memory.importance"),
        ({"content": "x" * 65_537}, LimitExceededError, "memory.content"),
        ({"content": "x", "tags": [f"t{i}" for i in range(65)]}, LimitExceededError, "memory tags"),
    ]
    for fields, error, named in refusals:
        with pytest.raises(error, match=named):
            memory.store(MemoryItem(**fields))
    assert dump_tables(store) == before


def test_builder_clamps_importance() -> None:
    item = MemoryItem("one")
    assert [item.with_importance(it).importance for it in (7, -1, 0.25)] == [1.0, 0.0, 0.25]


def test_delete_and_clear_keep_history(
    store: Store, memory: DuckMemoryStore, clock: TestClock
) -> None:
    for name in "abc":
        memory.store(MemoryItem(f"note {name}", id=name, tags=["x"]))
    clock.move(minutes=1)
    assert memory.delete("a")
    assert memory.clear() == 2
    for name in "abc":
        record = read(store, name)
        assert (record.status, record.revision, record.tombstoned_at) == (
            "tombstoned",
            2,
            clock.now,
        )
        assert (record.tags, record.access_count) == (("x",), 0)
        with store.read() as reader:
            assert [state.status for state in read_history(reader, 1, name)] == ["active"]
    assert sequence(store) == 5


def test_clear_takes_what_is_hidden_too(store: Store, memory: DuckMemoryStore) -> None:
    rows: list[dict[str, object]] = [
        {"id": "candidate", "status": "candidate"},
        {"id": "expired", "expires_at": START - timedelta(days=1)},
        {"id": "gone", "status": "tombstoned", "tombstoned_at": START},
    ]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
    assert memory.count() == 0
    assert memory.clear() == 2


def test_odd_ids_tags_and_queries_find_nothing(memory: DuckMemoryStore) -> None:
    memory.store(MemoryItem("one", id="a"))
    for name in ("", "\ud800", "a\0", "x" * 300):
        assert memory.retrieve(name) is None
        assert memory.delete(name) is False
        assert memory.search_by_tags([name], 10) == []
    assert memory.search("\ud800\ud800 nothing", 10) == []
    with pytest.raises(LimitExceededError, match="query"):
        memory.search("x" * 65_537, 10)


def test_use_is_counted_only_at_the_revision_that_was_read(store: Store) -> None:
    with store.write() as writer:
        insert_memories(writer, memory_table({"id": "a"}, {"id": "b", "revision": 2}))
    with pytest.raises(ConflictError), store.write() as writer:
        count_reads(writer, 1, [("a", 1), ("b", 1)], now=START)
    with store.read() as reader:
        assert [read_memory(reader, 1, name)["access_count"] for name in "ab"] == [0, 0]


@pytest.mark.parametrize(("faults", "uses"), [(4, 1), (5, 0)])
def test_read_is_tried_five_times_and_then_served_without_its_use(
    store: Store, memory: DuckMemoryStore, faults: int, uses: int
) -> None:
    memory.store(MemoryItem("rust one", id="a"))
    with store.write() as writer:
        writer.run_script(FAULTS.format(faults))
    with store.session():
        [found] = memory.search("rust", 10)
        assert (found.access_count, memory.access_not_recorded) == (uses, 1 - uses)
    assert read(store, "a").access_count == uses


def test_store_in_use_is_waited_for_once(store: Store, clock: TestClock) -> None:
    bind(store, clock).store(MemoryItem("one", id="a"))
    impatient = bind(Store(store.path, lock_wait_s=0.2), clock)
    with store.session(), pytest.raises(StoreBusyError):
        impatient.retrieve("a")
    with store.read():
        found = impatient.retrieve("a")
    assert found is not None
    assert impatient.access_not_recorded == 1


def test_prune_gives_how_many_it_retired(
    store: Store, memory: DuckMemoryStore, clock: TestClock
) -> None:
    for name, importance in (("a", 0.1), ("b", 0.9)):
        memory.store(MemoryItem(f"note {name}", id=name, importance=importance))
    clock.move(days=100)
    assert memory.supports_prune
    offered = prune_store(memory, PrunePolicy(), run_id="run_1").end
    assert (offered.outcome, offered.found, offered.applied) == ("applied", 1, 1)
    assert memory.prune(PrunePolicy()) == 0
    assert ids_of(memory.get_recent(10)) == ["b"]
    with store.read() as reader:
        runs = reader.rows("SELECT run_id, job, outcome FROM runs ORDER BY run_id")
    assert runs == [("run_new-0", "prune", "applied"), ("run_new-1", "prune", "unchanged")]


def test_prune_over_the_limit_is_no_silent_zero(memory: DuckMemoryStore, clock: TestClock) -> None:
    for number in range(20):
        memory.store(MemoryItem(f"note {number}", id=f"m{number}", importance=0.1))
    clock.move(days=100)
    with pytest.raises(PruneNotAppliedError, match="refused") as caught:
        memory.prune(PrunePolicy())
    assert caught.value.result.end.skipped == {"refused": 20}
    offered = prune_store(memory, PrunePolicy(), run_id="run_1")
    assert (offered.end.outcome, offered.end.code) == ("refused", "plan_refused")
    assert memory.count() == 20
    assert memory.prune(PrunePolicy(), limits=SafetyLimits(max_fraction=1.0)) == 20


def test_prune_of_a_namespace_that_is_not_there_yet_does_nothing(
    store: Store, clock: TestClock
) -> None:
    assert bind(store, clock, SPACE).prune(PrunePolicy()) == 0
