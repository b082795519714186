"""Preview, admission and use of recalled memories on a real store (V197-V208)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

import pytest
from helpers.runs import dump_tables
from helpers.sets import SPACE, START, change, change_set, create, evidence

from storage import Store
from storage.access import Usage, read_usage
from storage.gateway import DATABASE_FILE
from storage.records import read_record
from storage.repository import apply_change_set
from tasks.contexts import (
    ContextItem,
    admit,
    leave_out_known,
    make_item,
    name_context,
    record_uses,
)
from tasks.memory_protocol import MemoryItem
from tasks.recall import Hit, RecallPolicy, recall_memories

CONTEXT = name_context("session-a", "run-1", "invocation-a", 1)
LATER = START + timedelta(hours=1)
FOREIGN = ContextItem("notes:1", "notes://1", "What others say", 3, 0.5, 0.5, 0.5)


@pytest.fixture
def hits(store: Store) -> dict[str, Hit]:
    """Store two memories and recall them both."""
    made = (create(name, f"{name} beta gamma") for name in ("alpha", "delta"))
    apply_change_set(store, change_set("made", 0, *made))
    found = recall_memories(store, SPACE, "beta gamma", policy=RecallPolicy(), now=LATER)
    return {hit.memory_id: hit for hit in found.hits}


def _show(
    store: Store,
    hits: dict[str, Hit],
    *items: ContextItem,
    context_id: str | None = CONTEXT,
    occurred_at: datetime | None = LATER,
) -> list[str]:
    """Admit items, or those of all hits, and give the ids that stay."""
    given = items or tuple(make_item(hit) for hit in hits.values())
    kept = admit(store, SPACE, given, hits.values(), context_id=context_id, occurred_at=occurred_at)
    return [item.id for item in kept]


def _count(store: Store, memory_id: str = "alpha") -> Usage:
    with store.read() as reader:
        return read_usage(reader, SPACE, memory_id)


def _read_last_access(store: Store) -> list[tuple[object, ...]]:
    with store.read() as reader:
        return reader.rows("SELECT access_count, last_accessed_at FROM memories ORDER BY id")


def test_v197_current_revision_is_admitted(store: Store, hits: dict[str, Hit]) -> None:
    assert _show(store, hits, make_item(hits["alpha"])) == ["memtend:alpha:r1"]
    assert _count(store) == Usage(admissions=1, uses=0)
    assert _count(store, "delta") == Usage(admissions=0, uses=0)
    assert _read_last_access(store) == [(0, LATER), (0, None)]


def test_v198_preview_moves_nothing(store: Store, hits: dict[str, Hit]) -> None:
    assert set(hits) == {"alpha", "delta"}
    before = dump_tables(store)
    recall_memories(store, SPACE, "beta gamma", policy=RecallPolicy(), now=LATER)
    assert dump_tables(store) == before
    assert _read_last_access(store) == [(0, None), (0, None)]


def test_v199_what_was_revised_since_is_taken_out(store: Store, hits: dict[str, Hit]) -> None:
    revise = change("revise", "alpha", 1, content="beta gamma now", mode="correction")
    revise["evidence"] = [evidence("e://2", 1)]
    apply_change_set(store, change_set("revised", 1, revise))
    assert _show(store, hits, make_item(hits["alpha"])) == []
    assert _count(store) == Usage(admissions=0, uses=0)


@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(lambda item: replace(item, content="altered"), id="V200"),
        pytest.param(lambda item: replace(item, id="memtend:alpha:r2"), id="other-revision"),
        pytest.param(lambda item: replace(item, id="mine"), id="only-the-source-is-ours"),
        pytest.param(lambda item: replace(item, source="mine://1"), id="only-the-id-is-ours"),
        pytest.param(lambda item: replace(item, content="a\ud800"), id="no-valid-text"),
    ],
)
def test_v200_what_was_altered_is_taken_out(
    store: Store, hits: dict[str, Hit], alter: Callable[[ContextItem], ContextItem]
) -> None:
    assert _show(store, hits, alter(make_item(hits["alpha"]))) == []
    assert _count(store) == Usage(admissions=0, uses=0)


def test_v201_without_context_nothing_of_ours_stays(store: Store, hits: dict[str, Hit]) -> None:
    items = make_item(hits["alpha"]), FOREIGN
    assert _show(store, hits, *items, context_id=None) == ["notes:1"]
    assert _show(store, hits, *items, context_id=" ") == ["notes:1"]
    assert _count(store) == Usage(admissions=0, uses=0)


def test_v202_without_time_nothing_of_ours_stays(store: Store, hits: dict[str, Hit]) -> None:
    items = make_item(hits["alpha"]), FOREIGN
    assert _show(store, hits, *items, occurred_at=None) == ["notes:1"]
    assert _show(store, hits, *items, occurred_at=START - timedelta(days=1)) == ["notes:1"]
    assert _count(store) == Usage(admissions=0, uses=0)


def test_v203_one_refused_item_takes_no_other_with_it(store: Store, hits: dict[str, Hit]) -> None:
    gone = change("set_status", "delta", 1, status="tombstoned")
    apply_change_set(store, change_set("gone", 1, gone))
    assert _show(store, hits) == ["memtend:alpha:r1"]
    assert _count(store) == Usage(admissions=1, uses=0)
    assert _count(store, "delta") == Usage(admissions=0, uses=0)


def test_v204_same_context_is_counted_once(store: Store, hits: dict[str, Hit]) -> None:
    item = make_item(hits["alpha"])
    assert _show(store, hits, item, item) == [item.id, item.id]
    assert _show(store, hits, item) == [item.id]
    assert _count(store) == Usage(admissions=1, uses=0)


def test_v205_same_context_at_another_time_is_no_replay(store: Store, hits: dict[str, Hit]) -> None:
    item = make_item(hits["alpha"])
    assert _show(store, hits, item) == [item.id]
    assert _show(store, hits, item, occurred_at=LATER + timedelta(seconds=1)) == []
    assert _count(store) == Usage(admissions=1, uses=0)


def test_v206_items_of_other_origin_stay(store: Store, hits: dict[str, Hit]) -> None:
    assert _show(store, hits, FOREIGN) == ["notes:1"]
    assert _show(store, {}, FOREIGN, make_item(hits["alpha"])) == ["notes:1"]
    assert _count(store) == Usage(admissions=0, uses=0)


def test_v207_later_use_is_counted_beside_the_admission(store: Store, hits: dict[str, Hit]) -> None:
    _show(store, hits, make_item(hits["alpha"]))
    ids = (f"use-{number}" for number in count())
    used = LATER + timedelta(minutes=5)
    outcomes = record_uses(
        store, SPACE, [hits["alpha"]], occurred_at=used, new_id=lambda: next(ids)
    )
    assert outcomes == [None]
    assert _count(store) == Usage(admissions=1, uses=1)
    assert _read_last_access(store)[0] == (1, used)


def test_v208_v1_hit_with_the_text_of_a_recalled_one_is_left_out(store: Store) -> None:
    apply_change_set(store, change_set("made", 0, create("a", "Alpha beta")))
    found = recall_memories(store, SPACE, "alpha", policy=RecallPolicy(), now=LATER)
    items = [MemoryItem("  alpha BETA "), MemoryItem("alpha beta gamma")]
    assert leave_out_known(items, found.hits) == [items[1]]


def test_expired_memory_is_taken_out(store: Store, hits: dict[str, Hit]) -> None:
    with store.write() as writer:
        writer.execute("UPDATE memories SET expires_at = $at WHERE id = 'alpha'", {"at": LATER})
    assert _show(store, hits) == ["memtend:delta:r1"]


def test_storage_failure_takes_ours_out_and_leaves_the_rest(
    store: Store, hits: dict[str, Hit]
) -> None:
    (store.path / DATABASE_FILE).rename(store.path / "elsewhere")
    assert _show(store, hits, make_item(hits["alpha"]), FOREIGN) == ["notes:1"]


def test_nothing_shown_writes_nothing(store: Store, hits: dict[str, Hit]) -> None:
    before = dump_tables(store)
    assert _show(store, hits, FOREIGN) == ["notes:1"]
    assert record_uses(store, SPACE, [], occurred_at=LATER, new_id=str) == []
    assert dump_tables(store) == before


def test_hits_say_how_well_they_are_founded(store: Store, hits: dict[str, Hit]) -> None:
    hit = hits["alpha"]
    with store.read() as reader:
        rows = reader.rows("SELECT namespace_id FROM memories WHERE id = 'alpha'")
        record = read_record(reader, rows[0][0], "alpha")
    assert record is not None
    assert (hit.evidence_count, hit.decided) == (len(record.evidence), True)
