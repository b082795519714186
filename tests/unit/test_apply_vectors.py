"""Apply does what the vectors of prune and sweep say: changes and faults between plan and apply."""

from pathlib import Path

import pytest
from helpers.changes import change_memories, fail_writes_of
from helpers.runs import STATES, plan_id_of, read_outcomes_of, read_rows, run_case
from helpers.vectors import Json, VectorCase, fill_and_plan, load_vectors

from storage import Store
from storage.plans import read_decisions, read_receipts
from tasks.report import RunResult

CASES = [
    pytest.param(case, id=case.case_id)
    for job in ("prune", "sweep")
    for case in load_vectors(job).values()
    if case.kind == "apply"
]


def assert_counts(result: RunResult, expected: dict[str, int]) -> None:
    """Compare the run's counters; what it does not name did not happen."""
    end = result.end
    counted = {"applied": end.applied, "failed": end.failed, **end.skipped}
    assert counted == {name: n for name, n in expected.items() if n or name in counted}


def assert_store(store: Store, plan_id: str, expected: Json) -> None:
    """Compare which rows are left, their revisions, and the ancestors that the receipts name."""
    left = read_rows(store)
    assert list(left) == expected.get("rows_left", list(left))
    revisions = {memory_id: row["revision"] for memory_id, row in left.items()}
    assert revisions | expected.get("revisions_after", {}) == revisions
    if expected.get("n_content_at_unchanged"):
        assert left["n"]["content_at"] == left["n"]["created_at"]
    with store.read() as reader:
        receipts = read_receipts(reader, plan_id)
    kept = sorted({name for receipt in receipts for name in receipt["ancestors_kept"]})
    assert kept == expected.get("ancestors_kept", [])


def assert_next_plan(store: Store, case: VectorCase, expected: Json) -> None:
    """Plan again, and compare decisions and warnings."""
    result = run_case(store, case)
    with store.read() as reader:
        decisions = read_decisions(reader, plan_id_of(result))
    said = {decision["id"]: decision["reason"] for decision in decisions}
    assert result.plan is not None
    assert said | {"warnings": result.plan.warnings} == expected


@pytest.mark.parametrize("case", CASES)
def test_apply_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    (store, plan), expected = fill_and_plan(tmp_path / "store", case), case.expected
    change_memories(store, case)
    fail_writes_of(store, case.inputs.get("write_raises_for", []))
    for _ in range(case.inputs.get("apply_times", 1)):
        result = run_case(store, case, mode="apply", plan_id=plan.plan_id)
    outcomes = read_outcomes_of(store, result)
    assert list(outcomes.items()) == list(expected["outcomes"].items())
    assert_counts(result, expected["counts"])
    assert STATES[result.end.outcome] == expected["state"]
    assert_store(store, plan.plan_id, expected)
    if "next_plan" in expected:
        assert_next_plan(store, case, expected["next_plan"])
