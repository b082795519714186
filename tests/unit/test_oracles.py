"""The scalar rules reproduce every vector that they can answer.

The product is compared with these rules, so nothing here touches the product.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TypedDict, cast

import pytest
from oracles.prune import guard as guard_prune
from oracles.prune import plan_prune, protections, relevance
from oracles.rows import (
    DAY_US,
    Case,
    Defaults,
    Plan,
    Row,
    age_clock,
    carry_ancestors,
    days_since,
    f32,
    parse_instant,
    rows_of,
)
from oracles.sweep import apply_feedback, days_until_cold, plan_sweep, score
from oracles.sweep import guard as guard_sweep

VECTORS = Path(__file__).parents[1] / "vectors"
SCORE_TOLERANCE = 1e-12
FORECAST_TOLERANCE_DAYS = 1e-6
NAMESPACE = ("t1", "p1", "s1")
PLAN_ID = "the plan id"


class VectorFile(TypedDict):
    """A vector file: its defaults and its cases."""

    defaults: Defaults
    cases: list[Case]


def _load(name: str) -> VectorFile:
    text = (VECTORS / f"{name}-vectors.json").read_text(encoding="utf-8")
    return cast("VectorFile", json.loads(text))


PRUNE, SWEEP = _load("prune"), _load("sweep")


def each_case(vectors: VectorFile, kind: str) -> pytest.MarkDecorator:
    """Parametrise a test over the cases of one type, which must exist."""
    cases = [pytest.param(case, id=case["id"]) for case in vectors["cases"] if case["type"] == kind]
    assert cases
    return pytest.mark.parametrize("case", cases)


def now_of(case: Case, vectors: VectorFile) -> int:
    return parse_instant(case["inputs"].get("now", vectors["defaults"]["now"]))


def policy_of(case: Case, vectors: VectorFile) -> dict[str, object]:
    return vectors["defaults"]["policy"] | case["inputs"].get("policy", {})


def limits_of(case: Case, vectors: VectorFile) -> dict[str, object]:
    return vectors["defaults"]["limits"] | case["inputs"].get("limits", {})


def prune_case(case: Case) -> Plan:
    rows = rows_of(case, PRUNE["defaults"])
    return plan_prune(rows, policy_of(case, PRUNE), now_of(case, PRUNE), NAMESPACE)


def sweep_case(case: Case) -> Plan:
    rows = rows_of(case, SWEEP["defaults"])
    return plan_sweep(rows, policy_of(case, SWEEP), now_of(case, SWEEP), NAMESPACE)


def first_row(case: Case, vectors: VectorFile) -> Row:
    return rows_of(case, vectors["defaults"])[0]


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


def assert_decisions(plan: Plan, expected: object) -> None:
    """Compare the decisions in order, or with the summary of a large case."""
    if isinstance(expected, list):
        assert [decision["id"] for decision in plan.decisions] == [item["id"] for item in expected]
        for decision, item in zip(plan.decisions, expected, strict=True):
            assert_equal_figures(decision, item)
        return
    summary = cast("dict[str, object]", expected)
    ids = [decision["id"] for decision in plan.decisions]
    assert len(ids) == summary["count"]
    assert sorted({str(decision["reason"]) for decision in plan.decisions}) == summary["reason"]
    assert ids[0] == summary.get("first_id", ids[0])
    assert ids[-1] == summary.get("last_id", ids[-1])


def assert_plan(plan: Plan, expected: Mapping[str, object]) -> None:
    """Compare everything that the vector states; what it may leave out is then empty."""
    assert_decisions(plan, expected["decisions"])
    assert plan.counters == expected["counters"]
    assert plan.verdicts == expected.get("verdicts", plan.verdicts)
    assert plan.protections == expected.get("protections", {})
    if isinstance(expected["decisions"], list):
        figures = cast("dict[str, dict[str, object]]", expected.get("figures", {}))
        assert plan.figures.keys() == figures.keys()
        for memory_id, record in figures.items():
            assert_equal_figures(plan.figures[memory_id], record)


@each_case(PRUNE, "plan")
def test_prune_plan_equals_vector(case: Case) -> None:
    plan = prune_case(case)
    assert_plan(plan, case["expected"])
    unreachable = plan.counters["cap_unreachable"]
    assert plan.warnings == ([f"cap_unreachable:{unreachable}"] if unreachable else [])
    flagged = [memory_id for memory_id, record in plan.figures.items() if "clock_anomaly" in record]
    assert list(plan.clock_anomaly) == flagged


@each_case(PRUNE, "relevance")
def test_relevance_equals_vector(case: Case) -> None:
    now, raw_days = now_of(case, PRUNE), case["inputs"]["age_days_raw"]
    age_days = days_since(now - round(raw_days * DAY_US), now)
    figures = relevance(f32(case["inputs"]["importance"]), age_days)._asdict()
    assert_equal_figures(figures | {"age_days": age_days}, case["expected"])


@each_case(PRUNE, "guard")
def test_prune_guard_equals_vector(case: Case) -> None:
    confirmed = case["inputs"]["confirm_plan_id"]
    limits = limits_of(case, PRUNE)
    verdict = guard_prune(prune_case(case), limits, plan_id=PLAN_ID, confirm_plan_id=confirmed)
    assert verdict == case["expected"]


@each_case(SWEEP, "plan")
def test_sweep_plan_equals_vector(case: Case) -> None:
    plan, expected = sweep_case(case), case["expected"]
    assert_plan(plan, expected)
    assert plan.warnings == expected.get("warnings", [])
    assert plan.clock_anomaly == expected.get("clock_anomaly", {})


@each_case(SWEEP, "score")
def test_score_equals_vector(case: Case) -> None:
    plan, expected = sweep_case(case), dict(case["expected"])
    expected.pop("duckdb_bits_equal")
    assert plan.verdicts == {"m1": expected.pop("verdict")}
    assert plan.clock_anomaly.get("m1", []) == expected.pop("clock_anomaly", [])
    assert_equal_figures(plan.figures["m1"], expected)
    scored = score(first_row(case, SWEEP), policy_of(case, SWEEP), now_of(case, SWEEP))
    assert scored._asdict().items() <= plan.figures["m1"].items()


@each_case(SWEEP, "forecast")
def test_forecast_equals_vector(case: Case) -> None:
    row, policy, now = first_row(case, SWEEP), policy_of(case, SWEEP), now_of(case, SWEEP)
    days, expected = days_until_cold(row, policy, now), case["expected"]
    forecast = expected["days_until_cold"]
    assert_equal_figures({"days_until_cold": days}, {"days_until_cold": forecast})
    if days is not None and "score_at_forecast" in expected:
        then = score(row, policy, now + round(days * DAY_US)).score
        assert then == pytest.approx(expected["score_at_forecast"], rel=0, abs=SCORE_TOLERANCE)


@each_case(SWEEP, "guard")
def test_sweep_guard_equals_vector(case: Case) -> None:
    confirmed = case["inputs"]["confirm_plan_id"]
    limits = limits_of(case, SWEEP)
    verdict = guard_sweep(sweep_case(case), limits, plan_id=PLAN_ID, confirm_plan_id=confirmed)
    assert verdict == case["expected"]


@each_case(SWEEP, "unscorable")
def test_unscorable_row_is_kept_and_counted(case: Case) -> None:
    plan, expected = sweep_case(case), case["expected"]
    state = "completed_with_failures" if plan.counters["unscorable"] else "completed"
    assert {"verdicts": plan.verdicts, "decisions": plan.decisions, "state": state} == expected


@each_case(SWEEP, "feedback")
def test_feedback_equals_vector(case: Case) -> None:
    default = cast("float", SWEEP["defaults"]["policy"]["salience_default"])

    def moved(salience: float | None, signal: str) -> float:
        return apply_feedback(salience, signal, default)

    salience = reduce(moved, case["inputs"]["signals"], case["inputs"]["start"])
    assert salience == case["expected"]["salience"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1970-01-01T00:00:01Z", 1_000_000, id="Z"),
        pytest.param("1970-01-01 00:00:01", 1_000_000, id="naive-is-utc"),
        pytest.param("1970-01-01T02:00:00+02:00", 0, id="offset-east"),
        pytest.param("1969-12-31T20:30-03:30", 0, id="offset-west"),
        pytest.param("1970-01-01T00:00:00.1", 100_000, id="one-digit"),
        pytest.param("1970-01-01T00:00:00.1234569Z", 123_456, id="digits-are-cut"),
        pytest.param("1969-12-31T23:59:59.9999999Z", -1, id="cut-before-epoch"),
    ],
)
def test_instant_is_read_in_utc_microseconds(text: str, expected: int) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "text", ["1970-01-01", "soonish", "1970-02-30T00:00:00Z", "1970-01-01T00:00.5Z"]
)
def test_other_text_is_no_instant(text: str) -> None:
    with pytest.raises(ValueError, match=r"instant|day"):
        parse_instant(text)


def test_bare_date_expires_at_the_end_of_that_day() -> None:
    assert parse_instant("1970-01-01", is_expiry=True) == DAY_US


def test_last_head_carries_an_ancestor_and_a_head_ends_the_walk() -> None:
    case: Case = {"id": "", "type": "plan", "inputs": {"rows": [{"id": "s"}]}, "expected": {}}
    old = replace(first_row(case, SWEEP), status="superseded")
    middle = replace(old, id="m", relations=(("supersedes", "s"),))
    head = replace(old, id="h", status="active", relations=(("supersedes", "m"),))
    rows = [old, middle, head]
    assert carry_ancestors(rows, ["h"]) == {"h": ["m", "s"]}
    assert carry_ancestors(rows, ["m", "h"]) == {"m": ["s"], "h": []}
    assert carry_ancestors(rows, ["m"]) == {"m": ["s"]}
    assert carry_ancestors(rows, []) == {}


def test_protections_are_listed_in_the_order_of_the_rule() -> None:
    case: Case = {"id": "", "type": "plan", "inputs": {"rows": [{"id": "m1"}]}, "expected": {}}
    row = replace(first_row(case, PRUNE), pinned=True, tags=("x", "pinned"), access_count=3)
    row = replace(row, metadata={"supersedes": "x"}, relations=(("conflicts_with", "y"),))
    assert protections(row, is_curated_kept=False) == ["pinned"]
    assert protections(row, is_curated_kept=True) == [
        "pinned",
        "access_count",
        "tag:pinned",
        "metadata:supersedes",
        "relation:conflicts_with",
    ]


def test_age_clock_reports_the_earlier_name_on_a_tie() -> None:
    case: Case = {"id": "", "type": "plan", "inputs": {"rows": [{"id": "m1"}]}, "expected": {}}
    row = first_row(case, PRUNE)
    tied = replace(row, restored_at=row.created_at)
    later = replace(row, restored_at=row.created_at + 1)
    assert [age_clock(each).field for each in (row, tied, later)] == [
        "created_at",
        "created_at",
        "restored_at",
    ]
