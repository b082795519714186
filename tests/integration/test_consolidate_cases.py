"""Faults that other stores really had, as cases of consolidation: import, run, recall."""

import json
from datetime import datetime
from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.consolidate_runs import ChosenEmbedder, Keeper, say
from helpers.imports import record
from helpers.vectors import NAMESPACE, Json

from storage import Store
from storage.models import Namespace, RelationKind, Status, format_namespace
from tasks.exporting import export_file
from tasks.supersession import HandMade, supersede_by_hand

NOON = "Blue cluster deploys on Tuesdays at noon"
WHERE = ("--namespace", format_namespace(NAMESPACE))
QUIET = {"exact": False, "near": False}
_TABLES = ("memories", "revisions", "evidence", "relations", "merge_receipts", "merge_sources")


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def test_c01_copy_is_merged_and_never_both_are_gone(keeper: Keeper) -> None:
    keeper.add(*say(NOON, NOON.lower()))
    result = keeper.consolidate()
    assert (result.end.found, result.end.applied, keeper.count_receipts()) == (1, 1, 1)
    assert keeper.list_statuses() == {"m1": "active", "m2": "superseded"}
    assert keeper.recall("blue cluster tuesdays") == ["m1"]
    again = keeper.consolidate()
    assert (again.end.outcome, again.end.found) == ("unchanged", 0)
    assert keeper.list_statuses() == {"m1": "active", "m2": "superseded"}


@pytest.mark.parametrize("mode", ["report", "link"])
def test_c22_permission_and_its_negation_stay_both(keeper: Keeper, mode: str) -> None:
    keeper.add(*say("Production deploys are allowed", "Production deploys are not allowed"))
    result = keeper.plan({"conflict_mode": mode})
    told = keeper.report(result)
    assert (told.clusters, told.conflicts) == ([], [["m1", "m2", ["polarity"]]])
    done = keeper.consolidate({"conflict_mode": mode})
    assert (done.end.found, done.end.figures) == (0, {"linked": 1} if mode == "link" else {})
    wanted = {
        ("m1", "m2"): [(RelationKind.CONFLICTS_WITH, "m2")] if mode == "link" else [],
        ("m2", "m1"): [(RelationKind.CONFLICTS_WITH, "m1")] if mode == "link" else [],
    }
    for (name, _), edges_of in wanted.items():
        memory = keeper.read(name)
        assert memory.status == Status.ACTIVE
        assert [(edge.kind, edge.target_id) for edge in memory.relations] == edges_of
    assert sorted(keeper.recall("production deploys allowed")) == ["m1", "m2"]
    again = keeper.consolidate({"conflict_mode": mode})
    assert again.end.outcome == "unchanged"


def assert_kept(keeper: Keeper, conflicts: list[list[object]]) -> None:
    """Nothing is merged, and only these pairs contradict each other."""
    before = keeper.dump()
    told = keeper.report(keeper.plan())
    assert (told.clusters, told.similar, told.conflicts) == ([], [], conflicts)
    result = keeper.consolidate()
    assert (result.end.outcome, result.end.found) == ("unchanged", 0)
    assert keeper.dump() == before


def test_c23_advice_and_its_reminder_have_nothing_to_do_with_each_other(keeper: Keeper) -> None:
    keeper.add(
        *say(
            "Use the async runtime for workers",
            "Do not forget to configure the async runtime for workers",
        )
    )
    assert_kept(keeper, [])
    assert sorted(keeper.recall("async runtime workers")) == ["m1", "m2"]


def test_c24_opposite_states_contradict(keeper: Keeper) -> None:
    keeper.add(*say("Feature flag Z is enabled", "Feature flag Z is disabled"))
    assert_kept(keeper, [["m1", "m2", ["polarity"]]])
    assert sorted(keeper.recall("feature flag z")) == ["m1", "m2"]


def test_c25_short_texts_of_other_scripts_stay_apart(keeper: Keeper) -> None:
    keeper.add(*say("我喜欢健身。", "我喜欢普洱茶。", "今天", "!!!"))
    assert_kept(keeper, [])
    assert set(keeper.list_statuses().values()) == {"active"}
    assert keeper.recall("普洱茶") == ["m2"]


def test_c26_two_ways_to_say_steadily_are_no_negation(keeper: Keeper) -> None:
    keeper.add(*say("不断改进代码质量", "持续改进代码质量"))
    assert_kept(keeper, [])
    assert sorted(keeper.recall("改进代码质量")) == ["m1", "m2"]


def test_c27_namespaces_never_meet(keeper: Keeper) -> None:
    spaces = {
        scope: Keeper(keeper.store, keeper.now, Namespace(tenant="t", principal="p", scope=scope))
        for scope in "ab"
    }
    spaces["a"].add(*say(NOON, importance=0.9))
    spaces["b"].add(*say(NOON, importance=0.1))
    for one in spaces.values():
        assert_kept(one, [])
    assert spaces["a"].read("m1").importance == pytest.approx(0.9)
    assert spaces["b"].read("m1").importance == pytest.approx(0.1)
    assert keeper.count_receipts() == 0
    assert [one.recall(NOON) for one in spaces.values()] == [["m1"], ["m1"]]


def test_c28_contradiction_is_no_duplicate_however_near_the_vectors(keeper: Keeper) -> None:
    keeper.add(
        *say(
            "Ann is CEO of Acme", "Bea is CTO of Acme", "Acme HQ is in Oslo", "Acme HQ is in Bergen"
        )
    )
    keeper.refresh(ChosenEmbedder())
    before = keeper.dump()
    result = keeper.plan({"semantic_mode": "merge"})
    told = keeper.report(result)
    assert result.plan is not None
    assert result.plan.counters["compared"] == 4
    assert (told.clusters, told.conflicts) == ([], [["m3", "m4", ["slot"]]])
    assert ["m1", "m2", ["names"]] in told.similar
    assert keeper.consolidate({"semantic_mode": "merge"}).end.outcome == "unchanged"
    assert keeper.dump() == before
    assert len(keeper.recall("acme", ChosenEmbedder())) == 4


def test_c29_near_vectors_do_not_make_a_chain(keeper: Keeper) -> None:
    texts = (
        "the nightly ledger export is written by the billing team",
        "billing people produce that export of ledgers each night",
        "every night a dump of all ledgers comes from billing folks",
    )
    vectors = dict(zip(texts, [(1.0, 0.0), (0.9, 0.44), (0.6, 0.8)], strict=True))
    keeper.add(*say(*texts, kind="semantic"))
    embedder = ChosenEmbedder(lambda text: vectors.get(text, (1.0, 0.0)))
    keeper.refresh(embedder)
    policy = {"semantic_mode": "merge", "semantic_threshold": 0.85}
    result = keeper.plan(policy)
    told = keeper.report(result)
    assert (told.clusters, told.similar) == ([["m1", "m2"]], [["m2", "m3", ["not_clique"]]])
    done = keeper.consolidate(policy)
    while done.end.skipped.get("awaiting_vector"):
        keeper.refresh(embedder)
        done = keeper.consolidate(policy)
    assert done.end.applied == 1
    assert keeper.list_statuses() == {"m1": "active", "m2": "superseded", "m3": "active"}
    keeper.refresh(embedder)
    assert keeper.consolidate(policy).end.outcome == "unchanged"
    assert "m3" in keeper.recall("dump of all ledgers", embedder)


def test_c30_metadata_does_not_grow(keeper: Keeper) -> None:
    keeper.add(*say(NOON, NOON.lower()))
    first = keeper.consolidate()
    said = keeper.read("m1").metadata
    assert (said["duplicate_ids"], said["duplicate_count"]) == ("m2", "1")
    for _ in range(4):
        assert keeper.consolidate().end.found == 0
    assert keeper.read("m1").metadata == said
    keeper.restore(run_id=first.run_id)
    assert keeper.read("m1").metadata == {}
    words = ("--json", "--store", keeper.store.path, "merge", "m1", "m2", *WHERE)
    assert run_here(*words).error["reasons"] == ["kept_apart"]
    assert run_here(*words, "--force").value["merge"]["merged"] == ["m2"]
    again = keeper.read("m1")
    assert {**again.metadata, "last_duplicate_at": ""} == {**said, "last_duplicate_at": ""}
    edges_of = [(edge.kind, edge.target_id) for edge in again.relations]
    assert edges_of == [(RelationKind.SUPERSEDES, "m2")]
    keeper.check()


def test_c32_older_event_is_the_historical_one(keeper: Keeper) -> None:
    coffee = {"slot": "sam.drink", "event_time": "2026-03-01T00:00:00Z"}
    tea = {"slot": "sam.drink", "event_time": "2025-03-01T00:00:00Z"}
    keeper.add(
        record("coffee", content="Sam drinks coffee", metadata=coffee, created_at=day(2)),
        record("other", content="Sam lives in Oslo", created_at=day(2)),
        record("tea", content="Sam drinks tea", metadata=tea, created_at=day(3)),
    )
    result = keeper.consolidate(mode="plan")
    assert keeper.report(result).conflicts == [["coffee", "tea", ["declared"]]]
    (pair,) = [row for row in show_pairs(keeper, result.end.plan_id) if row["result"] == "conflict"]
    figures = pair["figures"]
    assert (figures["old_id"], figures["new_id"]) == ("tea", "coffee")
    other = keeper.read("other")
    words = ("supersede", figures["old_id"], figures["new_id"], "--approver", "sam", *WHERE)
    assert run_here("--json", "--store", keeper.store.path, *words).exit_code == 0
    wanted = {"coffee": "active", "other": "active", "tea": "superseded"}
    assert keeper.list_statuses() == wanted
    assert keeper.read("other") == other
    assert keeper.recall("drinks tea coffee") == ["coffee"]
    keeper.check()
    assert keeper.report(keeper.plan()).conflicts == []


def day(number: int) -> str:
    return f"2026-04-{number:02}T00:00:00Z"


def show_pairs(keeper: Keeper, plan_id: str | None) -> list[Json]:
    shown = run_here("--json", "--store", keeper.store.path, "show", str(plan_id), "--rows", "0")
    return list(shown.plan["pairs"])


def test_c33_superseded_memory_is_hidden_and_its_copy_is_told(
    keeper: Keeper, tmp_path: Path
) -> None:
    keeper.add(
        record("a", content="The build box is called otter", created_at=day(1)),
        record("b", content="The build box is now called heron", created_at=day(2)),
    )
    keeper.refresh(ChosenEmbedder())
    assert "a" in keeper.recall("build box", ChosenEmbedder())
    asked = HandMade("a", "b", approver="ann", namespace=NAMESPACE, clock=keeper.now)
    supersede_by_hand(keeper.store, asked)
    keeper.add(record("copy", content="The build box is called otter!", created_at=day(3)))
    keeper.refresh(ChosenEmbedder())
    for embedder in (None, ChosenEmbedder()):
        assert sorted(keeper.recall("build box", embedder)) == ["b", "copy"]
    export_file(keeper.store, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()[1:]]
    assert {one["id"] for one in lines if one["status"] == "active"} == {"b", "copy"}
    for _ in range(2):
        (told,) = [
            row for row in keeper.report(keeper.plan()).others if row["result"] == "stale_sibling"
        ]
        assert (told["id"], told["partner_id"]) == ("copy", "a")
    asked = HandMade("copy", "b", approver="ann", namespace=NAMESPACE, clock=keeper.now)
    supersede_by_hand(keeper.store, asked)
    assert keeper.report(keeper.plan()).others == []
    assert keeper.recall("build box") == ["b"]
