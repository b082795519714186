"""Runs of consolidation in which something goes wrong, as it really did in other stores."""

from datetime import datetime

import pytest
from helpers.changes import fail_writes_of, heal_writes
from helpers.cli import run_here
from helpers.consolidate_runs import ChosenEmbedder, DownEmbedder, Keeper, say
from helpers.edits import annotate_memory
from helpers.imports import record
from helpers.indexes import lean
from helpers.refiners import ScriptedRefiner, Step, list_candidates
from helpers.runs import STATES, dump_tables, run_one
from helpers.vectors import NAMESPACE, Json

from storage import Store
from storage.models import Status, format_namespace
from tasks.policies import ConsolidatePolicy
from tasks.providers.refiner import RefinerChoice

NOON = "Blue cluster deploys on Tuesdays at noon"
WHERE = ("--namespace", format_namespace(NAMESPACE))
QUIET = {"exact": False, "near": False}


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def test_c31_merge_that_does_nothing_fails(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.add(*say(NOON, NOON))
    before = keeper.dump()
    with monkeypatch.context() as patch:
        patch.setattr("tasks.consolidate.apply.list_pending", lambda *_, **__: [])
        (result,) = run_unchecked(keeper)
    assert (result["outcome"], result["found"], result["applied"]) == ("failed", 1, 0)
    assert result["code"] == "internal:CountMismatch"
    assert keeper.dump() == before
    assert run_one(keeper.ask("consolidate", policy=ConsolidatePolicy())).end.applied == 1


def run_unchecked(keeper: Keeper) -> list[Json]:
    """Consolidate, and give the runs as they are stored."""
    run_here("--json", "--store", keeper.store.path, "run", "consolidate", *WHERE)
    return list(run_here("--json", "--store", keeper.store.path, "runs").value["runs"])


def add_refinable(keeper: Keeper, count: int) -> None:
    """Add pairs that would merge if a switch did not keep them apart."""
    for number in range(count):
        word = "".join(chr(ord("a") + int(digit)) for digit in str(number)) * 4
        text = f"Retry budget of job {word} stays below the limit of its owner"
        keeper.add(*(record(f"{word}{n}", content=text + "." * n) for n in (1, 2)))


def read_attempts(keeper: Keeper) -> list[tuple[object, ...]]:
    with keeper.store.read() as reader:
        return reader.rows(
            "SELECT state, reason, failed_runs, next_attempt_at > $now FROM refiner_attempts",
            {"now": keeper.now},
        )


def refine(keeper: Keeper, always: Step, **policy: object) -> tuple[Json, ScriptedRefiner]:
    """Run consolidation with a refiner that always answers the same way."""
    refiner = ScriptedRefiner(always=always)
    result = keeper.consolidate(
        {**QUIET, "refine": True, **policy}, refiner=RefinerChoice("scripted", lambda: refiner)
    )
    state = STATES.get(result.end.outcome, result.end.outcome)
    return {"state": state, **result.end.figures}, refiner


def test_c34_refiner_that_answers_in_another_form_changes_nothing(keeper: Keeper) -> None:
    add_refinable(keeper, 3)
    before = keeper.dump()
    told, _ = refine(keeper, lambda _: {"oops": 1})
    assert told == {"state": "failed", "refine_failed": 3, "refine_calls": 9}
    assert keeper.dump() == before
    assert list_candidates(keeper.store, NAMESPACE) == []
    assert read_attempts(keeper) == [("failed", "schema", 1, True)] * 3
    assert len(keeper.recall("retry budget of job aaaa")) >= 2


def test_c35_write_that_fails_leaves_both_as_they_were(keeper: Keeper) -> None:
    keeper.add(*say(NOON, NOON))
    before = keeper.dump()
    fail_writes_of(keeper.store, ["m2"])
    result = keeper.consolidate()
    assert (result.end.outcome, result.end.failed) == ("failed", 1)
    assert keeper.outcomes(result) == {"m2": "failed"}
    assert keeper.dump() == before
    assert sorted(keeper.recall(NOON)) == ["m1", "m2"]
    heal_writes(keeper.store)
    assert keeper.consolidate().end.applied == 1
    assert keeper.recall(NOON) == ["m1"]


def test_c36_no_text_leaves_search_before_its_successor_is_in_it(keeper: Keeper) -> None:
    first, second = say(NOON, NOON.upper())
    keeper.add({**first, "importance": 0.2}, {**second, "importance": 0.9})
    vectors = {NOON: lean(0.99), NOON.upper(): lean(0.98)}
    embedder = ChosenEmbedder(lambda text: vectors.get(text, lean(1.0)))
    keeper.refresh(embedder)

    def look() -> list[set[str]]:
        """By words, and by meaning alone."""
        return [set(keeper.recall(NOON)), set(keeper.recall("unheard", embedder))]

    assert look() == [{"m1", "m2"}] * 2
    first_run = keeper.consolidate()
    assert first_run.end.skipped == {"awaiting_vector": 1}
    assert (keeper.read("m1").content, keeper.read("m1").revision) == (NOON.upper(), 2)
    assert keeper.read("m2").revision == 1
    words, meaning = look()
    assert (words, "m2" in meaning) == ({"m1", "m2"}, True)
    for _ in range(2):
        assert keeper.refresh(DownEmbedder()).end.outcome == "failed"
        held = keeper.dump()
        assert keeper.consolidate().end.skipped == {"awaiting_vector": 1}
        assert keeper.dump() == held
        assert "m2" in look()[1]
    keeper.refresh(embedder)
    assert look() == [{"m1", "m2"}] * 2
    assert keeper.consolidate().end.applied == 1
    assert keeper.list_statuses() == {"m1": "active", "m2": "superseded"}
    assert look() == [{"m1"}] * 2
    keeper.refresh(embedder)
    assert look() == [{"m1"}] * 2


def test_c37_edit_after_the_plan_survives(keeper: Keeper) -> None:
    keeper.add(*say(NOON, NOON, NOON))
    for importance in (0.25, 0.75):
        edit(keeper, "m2", importance)
    planned = keeper.plan()
    edit(keeper, "m2", 0.5)
    result = keeper.apply(planned)
    assert keeper.read("m2").revision == 4
    assert keeper.outcomes(result) == {"m2": "changed_since_plan", "m3": "applied"}
    assert (result.end.outcome, result.end.failed) == ("applied", 0)
    memory = keeper.read("m2")
    assert (memory.status, memory.importance) == (Status.ACTIVE, 0.5)
    assert sorted(keeper.recall(NOON)) == ["m1", "m2"]
    again = keeper.consolidate()
    assert keeper.outcomes(again) == {"m2": "applied"}
    assert keeper.recall(NOON) == ["m1"]


def edit(keeper: Keeper, memory_id: str, importance: float) -> None:
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        annotate_memory(writer, owner, memory_id, at=keeper.now, importance=importance)


def test_c41_refiner_that_always_fails_is_asked_twelve_times(keeper: Keeper) -> None:
    add_refinable(keeper, 10)
    before = keeper.dump()
    told, refiner = refine(keeper, RuntimeError("no"), refine_max_calls=12, refine_attempts=3)
    assert told == {
        "state": "failed",
        "refine_failed": 4,
        "refine_not_attempted": 6,
        "refine_calls": 12,
    }
    assert len(refiner.asked) == 12
    assert read_attempts(keeper) == [("failed", "provider_exception", 1, True)] * 4
    assert keeper.dump() == before


def test_c60_merge_of_an_unknown_memory_is_refused(keeper: Keeper) -> None:
    keeper.add(*say(NOON))
    before = dump_tables(keeper.store)
    words = ("merge", "m1", "missing", *WHERE)
    answer = run_here("--json", "--store", keeper.store.path, *words)
    assert answer.exit_code == 1
    assert (answer.error["type"], answer.error["memory_id"]) == ("memory_not_found", "missing")
    assert dump_tables(keeper.store) == before
    assert keeper.recall(NOON) == ["m1"]


def test_supersession_of_a_merged_memory_leaves_what_it_took_in(keeper: Keeper) -> None:
    keeper.add(*say(NOON, NOON), record("m9", content="Green deploys at six"))
    keeper.consolidate()
    words = ("supersede", "m1", "m9", "--approver", "ann", *WHERE)
    assert run_here("--json", "--store", keeper.store.path, *words).exit_code == 0
    keeper.check()
    assert keeper.list_statuses() == {"m1": "superseded", "m2": "superseded", "m9": "active"}
