"""The digest of a change set names it: each field counts, and nothing but the fields."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.change_digest import digest_change_set
from storage.changes import parse_change_set
from storage.instants import parse_instant

_FILE = Path(__file__).parent.parent / "vectors" / "repository-vectors.json"
_VECTORS = json.loads(_FILE.read_text(encoding="utf-8"))
CASES = [case for case in _VECTORS["cases"] if case["type"] == "change_set_digest"]
AT = "2026-01-01T00:00:00Z"
ITEMS = [
    {"uri": f"e://{name}", "digest": "d", "kind": "manual", "occurred_at": AT} for name in "ab"
]
ADDRESS = {"memory_id": "m1", "expected_revision": 1}
MEMORY = {
    "id": "m1",
    "kind": "semantic",
    "status": "active",
    "content": "alpha",
    "tags": ["a", "b"],
    "metadata": {"a": "1", "b": "2"},
    "evidence": ITEMS,
    "relations": [{"kind": "related_to", "target_id": "m2"}],
    "created_at": AT,
}

Said = dict[str, Any]


def say(*operations: Said) -> Said:
    namespace = {"tenant": "t", "principal": "p", "scope": "s"}
    head = {"idempotency_key": "k", "namespace": namespace, "occurred_at": AT}
    return copy.deepcopy({**head, "operations": operations})


def digest(*operations: Said) -> str:
    return digest_change_set(parse_change_set(say(*operations)))[0]


def create(**fields: object) -> Said:
    return {"op": "create", "memory": MEMORY | fields}


def change(op: str, **fields: object) -> Said:
    return {"op": op, **ADDRESS, **fields}


def complete(case: Said) -> Said:
    """Fill in the defaults and read the instants, as plain values."""
    values: Said = copy.deepcopy(case["inputs"])
    values["occurred_at"] = parse_instant(values["occurred_at"])
    for operation in values["operations"]:
        if operation["op"] == "create":
            memory = operation["memory"] = {**_VECTORS["defaults"]["memory"], **operation["memory"]}
            memory["created_at"] = parse_instant(memory["created_at"])
            for item in memory["evidence"]:
                item["occurred_at"] = parse_instant(item["occurred_at"])
    return values


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
@pytest.mark.parametrize("read", [lambda case: parse_change_set(case["inputs"]), complete])
def test_digest_and_size_are_the_published_ones(case: Said, read: Callable[[Said], Any]) -> None:
    expected = case["expected"]
    assert digest_change_set(read(case)) == (expected["digest"], expected["byte_count"])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(create(confidence=0.5, salience=None, pinned=False), id="defaults-said"),
        pytest.param(create(confidence=0.5 + 2**-40), id="same-f32"),
        pytest.param(create(created_at="2026-01-01T01:00:00+01:00"), id="same-instant"),
        pytest.param(create(tags=["a", "b", "a"]), id="tag-twice"),
        pytest.param(create(metadata={"b": "2", "a": "1"}), id="order-of-metadata"),
    ],
)
def test_other_spelling_is_the_same_set(other: Said) -> None:
    assert digest(other) == digest(create())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(create(**{name: value}), id=name)
        for name, value in {
            "id": "m3",
            "kind": "episodic",
            "status": "candidate",
            "content": "beta",
            "confidence": 0.25,
            "importance": 0.75,
            "salience": 1.0,
            "tags": ["b", "a"],
            "metadata": {"a": "2", "b": "1"},
            "pinned": True,
            "expires_at": "2027-01-01T00:00:00Z",
            "evidence": ITEMS[::-1],
            "relations": [],
            "created_at": "2025-12-31T00:00:00Z",
        }.items()
    ],
)
def test_each_field_of_a_draft_moves_the_digest(other: Said) -> None:
    assert digest(other) != digest(create())


@pytest.mark.parametrize(
    "field",
    ["idempotency_key", "occurred_at", "tenant", "principal", "scope"],
)
def test_each_field_of_the_set_moves_the_digest(field: str) -> None:
    values = say(create())
    owner = values["namespace"] if field in values["namespace"] else values
    owner[field] = "2026-01-02T00:00:00Z" if field == "occurred_at" else "other"
    assert digest_change_set(parse_change_set(values))[0] != digest(create())


EDGE = {"kind": "related_to", "target_id": "m2"}
OPERATIONS = [
    change("activate", evidence=ITEMS),
    change("activate", evidence=ITEMS[::-1]),
    change("corroborate", evidence=ITEMS),
    change("revise", content="b", mode="refinement", evidence=ITEMS),
    change("revise", content="b", mode="correction", evidence=ITEMS),
    change("revise", content="b", mode="correction", evidence=ITEMS, confidence=0.5),
    change("revise", content="b", mode="correction", evidence=ITEMS, importance=0.5),
    change("add_relation", relation=EDGE),
    change("add_relation", relation=EDGE | {"kind": "conflicts_with"}),
    change("remove_relation", relation=EDGE),
    change("set_status", status="tombstoned"),
    change("set_status", status="conflicted"),
    change("restore"),
    change("restore", expected_revision=2),
    change("restore", memory_id="m2"),
    change("annotate", tags=[]),
    change("annotate", metadata={}),
    change("annotate", metadata={"a": None}),
    change("annotate", metadata={"a": "null"}),
    change("annotate", pinned=False),
    change("annotate", expires_at=None),
    change("annotate", salience=None),
    change("annotate", importance=0.5),
]


def test_operations_that_differ_have_different_digests() -> None:
    digests = {digest(operation) for operation in OPERATIONS}
    assert len(digests) == len(OPERATIONS)


def test_order_of_operations_moves_the_digest() -> None:
    first, second = change("annotate", pinned=True), change("annotate", pinned=False)
    assert digest(first, second) != digest(second, first)


def test_absent_figure_of_a_revise_is_null() -> None:
    revise = change("revise", content="b", mode="refinement", evidence=ITEMS)
    assert digest(revise) == digest({**revise, "confidence": None, "importance": None})


def test_whole_number_is_the_float_of_that_value() -> None:
    plain = complete({"inputs": say(create(importance=1.0))})
    whole = complete({"inputs": say(create(importance=1))})
    assert digest_change_set(plain) == digest_change_set(whole)
