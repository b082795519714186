"""Feedback moves the salience of one memory within its bounds, and nothing else of it."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from helpers.rows import memory_table
from helpers.runs import dump_tables

from storage import Store
from storage.errors import AdmissionError, FrozenMemoryError, MemoryNotFoundError
from storage.memories import insert_memories, read_memory, read_revisions
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace, read_sequence
from tasks.feedback import Signal, apply_feedback, weigh_signal

OTHER = Namespace(tenant="t", principal="p", scope="s")
MOVED = {"salience", "revision", "revision_kind", "updated_at"}
# spec/sweep.md 5.7: start, signals, end.
CHAINS: Mapping[str, tuple[float | None, list[Signal], float]] = {
    "N01": (None, ["helpful"], 1.25),
    "N02": (None, ["helpful"] * 5, 2.0),
    "N03": (None, ["not_helpful"], 0.75),
    "N04": (None, ["not_helpful"] * 4, 0.25),
    "N05": (2.0, ["stale"], 0.25),
    "N06": (2.0, ["wrong"], 0.25),
    "N07": (1.75, ["helpful"] * 2, 2.0),
    "N08": (None, ["wrong", "helpful"], 0.5),
    "N09": (None, ["helpful"] * 21, 2.0),
    "N10": (None, ["not_helpful"] * 21, 0.25),
    "N11": (0.25, ["not_helpful", "helpful"], 0.5),
}


def insert(store: Store, namespace: Namespace = DEFAULT_NAMESPACE, **row: object) -> int:
    with store.write() as writer:
        owner = ensure_namespace(writer, namespace).namespace_id
        insert_memories(writer, memory_table({"namespace_id": owner, **row}))
    return owner


def read(store: Store, namespace_id: int, memory_id: str = "m1") -> dict[str, object]:
    with store.read() as reader:
        return read_memory(reader, namespace_id, memory_id)


@pytest.mark.parametrize("case", CHAINS)
def test_signals_add_up_within_the_bounds(case: str) -> None:
    salience, signals, end = CHAINS[case]
    for signal in signals:
        salience = weigh_signal(salience, signal, start=1.0)
    assert salience == end


@pytest.mark.parametrize("case", ["N02", "N08"])
def test_signals_add_up_in_the_store(store: Store, now: datetime, case: str) -> None:
    start, signals, end = CHAINS[case]
    owner = insert(store, salience=start)
    for signal in signals:
        done = apply_feedback(store, "m1", signal, at=now)
    assert done.salience == read(store, owner)["salience"] == end


def test_feedback_is_one_revision_and_moves_only_the_salience(store: Store, now: datetime) -> None:
    owner = insert(store, tags=["keep"], pinned=True, last_accessed_at=now - timedelta(days=9))
    before = read(store, owner)
    done = apply_feedback(store, "m1", "helpful", at=now)
    after = read(store, owner)
    assert {name for name in after if after[name] != before[name]} == MOVED
    assert (done.before, done.salience, done.revision, done.changed) == (None, 1.25, 2, True)
    with store.read() as reader:
        assert [row["salience"] for row in read_revisions(reader, owner, "m1")] == [None]
        assert read_sequence(reader, owner) == 1


@pytest.mark.parametrize(("salience", "signal"), [(2.0, "helpful"), (0.25, "stale")])
def test_salience_at_its_bound_changes_nothing(
    store: Store, now: datetime, salience: float, signal: Signal
) -> None:
    insert(store, salience=salience)
    before = dump_tables(store)
    done = apply_feedback(store, "m1", signal, at=now)
    assert (done.changed, done.revision, done.salience) == (False, 1, salience)
    assert dump_tables(store) == before


@pytest.mark.parametrize("status", ["superseded", "tombstoned"])
def test_frozen_memory_takes_no_feedback(store: Store, now: datetime, status: str) -> None:
    insert(store, status=status)
    before = dump_tables(store)
    with pytest.raises(FrozenMemoryError, match=status):
        apply_feedback(store, "m1", "helpful", at=now)
    assert dump_tables(store) == before


@pytest.mark.parametrize("namespace", [None, DEFAULT_NAMESPACE, OTHER])
def test_unknown_id_is_named(store: Store, now: datetime, namespace: Namespace | None) -> None:
    insert(store)
    with pytest.raises(MemoryNotFoundError, match="'m2'"):
        apply_feedback(store, "m2", "helpful", at=now, namespace=namespace)


def test_id_in_another_namespace_is_not_found(store: Store, now: datetime) -> None:
    insert(store)
    insert(store, OTHER, id="m2")
    with pytest.raises(MemoryNotFoundError, match="'m1'"):
        apply_feedback(store, "m1", "helpful", at=now, namespace=OTHER)


def test_id_in_two_namespaces_needs_the_namespace(store: Store, now: datetime) -> None:
    first, second = insert(store), insert(store, OTHER)
    with pytest.raises(AdmissionError, match="namespace: 2 namespaces have this id"):
        apply_feedback(store, "m1", "helpful", at=now)
    done = apply_feedback(store, "m1", "helpful", at=now, namespace=OTHER)
    assert done.namespace == OTHER
    assert [read(store, owner)["revision"] for owner in (first, second)] == [1, 2]


def test_id_in_one_namespace_is_found_there(store: Store, now: datetime) -> None:
    insert(store, OTHER)
    assert apply_feedback(store, "m1", "wrong", at=now).namespace == OTHER


def test_late_feedback_never_moves_a_memory_back_in_time(store: Store, now: datetime) -> None:
    owner = insert(store, created_at=now)
    apply_feedback(store, "m1", "helpful", at=now - timedelta(days=1))
    assert read(store, owner)["updated_at"] == now
