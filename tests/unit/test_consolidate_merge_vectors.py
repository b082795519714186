"""The consolidation vectors of clusters, merges, cosines, the account and the guard."""

from typing import Any

import numpy as np
import pytest
from helpers.consolidation import cases
from helpers.rows import NOW

from storage.errors import LimitExceededError, PlanRefusedError
from storage.instants import parse_instant
from storage.models import (
    MAX_RELATIONS,
    Evidence,
    EvidenceKind,
    MemoryRecord,
    Relation,
    RelationKind,
    RevisionKind,
    round_to_f32,
)
from storage.plans import PlanHeader
from tasks.apply import guard_plan
from tasks.limits import SafetyLimits
from tasks.report import count_up, end_planned
from tasks.rules.clusters import form_clusters, judge_lineages
from tasks.rules.cosine import compare_vectors
from tasks.rules.merging import absorb_losers, adopt_text, choose_text, move_relations

Json = dict[str, Any]


@cases("cluster")
def test_clusters_are_those_of_the_vector(case: Json) -> None:
    inputs = case["input"]
    passing = {frozenset(pair) for pair in inputs["passing"]}
    pairs = [(one, other) for one, other in inputs["passing"]]
    whole, _ = judge_lineages(
        pairs, inputs["lineage"], lambda one, other: frozenset((one, other)) in passing
    )
    found = form_clusters(inputs["order"], whole)
    assert [list(cluster) for cluster in found.clusters] == case["expect"]["clusters"]


def read_member(given: Json) -> MemoryRecord:
    values = {**given, "updated_at": given["created_at"]}
    if values.pop("decided"):
        proof = {"uri": f"e://{given['id']}", "digest": "d", "kind": EvidenceKind.MANUAL}
        values["evidence"] = (Evidence(**proof, occurred_at=NOW),)
    # Past admission: metadata of vectors may be blank, or longer than a value may be.
    metadata = values.pop("metadata")
    return MemoryRecord(**values).model_copy(update={"metadata": metadata})


def read_members(inputs: Json) -> list[MemoryRecord]:
    return sorted(map(read_member, inputs["members"]), key=lambda one: (one.created_at, one.id))


@cases("merge")
def test_absorption_keeps_and_loses_what_the_vector_says(case: Json) -> None:
    inputs, expected = case["input"], case["expect"]
    canonical, *losers = read_members(inputs)
    absorbed = absorb_losers(canonical, losers, {}, at=parse_instant(inputs["now"]))
    assert absorbed is not None
    assert absorbed.skipped == ()
    assert [{"id": one.id, "revision": one.revision + 1} for one in absorbed.losers] == [
        {"id": one["id"], "revision": one["revision"]} for one in expected["losers"]
    ]
    record = absorbed.merged.record
    winner = choose_text((canonical, *losers))
    assert (winner.id, winner.content) == (expected["canonical"]["content_from"], record.content)
    said = expected["canonical"]
    assert (record.id, record.revision, record.metadata) == (
        said["id"],
        said["revision"],
        said["metadata"],
    )
    assert list(absorbed.merged.losses) == expected["lost"]
    superseded = [one for one in expected["losers"] if one["superseded_by"] == record.id]
    assert list(record.relations) == [
        Relation(kind=RelationKind.SUPERSEDES, target_id=one["id"]) for one in superseded
    ]


@cases("merge")
def test_adoption_merges_all_but_the_sources(case: Json) -> None:
    members = read_members(case["input"])
    at = parse_instant(case["input"]["now"])
    adopted, said = adopt_text(members, at=at), case["expect"]["canonical"]
    record = adopted.record
    assert record.content == choose_text(members).content
    assert (record.revision, record.revision_kind) == (said["revision"], RevisionKind.MERGED)
    assert (record.importance, record.kind) == (round_to_f32(said["importance"]), said["kind"])
    reserved = {"duplicate_count", "duplicate_ids", "last_duplicate_at"}
    shared = {key: value for key, value in said["metadata"].items() if key not in reserved}
    own = members[0].metadata
    assert record.metadata == shared | {key: own[key] for key in reserved & own.keys()}
    assert (adopted.source_ids, record.relations) == ((), ())
    assert list(adopted.losses) == case["expect"]["lost"]


def record(memory_id: str, *edges: tuple[str, str], **fields: Any) -> MemoryRecord:  # noqa: ANN401
    relations = tuple(Relation(kind=kind, target_id=target) for kind, target in edges)
    instants = {"created_at": NOW, "updated_at": NOW, "content_at": NOW}
    return MemoryRecord(id=memory_id, content="x", relations=relations, **instants, **fields)


def list_edges(*members: MemoryRecord) -> list[tuple[str, str]]:
    return [(edge.kind.value, edge.target_id) for edge in move_relations(members)]


def test_edges_to_outsiders_go_over_and_inner_ones_are_dropped() -> None:
    canonical = record("a", ("related_to", "b"), ("related_to", "x"), ("supersedes", "o"))
    first = record("b", ("related_to", "a"), ("conflicts_with", "y"), ("supersedes", "p"))
    second = record("c", ("related_to", "x"), ("related_to", "b"), ("supersedes", "p"))
    assert list_edges(canonical, first, second) == [
        ("supersedes", "b"),
        ("supersedes", "c"),
        ("supersedes", "o"),
        ("supersedes", "p"),
        ("conflicts_with", "y"),
        ("related_to", "x"),
    ]


def test_edges_over_the_limit_are_refused_but_those_of_merges_do_not_count() -> None:
    many = [("related_to", f"x{number}") for number in range(MAX_RELATIONS)]
    superseded = [("supersedes", f"o{number}") for number in range(MAX_RELATIONS)]
    full = record("a", *many)
    assert len(list_edges(full, record("b", *superseded))) == 2 * MAX_RELATIONS + 1
    with pytest.raises(LimitExceededError) as caught:
        move_relations((full, record("b", ("related_to", "y"))))
    assert caught.value.facts["resource"] == "memory relations"


def test_losers_that_break_a_limit_are_skipped_and_the_others_absorbed() -> None:
    canonical = record("a", tags=[f"a{number}" for number in range(60)])
    wide = record("b", tags=[f"b{number}" for number in range(5)])
    narrow = record("c", tags=["c0", "c1"])
    absorbed = absorb_losers(canonical, [wide, narrow], {}, at=NOW)
    assert absorbed is not None
    assert ([one.id for one in absorbed.losers], absorbed.skipped) == (["c"], ("b",))
    assert absorbed.merged.source_ids == ("c",)
    assert len(absorbed.merged.record.tags) == 62
    assert absorb_losers(canonical, [wide], {}, at=NOW) is None


@cases("cosine")
def test_cosine_is_what_the_vector_says(case: Json) -> None:
    inputs, expected = case["input"], case["expect"]
    sides = (np.array([inputs[side]], dtype=np.float32) for side in ("a", "b"))
    (cosine,) = compare_vectors(*sides)
    assert (cosine >= inputs["threshold"]) == expected["candidate"]
    assert (None if np.isnan(cosine) else cosine) == expected["cosine"]


def test_vectors_that_are_not_finite_have_no_cosine() -> None:
    left = np.array([[np.inf, 1], [np.nan, 0], [1, 1]], dtype=np.float32)
    found = compare_vectors(left, np.ones((3, 2), dtype=np.float32))
    assert np.isnan(found).tolist() == [True, True, False]


def make_plan(losers: int, visible: int = 100) -> PlanHeader:
    return PlanHeader(
        plan_id="plan",
        job="consolidate",
        namespace_id=1,
        now=NOW,
        policy={},
        batch_size=1,
        counters={},
        warnings=[],
        planned=losers,
        carried=0,
        judged=losers,
        visible=visible,
        profile="memtend.near-duplicate.v2",
    )


@cases("accounting")
def test_run_that_does_not_add_up_fails(case: Json) -> None:
    inputs = case["input"]
    plan, merged = make_plan(inputs["found"]), inputs["merged"]
    if inputs["dry_run"]:
        # A run that applies nothing has nothing merged to tell.
        end = end_planned(plan)
        is_balanced = end.applied == merged
    else:
        outcomes = {"applied": merged, "failed": inputs.get("failed", 0), **inputs["skipped"]}
        end = count_up(plan, outcomes)
        is_balanced = end.code != "internal:CountMismatch"
    assert is_balanced == case["expect"]["balanced"]
    assert end.found == inputs["found"]
    if not inputs["dry_run"] and not is_balanced:
        assert end.outcome == "failed"
        return
    assert end.found == end.applied + sum(end.skipped.values()) + end.failed
    if "completed_with_failures" in case.get("note", ""):
        assert end.outcome == "partial"


def test_losers_of_an_earlier_apply_add_up() -> None:
    end = count_up(make_plan(3), {"applied": 1, "already_applied": 2})
    assert (end.outcome, end.applied, end.skipped) == ("applied", 1, {"already_applied": 2})
    assert count_up(make_plan(3), {"applied": 1, "already_applied": 1}).outcome == "failed"


def test_run_that_only_failed_failed() -> None:
    assert count_up(make_plan(2), {"failed": 2}).outcome == "failed"
    assert count_up(make_plan(2), {"failed": 1, "applied": 1}).outcome == "partial"
    assert count_up(make_plan(0), {}, {"refine_failed": 1}).outcome == "failed"
    assert count_up(make_plan(0), {}, {"refine_failed": 1, "refined": 1}).outcome == "partial"


def test_clusters_that_were_given_up_are_no_work() -> None:
    assert count_up(make_plan(0), {}, {"refine_permanent": 2}).outcome == "unchanged"
    assert count_up(make_plan(0), {}, {"refined": 1}).outcome == "applied"


@cases("guard")
def test_guard_refuses_what_the_vector_says(case: Json) -> None:
    inputs, expected = case["input"], case["expect"]
    visible = inputs["visible"]
    plan = make_plan(inputs["planned"], visible)
    limits = SafetyLimits()
    assert limits.allowed(visible) == expected["allowed"]
    confirmed = {"confirm_plan_id": inputs["confirm_plan_id"]}
    if expected["result"] == "applied":
        guard_plan(plan, limits, **confirmed)
        return
    with pytest.raises(PlanRefusedError):
        guard_plan(plan, limits, **confirmed)
