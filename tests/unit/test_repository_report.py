"""What the benchmark of the repository makes of its samples."""

from collections.abc import Iterable

import pytest
from benchmarks.repository_report import (
    Results,
    Row,
    find_percentile,
    tabulate_exponents,
    tabulate_queries,
)
from benchmarks.repository_work import EXPECTED, OPENING, OURS, SCAN, Sample
from benchmarks.searches import BANDS
from rich.console import Console
from rich.table import Table

CASES = [f"{band}/{number}" for band in BANDS for number in range(2)]


def make_rows(size: int, *, wrong: str = "") -> list[Row]:
    """Make samples of every query at one size; an implementation may answer one wrongly."""
    rows = []
    for place, case in enumerate(CASES):
        for name in (EXPECTED, OURS, OPENING, SCAN):
            digest = "other" if name == wrong and not place else "same"
            wall_s = {EXPECTED: 0.0, SCAN: size * 1e-3}.get(name, 1e-3)
            sample = Sample(name, case, digest, wall_s=wall_s, matching=size // 10)
            rows.append(Row("query", size, 0, 1, 1.0, sample))
    return rows


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


def test_ratio_compares_the_scan_with_the_index() -> None:
    cells = read_cells(tabulate_queries(Results(make_rows(500))))
    assert [row[1] for row in cells] == [*BANDS, "all"]
    assert {tuple(row[9:11]) for row in cells} == {("500.0", "500.0")}


@pytest.mark.parametrize(("wrong", "void"), [(OURS, range(3, 5)), (SCAN, range(7, 9))])
def test_an_implementation_that_answers_otherwise_is_void(wrong: str, void: Iterable[int]) -> None:
    results = Results(make_rows(500, wrong=wrong))
    first, second, *_, all_ = read_cells(tabulate_queries(results))
    for row in (first, all_):
        assert {row[place] for place in (*void, 9, 10)} == {"void"}
    assert "void" not in second


def test_exponent_leaves_out_what_is_void() -> None:
    rows = make_rows(100) + make_rows(1_000)
    assert len(read_cells(tabulate_exponents(Results(rows)))) == len(BANDS) + 1
    lost = make_rows(100, wrong=OURS) + make_rows(1_000)
    assert len(read_cells(tabulate_exponents(Results(lost)))) == len(BANDS) - 1


@pytest.mark.parametrize(("share", "value"), [(0.5, 10), (0.95, 19), (1.0, 20)])
def test_percentile_is_a_value_that_was_measured(share: float, value: int) -> None:
    assert find_percentile(range(20, 0, -1), share) == value
    assert find_percentile([], share) is None
