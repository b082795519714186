"""What was erased does not come back: by import, by a write, by a restore."""

import stat
from itertools import count
from pathlib import Path

import pytest
from helpers.erasures import erase, fill, remember
from helpers.imports import counts
from helpers.rows import NOW
from helpers.runs import request_job, run_one
from helpers.vectors import Json

from storage import Store
from storage.erasure_keys import KEY_FILE, ErasedMemoryError
from storage.errors import StorageError
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.repository import apply_change_set
from tasks.memory_protocol import MemoryItem
from tasks.memory_store import DuckMemoryStore
from tasks.restoring import RestorePolicy, check_known
from tasks.writing import add_memory

SAID = "Grete keeps her savings under the third floorboard"
OTHER = Namespace(tenant="t", principal="p", scope="other")


@pytest.fixture
def erased(store: Store, tmp_path: Path) -> Store:
    fill(store, tmp_path / "in.jsonl", remember("m1", SAID), remember("m2", "the dog"))
    erase(store, "m1")
    return store


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(remember("m1", "another text altogether"), id="id"),
        pytest.param(remember("m9", SAID), id="content"),
        pytest.param(remember("m9", f"  {SAID.upper()}!"), id="content-written-otherwise"),
    ],
)
def test_import_suppresses_it(erased: Store, tmp_path: Path, line: object) -> None:
    report = fill(erased, tmp_path / "again.jsonl", line, remember("m3", "a new one"))
    assert counts(report) == (1, 0, 1, 0)
    assert [note.reason for note in report.warnings] == ["suppressed: erased"]


def test_other_namespace_may_say_it(erased: Store, tmp_path: Path) -> None:
    report = fill(erased, tmp_path / "in.jsonl", remember("m1", SAID), namespace=OTHER)
    assert counts(report) == (1, 0, 0, 0)


def test_edge_to_it_is_dropped_without_its_id(erased: Store, tmp_path: Path) -> None:
    edge = {"relations": [{"kind": "related_to", "target_id": "m1"}]}
    report = fill(erased, tmp_path / "in.jsonl", remember("m3", "a new one", **edge))
    assert [reject.reason for reject in report.rejects] == ["the target was erased"]
    with erased.read() as reader:
        assert reader.rows("SELECT metadata FROM memories WHERE id = 'm3'") == [("{}",)]


@pytest.mark.parametrize(("memory_id", "text"), [("m1", "another"), ("m9", SAID)])
def test_add_and_store_refuse_it(erased: Store, memory_id: str, text: str) -> None:
    with pytest.raises(ErasedMemoryError, match="suppressed: erased"):
        add_memory(erased, {"id": memory_id, "content": text}, clock=NOW)
    numbers = count()
    host = DuckMemoryStore(
        erased, DEFAULT_NAMESPACE, clock=lambda: NOW, new_id=lambda: f"new-{next(numbers)}"
    )
    with pytest.raises(ErasedMemoryError, match="suppressed: erased"):
        host.store(MemoryItem(id=memory_id, content=text))
    assert host.count() == 1


def test_restore_says_that_it_was_erased(erased: Store) -> None:
    check_known(erased, ["m1"])
    request = request_job(
        erased, job="restore", policy=RestorePolicy(ids=("m1",)), mode="apply", now=NOW
    )
    result = run_one(request)
    assert (result.end.outcome, result.end.skipped) == ("unchanged", {"erased": 1})


def test_fingerprints_tell_nothing_and_the_key_is_the_owners(erased: Store) -> None:
    mode = stat.S_IMODE((erased.path / KEY_FILE).stat().st_mode)
    assert mode == stat.S_IRUSR | stat.S_IWUSR
    with erased.read() as reader:
        rows = reader.rows("SELECT subject, fingerprint FROM erasures")
    assert sorted(subject for subject, _ in rows) == ["content", "id"]
    assert all(len(mark) == 64 for _, mark in rows)


def test_lost_key_stops_writes_instead_of_letting_it_back(erased: Store) -> None:
    (erased.path / KEY_FILE).unlink()
    with pytest.raises(StorageError, match="cannot be read"):
        add_memory(erased, {"id": "m9", "content": SAID}, clock=NOW)


def test_change_set_that_is_sent_again_brings_nothing_back(store: Store) -> None:
    created: Json = {
        "idempotency_key": "create-m1",
        "namespace": DEFAULT_NAMESPACE,
        "occurred_at": "2026-09-01T00:00:00Z",
        "operations": [
            {
                "op": "create",
                "memory": {
                    "id": "m1",
                    "kind": "semantic",
                    "status": "candidate",
                    "content": SAID,
                    "created_at": "2026-09-01T00:00:00Z",
                },
            }
        ],
    }
    other: Json = {**created, "idempotency_key": "an outbox number"}
    other["operations"] = [
        {"op": "create", "memory": {**created["operations"][0]["memory"], "id": "m2"}}
    ]
    other["operations"][0]["memory"]["content"] = "another text of the same host"
    for values in (created, other):
        assert not apply_change_set(store, values).replayed
    assert erase(store, "m1", "m2").end.applied == 2
    with pytest.raises(ErasedMemoryError):
        apply_change_set(store, created)
    again = apply_change_set(store, other)
    assert (again.replayed, [one.record for one in again.memories]) == (True, [None])
    with store.read() as reader:
        said = str(reader.rows("SELECT * FROM change_sets"))
    assert "m1" not in said
    assert "m2" not in said
