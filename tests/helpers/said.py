"""What a job says of a store, in the shape of the vectors, and how the two are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from helpers.vectors import (
    ONE_THREAD,
    Json,
    VectorCase,
    copy_store,
    find_owner,
    insert_rows,
    store_plan_of,
)

from storage import Store
from storage.plans import PlanHeader
from tasks.explain import explain_plan, show_plan

SCORE_TOLERANCE = 1e-12
FORECAST_TOLERANCE_DAYS = 1e-6
_DECISION_FACTS = ("id", "reason", "action", "expected_revision", "carries")
_SCORES = ("score", "time_term", "access_term", "age_days", "age_clock", "days_since_access")
_SCORED = (*_SCORES, "access_clock", "lambda_per_day", "lambda_source", "days_until_cold")


@dataclass(frozen=True, slots=True)
class Said:
    """What a job says of a namespace, in the vectors' shape."""

    decisions: list[Json]
    verdicts: dict[str, str]
    figures: dict[str, Json]
    counters: dict[str, int]
    warnings: list[str]
    protections: dict[str, list[str]]
    clock_anomaly: dict[str, list[str]]


def plan_case(path: Path, case: VectorCase) -> Said:
    """Plan a case in a store of its own and read back what the plan says."""
    store = copy_store(path)
    with store.session():
        return read_said(store, store_plan_of(store, case))


def read_said(store: Store, plan: PlanHeader) -> Said:
    """Read a stored plan and the verdicts behind it, as the vectors write them."""
    decisions = show_plan(store, plan.plan_id)["decisions"]
    explained = {row["id"]: row for row in explain_plan(store, plan.plan_id)}
    verdicts = {memory_id: str(row["verdict"]) for memory_id, row in explained.items()}
    verdicts |= dict.fromkeys((c for d in decisions for c in d.get("carries", [])), "carried")
    read = _read_prune if plan.job == "prune" else _read_sweep
    return read(plan, decisions, explained, verdicts)


def _read_prune(
    plan: PlanHeader, decisions: list[Json], explained: dict[str, Json], verdicts: dict[str, str]
) -> Said:
    names = ("age_days", "age_clock", "relevance", "clock_anomaly")
    figures = {id_: {name: row[name] for name in names} for id_, row in explained.items()}
    for record in [*decisions, *figures.values()]:
        if not record["clock_anomaly"]:
            del record["clock_anomaly"]
    protected = {id_: row["protections"] for id_, row in explained.items() if row["protections"]}
    return Said(decisions, verdicts, figures, plan.counters, plan.warnings, protected, {})


def _read_sweep(
    plan: PlanHeader, decisions: list[Json], explained: dict[str, Json], verdicts: dict[str, str]
) -> Said:
    threshold = plan.policy["cold_threshold"]
    figures = {
        id_: score_figures(row, threshold)
        for id_, row in explained.items()
        if row["score"] is not None
    }
    bare = []
    for decision in decisions:
        fact = {name: decision.pop(name) for name in _DECISION_FACTS if name in decision}
        anomalies = decision.pop("clock_anomaly", [])
        assert anomalies == explained[fact["id"]]["clock_anomaly"]
        decision.pop("is_pinned", None)
        assert figures.setdefault(fact["id"], decision) == decision
        bare.append(fact)
    flagged = {id_: row["clock_anomaly"] for id_, row in explained.items() if row["clock_anomaly"]}
    counters = {name: count for name, count in plan.counters.items() if name != "visible"}
    return Said(bare, verdicts, figures, counters, plan.warnings, {}, flagged)


def explain_case(path: Path, case: VectorCase) -> Json:
    """Explain the one row of a case, without a plan."""
    with copy_store(path).write() as writer:
        writer.run_script(ONE_THREAD)
        insert_rows(writer, case.rows)
        given = {"namespace_id": find_owner(writer).namespace_id, "now": case.now}
        (row,) = case.job.explain(writer, case.policy, **given).to_pylist()
    return cast("Json", row)


def score_figures(row: Json, threshold: float) -> Json:
    """Give the figures that the vectors state of a scored row."""
    return {name: row[name] for name in _SCORED} | {"threshold": threshold}


def assert_equal_figures(actual: Mapping[str, object], expected: Mapping[str, object]) -> None:
    """Compare one record: same fields, floats within the tolerance, all else exactly."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, float):
            is_forecast = name == "days_until_cold"
            tolerance = FORECAST_TOLERANCE_DAYS if is_forecast else SCORE_TOLERANCE
            assert actual[name] == pytest.approx(value, rel=0, abs=tolerance), name
        else:
            assert actual[name] == value, name


def assert_equal_decisions(actual: Sequence[Json], expected: list[Json] | Json) -> None:
    """Compare decisions in order, or with the summary of a large case."""
    ids = [decision["id"] for decision in actual]
    if isinstance(expected, list):
        assert ids == [decision["id"] for decision in expected]
        for decision, item in zip(actual, expected, strict=True):
            assert_equal_figures(decision, item)
        return
    assert len(ids) == expected["count"]
    assert sorted({decision["reason"] for decision in actual}) == expected["reason"]
    assert ids[0] == expected.get("first_id", ids[0])
    assert ids[-1] == expected.get("last_id", ids[-1])
