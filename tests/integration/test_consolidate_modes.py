"""What a policy of consolidation switches: marks, budgets, profiles, absent refiners."""

from collections.abc import Sequence
from datetime import datetime

import pytest
from helpers.consolidate_runs import Keeper
from helpers.edits import revise_memory
from helpers.imports import edges, record, related_to
from helpers.refiners import ScriptedRefiner, list_candidates
from helpers.runs import run_one
from helpers.vectors import NAMESPACE, Json

from storage import Store
from storage.models import MAX_RELATIONS, RelationKind, Status
from tasks.policies import ConsolidatePolicy
from tasks.providers.refiner import RefinerChoice
from tasks.providers.refiners import RefinerSetupError
from tasks.report import RunResult

TEXT = "The nightly ledger export job of the billing team writes its audit rows into the archive"
ALLOWED = "Production deploys are allowed"
# An edge that says that m5 is superseded, which it is not.
_BREAK_EDGE = """
INSERT INTO relations BY NAME
SELECT
    namespace_id, id AS memory_id, 'm5' AS target_id, 'supersedes' AS kind, 1 AS since_revision
FROM memories
WHERE id = 'm1'
"""


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def say(*texts: str) -> list[Json]:
    return [
        record(f"m{n}", content=text, kind="semantic", created_at=f"2025-01-{n:02}T00:00:00Z")
        for n, text in enumerate(texts, 1)
    ]


def test_contradictions_are_marked_if_asked(keeper: Keeper) -> None:
    keeper.add(*say(ALLOWED, "Production deploys are not allowed"))
    done = keeper.consolidate({"conflict_mode": "mark"})
    assert (done.end.outcome, done.end.figures) == ("applied", {"linked": 1})
    assert keeper.list_statuses() == {"m1": "conflicted", "m2": "conflicted"}
    assert keeper.list_revisions() == {"m1": 3, "m2": 3}
    assert keeper.consolidate({"conflict_mode": "mark"}).end.outcome == "unchanged"


def test_memory_without_room_for_an_edge_stops_nobody_else(keeper: Keeper) -> None:
    others = [record(f"o{n:03}", content=f"note{letters(n)}") for n in range(MAX_RELATIONS)]
    full = {**say(ALLOWED)[0], **related_to(*(one["id"] for one in others))}
    keeper.add(*others, full)
    keeper.add(
        {**say(ALLOWED)[0], "id": "m2", "content": "Production deploys are not allowed"},
        {**say(ALLOWED)[0], "id": "n1", "content": "Feature flag Z is enabled"},
        {**say(ALLOWED)[0], "id": "n2", "content": "Feature flag Z is disabled"},
    )
    done = keeper.consolidate({"conflict_mode": "link"})
    assert done.end.figures == {"linked": 1, "links_failed": 1}
    assert [edge.target_id for edge in keeper.read("n1").relations] == ["n2"]
    assert keeper.read("m2").relations == ()


def test_edge_that_cannot_be_stops_no_merge_but_its_own(keeper: Keeper) -> None:
    keeper.add(*say(TEXT, TEXT, ALLOWED, ALLOWED, "Lunch is at noon"))
    with keeper.store.write() as writer:
        writer.execute(_BREAK_EDGE)
    policy = ConsolidatePolicy()
    result = run_one(keeper.ask("consolidate", policy=policy))
    assert keeper.outcomes(result) == {"m2": "failed", "m4": "applied"}
    assert result.end.outcome == "partial"
    assert keeper.read("m2").status == Status.ACTIVE


def letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")


@pytest.mark.parametrize(
    ("policy", "merged", "similar"),
    [
        ({}, ["m2", "m3"], []),
        ({"near": False}, ["m2"], [["m1", "m3", ["report_only"]]]),
        ({"exact": False}, ["m3"], [["m1", "m2", ["report_only"]]]),
    ],
    ids=["both", "exact", "near"],
)
def test_switches_leave_pairs_as_reported(
    keeper: Keeper, policy: Json, merged: Sequence[str], similar: list[object]
) -> None:
    keeper.add(*say(TEXT, f"{TEXT}.", f"{TEXT} today"))
    planned = keeper.plan(policy)
    told = keeper.report(planned).similar
    assert [row for row in told if row[0] == "m1"] == similar
    done = keeper.consolidate(policy)
    assert sorted(keeper.outcomes(done)) == merged


def test_near_pairs_over_the_budget_are_left_and_exact_ones_merge(keeper: Keeper) -> None:
    keeper.add(*say(TEXT, f"{TEXT} today", f"{TEXT} tomorrow", TEXT))
    result = keeper.consolidate({"max_pairs": 1})
    assert keeper.outcomes(result) == {"m4": "applied"}
    assert result.plan is not None
    assert result.plan.warnings == ["pair_budget:near"]


def test_seed_profile_is_applied_only_where_it_is_allowed(keeper: Keeper) -> None:
    keeper.add(*say(TEXT, TEXT))
    policy = {"profile": "seed.near-duplicate.v1"}
    refused = keeper.consolidate(policy)
    assert (refused.end.outcome, refused.end.skipped) == ("refused", {"refused": 1})
    assert set(keeper.list_statuses().values()) == {"active"}
    assert keeper.consolidate({**policy, "allow_seed_profile": True}).end.applied == 1


def test_seed_profile_merges_what_the_guards_keep_apart(keeper: Keeper) -> None:
    first = "Set retry budget to 10 attempts for billing provider calls"
    keeper.add(*say(first, first.replace("10", "50")))
    assert keeper.plan().end.found == 0
    assert keeper.plan({"profile": "seed.near-duplicate.v1"}).end.found == 1


def test_plan_of_other_rules_is_refused(keeper: Keeper) -> None:
    keeper.add(*say(TEXT, TEXT))
    planned = keeper.plan()
    with keeper.store.write() as writer:
        writer.execute("UPDATE plans SET profile = 'memtend.near-duplicate.v2/old'")
    refused = keeper.apply(planned)
    assert (refused.end.outcome, refused.end.applied) == ("refused", 0)
    assert set(keeper.list_statuses().values()) == {"active"}


def refine(keeper: Keeper, choice: RefinerChoice | None) -> RunResult:
    return keeper.consolidate({"near": False, "refine": True}, refiner=choice)


def break_setup() -> ScriptedRefiner:
    raise RefinerSetupError("scripted", "no key")


@pytest.mark.parametrize(
    "choice", [None, RefinerChoice("scripted", break_setup)], ids=["none", "not-set-up"]
)
def test_run_without_the_refiner_that_it_wants_merges_nothing(
    keeper: Keeper, choice: RefinerChoice | None
) -> None:
    keeper.add(*say(TEXT, TEXT, f"{TEXT} today"))
    result = refine(keeper, choice)
    assert (result.end.outcome, result.end.code) == ("refused", "invalid_input")
    assert set(keeper.list_statuses().values()) == {"active"}
    assert keeper.count_receipts() == 0


def test_refiner_writes_a_candidate_and_is_not_asked_again(keeper: Keeper) -> None:
    keeper.add(*say(TEXT, f"{TEXT} today"))
    refiner = ScriptedRefiner()
    choice = RefinerChoice("scripted", lambda: refiner)
    done = refine(keeper, choice)
    assert (done.end.outcome, done.end.figures) == ("applied", {"refined": 1, "refine_calls": 1})
    (candidate,) = list_candidates(keeper.store, NAMESPACE)
    assert keeper.read(candidate).content == TEXT
    assert [keeper.list_statuses()[name] for name in ("m1", "m2")] == ["active", "active"]
    again = refine(keeper, choice)
    assert (again.end.outcome, len(refiner.asked)) == ("unchanged", 1)


def test_refiner_is_not_asked_about_texts_that_were_not_judged(keeper: Keeper) -> None:
    keeper.add(*say(TEXT, f"{TEXT} today"))
    refiner = ScriptedRefiner()
    choice = RefinerChoice("scripted", lambda: refiner)
    planned = keeper.consolidate({"near": False, "refine": True}, mode="plan", refiner=choice)
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        revise_memory(writer, owner, "m2", content="Lunch is at noon", at=keeper.now)
    assert keeper.apply(planned, refiner=choice).end.outcome == "unchanged"
    assert refiner.asked == []


def test_related_memories_are_no_duplicates(keeper: Keeper) -> None:
    first, second = say(TEXT, TEXT)
    keeper.add(first, {**second, **edges((RelationKind.CONFLICTS_WITH, "m1"))})
    told = keeper.report(keeper.plan())
    assert (told.clusters, told.similar) == ([], [["m1", "m2", ["related"]]])
