"""Several processes on one namespace: one memory for one text, and every use counted."""

import pytest
from helpers.children import start_child
from helpers.store_contract import START

from storage import Store
from storage.merge_sources import read_sources
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import read_sequence
from storage.records import read_history, read_records
from tasks.memory_store import DuckMemoryStore, MemoryItem

pytestmark = pytest.mark.slow


def race(store: Store, what: str, turns: int) -> list[list[str]]:
    """Let two processes do the same at once and give what they say in the end."""
    with (
        start_child("store_items", store.path, what, "left", turns) as left,
        start_child("store_items", store.path, what, "right", turns) as right,
    ):
        assert [left.hear(), right.hear()] == ["ready", "ready"]
        left.signal()
        right.signal()
        return [left.hear_all(), right.hear_all()]


def test_two_processes_that_store_one_text_end_with_one_memory(store: Store) -> None:
    turns = 15
    assert race(store, "store", turns) == [[str(turns)], [str(turns)]]
    with store.read() as reader:
        [memory_id] = [row[0] for row in reader.rows("SELECT id FROM memories")]
        record = read_records(reader, 1, [memory_id])[memory_id]
        assert record.revision == read_sequence(reader, 1) == 2 * turns
        revisions = [state.revision for state in read_history(reader, 1, memory_id)]
        assert revisions == list(range(1, 2 * turns))
        sources = read_sources(reader, 1, [memory_id])[memory_id]
    every = {f"{name}-{number}" for name in ("left", "right") for number in range(turns)}
    assert {memory_id, *sources} == every
    assert record.metadata["duplicate_count"] == str(2 * turns - 1)


def test_two_processes_that_search_count_every_use(store: Store) -> None:
    turns = 15
    memory = DuckMemoryStore(store, DEFAULT_NAMESPACE, clock=lambda: START, new_id=lambda: "new")
    memory.store(MemoryItem("ledger one", id="a"))
    memory.store(MemoryItem("ledger two", id="b"))
    assert race(store, "search", turns) == [[str(2 * turns)], [str(2 * turns)]]
    with store.read() as reader:
        records = read_records(reader, 1, ["a", "b"])
        assert read_sequence(reader, 1) == 2
    assert [(one.access_count, one.revision) for one in records.values()] == [(2 * turns, 1)] * 2
