"""The vectors of the store API: match, relevance, search, steps, and a store of one's own."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from helpers.dict_store import DictStore
from helpers.rows import memory_table
from helpers.store_contract import START

from storage import Store
from storage.errors import MaintenanceError
from storage.instants import format_instant, parse_instant
from storage.items import read_facts
from storage.matching import match_strength, match_terms, relevance
from storage.memories import insert_memories
from storage.models import DEFAULT_NAMESPACE
from storage.query import query_memories
from storage.records import read_history, read_records
from storage.snapshots import take_snapshot
from tasks.inline import prune_store
from tasks.memory_protocol import MemoryItem
from tasks.memory_search import rank_matches
from tasks.memory_store import DuckMemoryStore
from tasks.policies import PrunePolicy

Json = dict[str, Any]
_FILE = Path(__file__).parent.parent / "vectors" / "recall-vectors.json"
_ALL: list[Json] = json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
_CLOSE = 2e-6


def _cases(kind: str) -> list[Any]:
    found = [case for case in _ALL if case["type"] == kind]
    assert found
    return [pytest.param(case, id=case["id"]) for case in found]


@pytest.mark.parametrize("case", _cases("v1_match"))
def test_match_is_as_strong_as_the_vector_says(case: Json) -> None:
    inputs, expected = case["inputs"], case["expected"]
    strength = match_strength(inputs["query"], inputs["content"], inputs["tags"], inputs["kind"])
    assert strength == (expected["strength"] and pytest.approx(expected["strength"], abs=_CLOSE))
    assert list(match_terms(inputs["query"])) == expected["terms"]


@pytest.mark.parametrize("case", _cases("relevance"))
def test_relevance_is_what_the_vector_says(case: Json) -> None:
    inputs = dict(case["inputs"])
    importance, age_days = inputs.pop("importance"), inputs.pop("age_seconds") / 86_400
    assert relevance(importance, age_days, **inputs) == pytest.approx(case["expected"], abs=_CLOSE)


@pytest.mark.parametrize("case", _cases("v1_search"))
def test_search_ranks_as_the_vector_says(case: Json, store: Store, namespace_id: int) -> None:
    inputs, expected = case["inputs"], case["expected"]
    now = parse_instant(inputs["now"])
    rows = [{"namespace_id": namespace_id, "importance": 0.5, **it} for it in inputs["items"]]
    for row in rows:
        for name in ("created_at", "expires_at"):
            row[name] = parse_instant(row[name]) if row.get(name) else None
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
    query, limit = inputs["query"], inputs["limit"]
    with store.read() as reader:
        ranked = rank_matches(reader, namespace_id, query, limit, now=now)
    found = [
        {"id": one.memory_id, "lexical": one.strength, "relevance": one.relevance}
        | {"score": one.score}
        for one in ranked
    ]
    assert [one.pop("id") for one in found] == [one["id"] for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx({name: other[name] for name in one}, abs=_CLOSE)
    memory = DuckMemoryStore(store, DEFAULT_NAMESPACE, clock=lambda: now, new_id=lambda: "new")
    assert [item.id for item in memory.search(query, limit)] == [one["id"] for one in expected]


class _Steps:
    """Does the steps of a vector on an empty namespace, each at its own time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._now = START
        self.memory = DuckMemoryStore(
            store, DEFAULT_NAMESPACE, clock=lambda: self._now, new_id=lambda: "new"
        )

    def run(self, step: Json) -> Json:
        self._now = parse_instant(step["now"])
        arguments = {
            name: value for name, value in step.items() if name not in {"do", "now", "expect"}
        }
        call: Callable[..., object] = (
            self._read_all if step["do"] == "maintenance_read" else getattr(self.memory, step["do"])
        )
        try:
            return {"result": call(**self._read(arguments))}
        except MaintenanceError as error:
            return {"error": {"code": error.code, **error.facts}}

    def _read(self, arguments: Json) -> Json:
        values = dict(arguments)
        if "item" in values:
            item = dict(values["item"])
            for name in ("created_at", "expires_at"):
                if name in item:
                    item[name] = parse_instant(item[name])
            values["item"] = MemoryItem(**item)
        if "id" in values:
            values["memory_id"] = values.pop("id")
        return values

    def _read_all(self) -> Json:
        """Read all that maintenance reads, then what the memories say about their use."""
        with self._store.read() as reader:
            take_snapshot(reader, DEFAULT_NAMESPACE)
            query_memories(reader, {"namespace": DEFAULT_NAMESPACE})
            ids = [one.memory_id for one in read_facts(reader, 1, now=self._now)]
            for memory_id in ids:
                read_history(reader, 1, memory_id)
            records = read_records(reader, 1, ids)
        return {"access_count": {name: record.access_count for name, record in records.items()}}


def _cut(found: object, expected: object) -> object:
    """Cut what was found down to the fields that the vector names."""
    if isinstance(expected, Mapping) and expected:
        values = found if isinstance(found, Mapping) else None
        return {
            name: _cut(getattr(found, name, None) if values is None else values.get(name), value)
            for name, value in expected.items()
        }
    if isinstance(expected, list) and isinstance(found, list | tuple):
        pairs = zip(found, expected, strict=len(found) == len(expected))
        return [_cut(one, other) for one, other in pairs] + list(found[len(expected) :])
    if isinstance(found, datetime):
        return format_instant(found)
    return pytest.approx(found) if isinstance(found, float) else found


@pytest.mark.parametrize("case", _cases("v1_steps"))
def test_steps_end_as_the_vector_says(case: Json, store: Store) -> None:
    steps = _Steps(store)
    for number, step in enumerate(case["steps"]):
        found = steps.run(step)
        assert found.keys() == step["expect"].keys(), (number, found)
        assert _cut(found, step["expect"]) == step["expect"], number


@pytest.mark.parametrize("case", _cases("v1_custom_store"))
def test_custom_store_inherits_what_the_vector_says(case: Json) -> None:
    own = {name for name in vars(DictStore) if not name.startswith("_")}
    assert own == set(case["inputs"]["calls"])
    memory, expected = DictStore(lambda: START), case["expected"]
    item = MemoryItem("one", id="a")
    assert memory.store_and_return(item) is item
    assert memory.prune(PrunePolicy()) == expected["prune"]
    assert memory.supports_prune is expected["supports_prune"]
    result = prune_store(memory, PrunePolicy(), run_id="run_1")
    outcome = f"{result.end.outcome}, code {result.end.code}"
    assert outcome == expected["prune_flow_outcome"]
    assert result.error is not None
    assert result.error["type"] == "unsupported"
    assert memory.count() == 1
