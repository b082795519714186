"""A host adds one memory: validated by name, stored whole, never twice."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from helpers.rows import NOW
from helpers.runs import dump_tables

from storage import Store, create_store
from storage.errors import AdmissionError
from storage.memories import read_evidence, read_memory
from storage.models import DEFAULT_NAMESPACE, Namespace, round_to_f32
from storage.namespaces import find_namespace
from tasks.writing import add_memory

CANARY = "canary-4711"
OTHER = Namespace(tenant="t", principal="p", scope="s")
VALUES: dict[str, Any] = {
    "id": "m1",
    "content": "Deploys happen on Mondays.",
    "kind": "semantic",
    "importance": 0.8,
    "tags": ["ops", "ops", "Ops"],
    "metadata": {"keep": "yes"},
    "expires_at": "2026-12-31",
    "pinned": True,
}
BAD: dict[str, tuple[dict[str, object], str]] = {
    "blank-content": ({"content": "  "}, "content"),
    "surrogate": ({"content": "\udcff"}, "content"),
    "no-text": ({"content": object()}, "content"),
    "large": ({"content": CANARY * 10_000}, "content"),
    "tab-in-id": ({"id": "a\tb"}, "id"),
    "long-id": ({"id": "x" * 257}, "id"),
    "importance": ({"importance": 7}, "importance"),
    "kind": ({"kind": CANARY}, "kind"),
    "tag": ({"tags": ["fine", ""]}, "tags.1"),
    "metadata": ({"metadata": {CANARY: 1}}, "metadata"),
    "expiry": ({"expires_at": CANARY}, "expires_at"),
    "unknown-field": ({"owner": CANARY}, "owner"),
    "dangling-edge": ({"relations": [{"kind": "related_to", "target_id": "m9"}]}, "relations"),
    "two-namespaces": ({"namespace": OTHER}, "namespace"),
}


@pytest.fixture(scope="module")
def untouched_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Give a store for all refusals of the module, which must leave it as it was."""
    store, _ = create_store(tmp_path_factory.mktemp("untouched") / "store", clock=NOW)
    before = dump_tables(store)
    yield store
    assert dump_tables(store) == before


def read(store: Store, namespace: Namespace, memory_id: str = "m1") -> dict[str, Any]:
    with store.read() as reader:
        owner = find_namespace(reader, namespace)
        assert owner is not None
        row = read_memory(reader, owner.namespace_id, memory_id)
        return row | {"evidence": read_evidence(reader, owner.namespace_id, [memory_id])}


def test_memory_is_stored_as_it_was_said(store: Store, now: datetime) -> None:
    record = add_memory(store, VALUES, clock=now)
    row = read(store, DEFAULT_NAMESPACE)
    assert (record.id, record.revision) == ("m1", 1)
    assert (row["content"], row["kind"], row["pinned"]) == (VALUES["content"], "semantic", True)
    assert row["importance"] == round_to_f32(0.8)
    assert (row["tags"], row["metadata"]) == (["ops", "Ops"], {"keep": "yes"})
    assert (row["status"], row["origin"], row["access_count"]) == ("active", "store_api", 0)
    assert row["created_at"] == row["updated_at"] == row["content_at"] == now
    assert str(row["expires_at"]) == "2027-01-01 00:00:00+00:00"


def test_memory_has_one_evidence_that_somebody_said_so(store: Store, now: datetime) -> None:
    add_memory(store, VALUES, clock=now)
    (evidence,) = read(store, DEFAULT_NAMESPACE)["evidence"]
    assert (evidence["kind"], evidence["uri"]) == ("user_statement", "memtend:add/m1")
    assert VALUES["content"] not in str(evidence)


@pytest.mark.parametrize("change", [{}, {"content": "other"}], ids=["equal", "other-content"])
def test_known_id_is_refused_and_left_alone(
    store: Store, now: datetime, change: dict[str, str]
) -> None:
    add_memory(store, VALUES, clock=now)
    before = dump_tables(store)
    with pytest.raises(AdmissionError, match="id: memory_already_exists"):
        add_memory(store, VALUES | change, clock=now)
    assert dump_tables(store) == before


def test_equal_text_under_another_id_is_another_memory(store: Store, now: datetime) -> None:
    for memory_id in ("m1", "m2"):
        add_memory(store, VALUES | {"id": memory_id}, clock=now)
    assert read(store, DEFAULT_NAMESPACE, "m2")["content"] == VALUES["content"]


@pytest.mark.parametrize("case", BAD)
def test_bad_field_is_named_without_its_value(
    untouched_store: Store, now: datetime, case: str
) -> None:
    change, field = BAD[case]
    with pytest.raises(AdmissionError) as refused:
        add_memory(untouched_store, VALUES | change, namespace=DEFAULT_NAMESPACE, clock=now)
    assert refused.value.field == field
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("field", ["id", "content"])
def test_missing_field_is_named(store: Store, now: datetime, field: str) -> None:
    values = {name: value for name, value in VALUES.items() if name != field}
    with pytest.raises(AdmissionError, match=f"^{field}: "):
        add_memory(store, values, clock=now)


@pytest.mark.parametrize("is_named_inside", [True, False])
def test_memory_goes_to_the_named_namespace(
    store: Store, now: datetime, is_named_inside: bool
) -> None:
    add_memory(store, VALUES | {"content": "of the default namespace"}, clock=now)
    if is_named_inside:
        add_memory(store, VALUES | {"namespace": OTHER}, clock=now)
    else:
        add_memory(store, VALUES, namespace=OTHER, clock=now)
    assert read(store, OTHER)["content"] == VALUES["content"]
    assert read(store, DEFAULT_NAMESPACE)["content"] == "of the default namespace"


def test_edge_to_a_known_memory_is_stored_on_both_ends(store: Store, now: datetime) -> None:
    add_memory(store, VALUES, clock=now)
    edge = {"kind": "related_to", "target_id": "m1"}
    add_memory(store, VALUES | {"id": "m2", "relations": [edge]}, clock=now)
    assert read(store, DEFAULT_NAMESPACE)["revision"] == 2
