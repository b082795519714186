"""Thresholds: each bounds one figure that there is, and a figure on its edge is healthy."""

from typing import Any

import pytest
from pydantic import ValidationError

from tasks.health.measuring import add_up
from tasks.health.policy import FIGURES, HealthPolicy
from tasks.health.snapshot import judge_figures

DEFAULTS = HealthPolicy()


def tree_of(path: str, value: object) -> dict[str, Any]:
    tree: Any = value
    for name in reversed(path.split(".")):
        tree = {name: tree}
    return dict(tree)


def test_each_threshold_bounds_a_figure() -> None:
    thresholds = {name for name in HealthPolicy.model_fields if name.startswith(("min_", "max_"))}
    assert thresholds == FIGURES.keys()
    assert len(set(FIGURES.values())) == len(FIGURES)


def test_every_field_has_a_description() -> None:
    assert all(field.description for field in HealthPolicy.model_fields.values())


@pytest.mark.parametrize("name", FIGURES)
def test_figure_on_the_threshold_is_healthy_and_one_beyond_is_not(name: str) -> None:
    threshold = getattr(DEFAULTS, name)
    beyond = threshold - 0.001 if name.startswith("min_") else threshold + 0.001
    assert judge_figures(tree_of(FIGURES[name], threshold), DEFAULTS) == []
    (broken,) = judge_figures(tree_of(FIGURES[name], beyond), DEFAULTS)
    assert broken == (name, beyond, threshold)


@pytest.mark.parametrize("name", FIGURES)
def test_unknown_figure_breaks_nothing(name: str) -> None:
    assert judge_figures(tree_of(FIGURES[name], None), DEFAULTS) == []
    assert judge_figures({}, DEFAULTS) == []


@pytest.mark.parametrize(
    "values",
    [
        {"min_coverage": 1.1},
        {"max_failed_jobs": -1},
        {"max_database_mib": 0},
        {"max_cold_ratio": float("nan")},
        {"keep_days": 0},
        {"max_everything": 1},
        {"sweep": {"cold_threshold": -1.0}},
    ],
)
def test_value_out_of_bounds_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        HealthPolicy.model_validate(values)


def part_of(active: int, embedded: int, *, is_served: bool, remaining: int | None) -> Any:  # noqa: ANN401
    return {
        "memories": {"active": active, "total": active},
        "index": {
            "active": active,
            "embedded": embedded,
            "deferred": None,
            "is_served": is_served,
        },
        "backlog": {"sweep": 1},
        "duplicates": {"found": remaining, "remaining": remaining},
        "anomalies": {"clock": 1},
        "forecast": {days: {"cold": active // 2} for days in ("7", "30", "90")},
    }


def test_shares_of_several_namespaces_are_those_of_the_sums() -> None:
    parts = [
        part_of(100, 90, is_served=True, remaining=10),
        part_of(300, 0, is_served=False, remaining=None),
    ]
    whole = add_up(parts)
    assert (whole["index"]["coverage"], whole["index"]["served_coverage"]) == (0.225, 0.9)
    assert whole["duplicates"] == {"found": 10, "remaining": 10, "ratio": 0.025}
    assert whole["forecast"]["30"] == {"cold": 200, "cold_ratio": 0.5}
    assert (whole["backlog"], whole["anomalies"]) == ({"sweep": 2}, {"clock": 2})


def test_what_no_namespace_knows_stays_unknown() -> None:
    whole = add_up([part_of(0, 0, is_served=False, remaining=None) for _ in range(2)])
    assert whole["duplicates"] == {"found": None, "remaining": None, "ratio": None}
    assert (whole["index"]["deferred"], whole["index"]["served_coverage"]) == (None, None)
    assert whole["index"]["coverage"] == 1.0
