"""The merge vectors, and what a merge refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.rows import NOW

from storage.errors import LimitExceededError
from storage.instants import parse_instant
from storage.models import Evidence, EvidenceKind, MemoryRecord, RevisionKind, round_to_f32
from tasks.rules.merging import Merged, merge_records

Json = dict[str, Any]
_FILE = Path(__file__).parent.parent / "vectors" / "consolidate-vectors.json"
_CASES = [
    case for case in json.loads(_FILE.read_text(encoding="utf-8"))["cases"] if case["op"] == "merge"
]
_EXACT = ("id", "pinned", "access_count", "revision")
_NUMBERS = ("confidence", "importance", "salience")
_INSTANTS = ("last_accessed_at", "created_at", "content_at", "updated_at")


def evidence(uri: str, kind: EvidenceKind = EvidenceKind.USER_STATEMENT) -> Evidence:
    return Evidence(uri=uri, digest="d", kind=kind, occurred_at=NOW)


def record(memory_id: str, **fields: Any) -> MemoryRecord:  # noqa: ANN401 - JSON
    values: Json = {"content": "x", "created_at": NOW, "updated_at": NOW, "content_at": NOW}
    return MemoryRecord(id=memory_id, **{**values, **fields})


def read_member(given: Json) -> MemoryRecord:
    values = dict(given)
    if values.pop("decided"):
        values["evidence"] = (evidence(f"e://{given['id']}", EvidenceKind.MANUAL),)
    # Past admission: metadata of vectors may be blank, or longer than a value may be.
    metadata = values.pop("metadata")
    member = record(values.pop("id"), **{**values, "updated_at": given["created_at"]})
    return member.model_copy(update={"metadata": metadata})


def merge(*members: MemoryRecord) -> Merged:
    return merge_records(members, {}, at=NOW)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _CASES])
def test_merge_keeps_what_the_vector_says(case: Json) -> None:
    inputs, expected = case["input"], case["expect"]
    members = sorted(map(read_member, inputs["members"]), key=lambda one: (one.created_at, one.id))
    merged = merge_records(members, {}, at=parse_instant(inputs["now"]))
    canonical, found = expected["canonical"], merged.record
    contents = {one["id"]: one["content"] for one in inputs["members"]}
    assert found.content == contents[canonical["content_from"]]
    assert found.revision_kind == RevisionKind.MERGED
    assert found.kind.value == canonical["kind"]
    assert [getattr(found, name) for name in _EXACT] == [canonical[name] for name in _EXACT]
    for name in _NUMBERS:
        value = canonical[name]
        assert getattr(found, name) == (None if value is None else round_to_f32(value))
    for name in _INSTANTS:
        value = canonical[name]
        assert getattr(found, name) == (None if value is None else parse_instant(value))
    assert list(found.tags) == canonical["tags"]
    assert found.metadata == canonical["metadata"]
    assert list(merged.losses) == expected["lost"]


def test_stored_source_ids_count_beyond_what_the_text_names() -> None:
    held = {"a": [f"source-{i:03}" for i in range(200)], "b": ["c", "a"]}
    merged = merge_records([record("a"), record("b")], held, at=NOW)
    assert merged.source_ids == ("b", "c")
    assert merged.record.metadata["duplicate_count"] == "202"
    assert merged.record.metadata["duplicate_ids"].startswith("source-000,source-001,")


def test_stronger_kind_wins_and_the_old_one_is_told() -> None:
    strengths = {"working": "episodic", "episodic": "procedural"}
    for weak, strong in strengths.items():
        merged = merge(record("a", kind=weak), record("b", kind=strong))
        assert (merged.record.kind, merged.replaced_kind) == (strong, weak)
    equal = merge(record("a", kind="semantic"), record("b", kind="procedural"))
    assert (equal.record.kind, equal.replaced_kind) == ("semantic", None)


def test_evidence_of_the_kept_text_comes_along_as_far_as_it_fits() -> None:
    held = tuple(evidence(f"e://{i:02}") for i in range(63))
    new = (evidence("e://00"), evidence("f://1"), evidence("f://2"))
    longer = record("b", content="longer", evidence=new, confidence=0.75)
    merged = merge(record("a", evidence=held), longer).record
    assert [item.uri for item in merged.evidence] == [f"e://{i:02}" for i in range(63)] + ["f://1"]
    assert merged.confidence == 0.75
    shorter = merge(record("a", content="longest", evidence=held), longer).record
    assert shorter.evidence == held


@pytest.mark.parametrize(
    ("left", "right", "resource"),
    [
        pytest.param(
            {"tags": [f"a{i}" for i in range(40)]},
            {"tags": [f"b{i}" for i in range(25)]},
            "memory tags",
            id="tags",
        ),
        pytest.param(
            {"metadata": {f"a{i}": "x" for i in range(40)}},
            {"metadata": {f"b{i}": "x" for i in range(22)}},
            "memory metadata",
            id="keys-with-the-three-of-the-merge",
        ),
        pytest.param(
            {"metadata": {"tools": "a" * 600}},
            {"metadata": {"tools": "b" * 600}},
            "memory.metadata.value",
            id="value",
        ),
    ],
)
def test_what_would_not_fit_is_refused(left: Json, right: Json, resource: str) -> None:
    with pytest.raises(LimitExceededError) as caught:
        merge(record("a", **left), record("b", **right))
    assert caught.value.facts["resource"] == resource
