"""What the benchmark of refresh makes of its samples."""

import pytest
from benchmarks.refresh_queries import BARE, EXACT, HYBRID, INDEXED, RECALL
from benchmarks.refresh_report import (
    Results,
    Row,
    Target,
    list_targets,
    tabulate_queries,
    tabulate_runs,
    tabulate_steps,
)
from benchmarks.refresh_runs import CHANGED, FULL, UNCHANGED, Sample
from benchmarks.refresh_steps import STEPS
from rich.console import Console
from rich.table import Table

SIZE = 100_000
INDEX = {"publications": 1, "versions": 2, "fragments": 1, "files": 6, "bytes": 1 << 20}


def make_rows(*, fault: str = "", of: str = "") -> list[Row]:
    """Make two repetitions of everything; a case may have been wrong in the first of them."""
    walls = {
        FULL: 200.0,
        UNCHANGED: 0.01,
        CHANGED: 2.0,
        f"{EXACT}: {HYBRID}": 0.5,
        f"{EXACT}: {BARE}": 0.1,
        f"{INDEXED}: {HYBRID}": 0.02,
        f"{INDEXED}: {BARE}": 0.01,
        f"{INDEXED}: {RECALL}": 0.0,
        STEPS + CHANGED: 4.0,
    }
    figures = {
        f"{INDEXED}: {RECALL}": {"share": 0.995},
        CHANGED: {"texts": 1_000.0, "embed_s": 1.5, "peak_rss_bytes": float(1 << 30)},
        STEPS + CHANGED: {"observe": 1.0, "flip": 3.0},
    }
    return [
        Row(case, SIZE, turn, 1 << 29, 1.0, INDEX, sample)
        for turn in range(2)
        for case, wall_s in walls.items()
        for sample in [
            Sample(case, wall_s, wall_s, "" if turn or case != of else fault, figures.get(case, {}))
        ]
    ]


def read_cells(table: Table) -> list[list[str]]:
    """Give the cells of a table as they are printed, row by row."""
    console = Console(width=400)
    with console.capture() as capture:
        console.print(table)
    return [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in capture.get().splitlines()
        if line.startswith("│")
    ]


def find_target(results: Results, title: str) -> Target:
    return next(one for one in list_targets(results, SIZE) if one.title.startswith(title))


@pytest.mark.parametrize(
    ("title", "value", "verdict"),
    [
        ("full ÷ incremental, wall", 100.0, "reached"),
        ("unchanged tick", 0.01, "reached"),
        ("peak GiB: changed", 1.0, "reached"),
        ("peak GiB: full", 0.5, "reached"),
        ("hybrid ÷ bare search, p50, index", 2.0, "reached"),
        ("recall@10, index", 0.995, "reached"),
    ],
)
def test_targets_are_judged_at_their_size_only(title: str, value: float, verdict: str) -> None:
    target = find_target(Results(make_rows(), "use"), title)
    assert target.value == pytest.approx(value)
    assert target.judge(SIZE) == verdict
    assert target.judge(10_000) == "-"


def test_a_figure_beyond_its_limit_is_missed() -> None:
    assert Target("", 3.1, 3).judge(SIZE) == "missed"
    assert Target("", 84.0, 85, is_upper=False).judge(SIZE) == "missed"


def test_the_ratio_is_judged_for_the_default_embedder_only() -> None:
    target = find_target(Results(make_rows(), "hash"), "full ÷ incremental")
    assert (target.value, target.judge(SIZE)) == (100.0, "-")


def test_a_run_that_was_wrong_once_is_void_everywhere() -> None:
    results = Results(make_rows(fault="12 texts for 10", of=CHANGED), "use")
    assert find_target(results, "full ÷ incremental").judge(SIZE) == "void"
    full, unchanged, changed = read_cells(tabulate_runs(results))
    assert changed[2:6] == ["void"] * 4
    assert "void" not in full + unchanged
    assert results.list_faults() == [f"{CHANGED} at {SIZE:,}: 12 texts for 10"]


def test_a_void_search_gives_no_ratio() -> None:
    results = Results(make_rows(fault="dropped", of=f"{INDEXED}: {HYBRID}"), "use")
    assert find_target(results, "hybrid ÷ bare search, p50").judge(SIZE) == "void"
    cells = {tuple(row[1:3]): row[3:7] for row in read_cells(tabulate_queries(results))}
    assert cells[INDEXED, HYBRID] == ["void"] * 4
    assert cells[EXACT, HYBRID] == ["500.0", "500.0", "5.0", "5.0"]


def test_own_work_is_without_the_embedder() -> None:
    changed = next(
        row for row in read_cells(tabulate_runs(Results(make_rows(), "use"))) if row[1] == CHANGED
    )
    assert changed[2:7] == ["2.000", "2.000", "2.000", "0.500", "1,000"]


def test_phases_are_shares_of_the_whole_run() -> None:
    table = next(iter(tabulate_steps(Results(make_rows(), "use"))))
    assert [row[1:] for row in read_cells(table)] == [
        ["observe", "1,000.0", "25.0"],
        ["flip", "3,000.0", "75.0"],
        ["in all", "4,000.0", "100.0"],
    ]
