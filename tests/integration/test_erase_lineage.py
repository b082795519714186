"""Erase takes the whole lineage of a merged memory, and what a refiner made of it."""

from datetime import datetime
from pathlib import Path

import pytest
from helpers.consolidate_runs import ChosenEmbedder, Keeper
from helpers.edits import revise_memory
from helpers.erasures import erase, remember
from helpers.rows import NOW
from helpers.runs import dump_tables, request_job
from helpers.vectors import NAMESPACE, find_owner

from storage import Store
from storage.models import DEFAULT_NAMESPACE
from tasks.consolidate.by_hand import merge_memories
from tasks.erasing.selection import ErasePolicy
from tasks.inline import preview_job
from tasks.memory_protocol import MemoryItem
from tasks.memory_store import DuckMemoryStore
from tasks.policies import SweepPolicy

COPY = "Grete keeps her savings under the third floorboard"
ADD_PAIRS = """
INSERT INTO plan_pairs BY NAME
SELECT p.plan_id, 100 + r.place AS position, 'similar' AS result, 'm1' AS memory_id, r.partner_id,
    '[]' AS reasons, r.figures
FROM plans AS p
CROSS JOIN (VALUES
    (1, 'canonical-7741', '{}'), (2, NULL, '{"old_id":"canonical-7741"}'), (3, 'other-pair', '{}')
) AS r(place, partner_id, figures)
WHERE p.job = 'consolidate'
"""
NAMED = "SELECT DISTINCT place FROM named_memories WHERE memory_id = $id ORDER BY place"


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    found = Keeper(store, now)
    found.add(*(remember(f"m{n}", COPY) for n in range(3)), remember("other", "a dog barks"))
    return found


def list_planned(store: Store, *ids: str) -> dict[str, str]:
    policy = ErasePolicy(ids=ids)
    request = request_job(store, job="erase", policy=policy, now=NOW, namespace=NAMESPACE)
    (plan,) = preview_job(request)
    return {row["id"]: row["reason"] for row in plan["decisions"]}


@pytest.mark.parametrize("asked", ["m0", "m2"])
def test_any_member_takes_all(keeper: Keeper, asked: str) -> None:
    assert keeper.consolidate().end.applied == 2
    assert list_planned(keeper.store, asked) == {
        name: "named" if name == asked else "merged" for name in ("m0", "m1", "m2")
    }
    result = erase(keeper.store, asked, namespace=NAMESPACE)
    assert (result.end.outcome, result.end.applied) == ("applied", 3)
    assert list(keeper.list_statuses()) == ["other"]
    with keeper.store.read() as reader:
        for name in ("m0", "m1", "m2"):
            assert reader.rows(NAMED, {"id": name}) == []
        for table in ("merge_receipts", "merge_sources"):
            assert reader.rows("SELECT count(*) FROM query_table($t)", {"t": table}) == [(0,)]
    keeper.check()


def test_member_that_was_given_back_goes_alone(keeper: Keeper) -> None:
    keeper.consolidate()
    assert keeper.restore("m1", "m2").end.applied == 2
    assert list_planned(keeper.store, "m1") == {"m1": "named"}
    assert erase(keeper.store, "m1", namespace=NAMESPACE).end.applied == 1
    assert list(keeper.list_statuses()) == ["m0", "m2", "other"]
    with keeper.store.read() as reader:
        assert reader.rows(NAMED, {"id": "m1"}) == []
    keeper.check()


def test_member_that_was_given_back_is_in_its_canonical_as_long_as_another_is_merged(
    keeper: Keeper,
) -> None:
    keeper.consolidate()
    keeper.restore("m1")
    assert list_planned(keeper.store, "m1") == {"m1": "named", "m0": "merged", "m2": "merged"}
    keeper.restore("m2")
    assert list_planned(keeper.store, "m1") == {"m1": "named"}
    assert list_planned(keeper.store, "m2") == {"m2": "named"}


def test_member_that_was_given_back_before_an_edit_is_undone_takes_its_canonical(
    keeper: Keeper, now: datetime
) -> None:
    keeper.consolidate()
    with keeper.store.write() as writer:
        owner = find_owner(writer).namespace_id
        revise_memory(writer, owner, "m0", content="another text", at=now)
    keeper.restore("m1", "m2")
    assert keeper.read("m0").content == "another text"
    assert list_planned(keeper.store, "m1") == {"m1": "named", "m0": "merged", "m2": "merged"}


def test_item_that_was_merged_when_it_was_stored_takes_its_canonical(store: Store) -> None:
    ids = iter(("first", "second"))
    host = DuckMemoryStore(store, DEFAULT_NAMESPACE, clock=lambda: NOW, new_id=lambda: next(ids))
    for _ in range(2):
        host.store(MemoryItem(content=COPY))
    assert host.count() == 1
    result = erase(store, "second")
    assert (result.end.outcome, result.end.applied) == ("applied", 2)
    assert host.count() == 0


def test_merge_by_hand_is_a_merge(keeper: Keeper) -> None:
    merge_memories(keeper.store, NAMESPACE, ["m0", "m1"], force=True, now=NOW, clock=NOW)
    assert set(list_planned(keeper.store, "m1")) == {"m0", "m1"}


def test_summary_goes_with_a_source_and_not_the_other_way_round(
    keeper: Keeper, tmp_path: Path
) -> None:
    said = {"digest": "d", "kind": "artifact", "occurred_at": "2026-09-01T00:00:00Z"}
    cited = [{"uri": "memtend:memory:m1:1", **said}]
    keeper.add(remember("summary", "savings are at home", evidence=cited, status="candidate"))
    assert list_planned(keeper.store, "summary") == {"summary": "named"}
    assert list_planned(keeper.store, "m1") == {"m1": "named", "summary": "refined"}
    assert tmp_path.is_dir()


def adopt(keeper: Keeper) -> str:
    """Let `first` take over the text of `second`, which waits for the vector; give the run."""
    old = {"content": COPY, "created_at": "2026-08-01T00:00:00Z"}
    keeper.add(remember("first", COPY) | old, remember("second", COPY.upper(), importance=0.9))
    keeper.refresh(ChosenEmbedder())
    result = keeper.consolidate()
    assert keeper.read("first").content == COPY.upper()
    assert result.end.skipped == {"awaiting_vector": 1}
    return result.run_id


@pytest.fixture
def bare(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def test_memory_that_has_taken_over_its_text_goes_along(bare: Keeper) -> None:
    adopt(bare)
    assert list_planned(bare.store, "second") == {"second": "named", "first": "merged"}
    assert erase(bare.store, "second", namespace=NAMESPACE).end.applied == 2
    assert list_tables(bare.store, "second") == set()


def test_memory_that_has_given_the_text_back_stays(bare: Keeper) -> None:
    bare.restore(run_id=adopt(bare))
    assert list_planned(bare.store, "second") == {"second": "named"}
    assert erase(bare.store, "second", namespace=NAMESPACE).end.applied == 1
    assert list_tables(bare.store, "second") == set()
    assert list_tables(bare.store, COPY.upper()) == set()
    assert bare.read("first").content == COPY
    bare.check()


def test_memory_that_was_merged_after_its_text_and_given_back_goes_alone(bare: Keeper) -> None:
    adopt(bare)
    bare.refresh(ChosenEmbedder())
    assert bare.consolidate().end.applied == 1
    assert bare.restore("second").end.applied == 1
    assert bare.read("first").content == COPY
    assert list_planned(bare.store, "second") == {"second": "named"}
    assert erase(bare.store, "second", namespace=NAMESPACE).end.applied == 1
    assert list_tables(bare.store, "second") == set()
    assert list_tables(bare.store, COPY.upper()) == set()


def list_tables(store: Store, said: str) -> set[str]:
    """List the tables of which some row says something, in whatever column."""
    return {name for name, rows in dump_tables(store).items() for row in rows if said in repr(row)}


def test_receipts_and_plans_of_others_say_it_no_more(bare: Keeper) -> None:
    bare.add(
        remember("canonical-7741", COPY, importance=0.9),
        remember("m1", COPY),
        remember("pinned-7741", "x y", expires_at="2026-09-02T00:00:00Z", pinned=True),
    )
    bare.consolidate()
    bare.restore("m1")
    bare.run("sweep", policy=SweepPolicy(), mode="plan")
    with bare.store.write() as writer:
        writer.execute(ADD_PAIRS)
    assert {"apply_receipts", "plans", "plan_pairs"} <= list_tables(bare.store, "-7741")
    erased = erase(bare.store, "canonical-7741", "pinned-7741", namespace=NAMESPACE)
    assert erased.end.applied == 2
    assert list_tables(bare.store, "-7741") == set()
    assert "pinned_expired:erased-" in str(dump_tables(bare.store)["plans"])
    assert list_tables(bare.store, "other-pair") == {"plan_pairs"}
    bare.check()
