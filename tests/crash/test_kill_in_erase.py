"""An erasure that is killed serves nothing of what it took, and the next one goes on with it."""

from datetime import timedelta
from pathlib import Path

import pytest
from helpers.children import start_child
from helpers.erasures import erase, fill, find_bytes, pack, read_vectors, recall, refresh, remember
from helpers.imports import counts
from helpers.rows import NOW

from storage import Store
from storage.erasures import list_unproved
from storage.invariants import check_invariants
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import list_namespaces
from tasks.doctor_store import StoreDoctor

pytestmark = pytest.mark.slow

SAVINGS = "Grete keeps her savings under the third floorboard"
STEPS = ["rows", "table", "vectors", "closed", "attached", "copied", "detached", "synced"]
STEPS += ["replaced", "compacted", "proved"]
LATER = NOW + timedelta(hours=1)


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Store:
    lines = [remember("m1", SAVINGS), remember("m2", "a dog barks at night")]
    fill(store, tmp_path / "in.jsonl", *lines)
    refresh(store)
    return store


@pytest.mark.parametrize("step", STEPS)
def test_next_erasure_goes_on(filled: Store, tmp_path: Path, step: str) -> None:
    (vector,) = (row["vector"] for row in read_vectors(filled) if row["memory_id"] == "m1")
    with start_child("erase_memories", filled.path, step, "m1") as child:
        child.signal()
        assert child.hear_all() == ["ready", *STEPS[: STEPS.index(step) + 1]]
    assert recall(filled, SAVINGS) == ()
    assert StoreDoctor(filled, lambda: NOW).check_pointers().broken == 0
    report = fill(filled, tmp_path / "again.jsonl", remember("m1", SAVINGS))
    assert counts(report) == (0, 0, 1, 0)
    again = erase(filled, "m1", now=LATER)
    assert again.end.outcome == ("unchanged" if step == "proved" else "applied")
    with filled.read() as reader:
        assert list_unproved(reader) == []
        assert [check for check in check_invariants(reader) if check.broken] == []
        assert [one.namespace for one in list_namespaces(reader)] == [DEFAULT_NAMESPACE]
    assert [row["memory_id"] for row in read_vectors(filled)] == ["m2"]
    assert find_bytes(filled.path / "vectors", {"vector": pack(vector)}) == {}
    assert [hit.memory_id for hit in recall(filled, "a dog barks at night")] == ["m2"]


def test_erasure_in_another_namespace_goes_on_too(filled: Store, tmp_path: Path) -> None:
    with start_child("erase_memories", filled.path, "rows", "m1") as child:
        child.signal()
        assert child.hear_all() == ["ready", "rows"]
    other = DEFAULT_NAMESPACE.model_copy(update={"scope": "other"})
    fill(filled, tmp_path / "in.jsonl", remember("x1", "another text"), namespace=other)
    result = erase(filled, "x1", namespace=other, now=LATER)
    assert (result.end.outcome, result.end.figures["resumed"]) == ("applied", 1)
    assert [row["memory_id"] for row in read_vectors(filled)] == ["m2"]
