"""Erase takes the whole lineage of a merged memory, and what a refiner made of it."""

from datetime import datetime
from pathlib import Path

import pytest
from helpers.consolidate_runs import Keeper
from helpers.erasures import erase, remember
from helpers.rows import NOW
from helpers.runs import request_job
from helpers.vectors import NAMESPACE

from storage import Store
from storage.models import DEFAULT_NAMESPACE
from tasks.consolidate.by_hand import merge_memories
from tasks.erasing.selection import ErasePolicy
from tasks.inline import preview_job
from tasks.memory_protocol import MemoryItem
from tasks.memory_store import DuckMemoryStore

COPY = "Grete keeps her savings under the third floorboard"
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
