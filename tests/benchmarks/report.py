"""From measurements to tables: the best of each implementation, ratios with targets, exponents.

A peer whose decisions differ from ours is void: it is shown as such and in no ratio.
"""

import math
import platform
import sqlite3
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa
from benchmarks.measure import HAS_NO_DECISIONS, OURS
from rich.table import Table

TARGET_ROWS = 1_000_000
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Best:
    """The best time and the largest memory of an implementation at one size.

    Attributes:
        is_void: It decided otherwise than ours, or not the same each time.
        recall: The share of what ours found; less than 1 only for peers in MAY_MISS.
    """

    job: str
    implementation: str
    rows: int
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    decisions: int
    digest: str
    load_1m: float
    runs: int
    is_void: bool
    recall: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio to publish: `over` / `under` of one figure, with the limit that it should keep."""

    title: str
    over: tuple[str, str]
    under: tuple[str, str]
    limit: float
    _: KW_ONLY
    is_upper: bool = False
    is_memory: bool = False

    def judge(self, value: float, rows: int) -> str:
        """Say whether the target is reached; it is stated for one size only."""
        if rows != TARGET_ROWS:
            return "-"
        is_reached = value <= self.limit if self.is_upper else value >= self.limit
        return "reached" if is_reached else "missed"


_SWEEP, _DECIDE, _APPLY = "sweep plan", "prune decide", "prune apply"
RATIOS = (
    Ratio("sweep plan: python loop ÷ ours", (_SWEEP, "python loop"), (_SWEEP, OURS), 7),
    Ratio("sweep plan: sqlite ÷ ours", (_SWEEP, "sqlite"), (_SWEEP, OURS), 12),
    Ratio("sweep plan: pydantic rows ÷ ours", (_SWEEP, "pydantic rows"), (_SWEEP, OURS), 50),
    Ratio("sweep plan: ours ÷ floor", (_SWEEP, OURS), (_SWEEP, "floor"), 3.5, is_upper=True),
    Ratio("prune apply: sqlite ÷ ours", (_APPLY, "sqlite"), (_APPLY, OURS), 10),
    Ratio(
        "peak memory, sweep plan: ours ÷ dict store",
        (_SWEEP, OURS),
        (_SWEEP, "dict store"),
        0.33,
        is_upper=True,
        is_memory=True,
    ),
    Ratio(
        "peak memory, prune apply: ours ÷ dict store",
        (_APPLY, OURS),
        (_DECIDE, "dict store"),
        0.33,
        is_upper=True,
        is_memory=True,
    ),
)
EXPONENT_LIMITS = {(_APPLY, OURS): 1.0}
# Peers that verify what they propose: they may miss some, but invent none.
MAY_MISS = frozenset({"datasketch", "rensa"})
MEMORY_LIMIT_BYTES = 2 * GIB
NOTE = (
    "Wall and CPU are the best of the runs, peak memory the largest. At 10,000 rows the fixed cost "
    "of DuckDB (3 to 8 ms a statement, more to open the file) lets plain Python tie or win. Loop, "
    "pydantic, dict store and polars start from rows in memory and store nothing; ours reads a "
    "file and commits."
)


def pick_best(results: pa.Table) -> list[Best]:
    """Reduce measurements to one row per job, size and implementation, in the order measured."""
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in results.to_pylist():
        groups.setdefault((row["job"], row["rows"], row["implementation"]), []).append(row)
    return [_reduce(rows, groups[job, size, OURS]) for (job, size, _), rows in groups.items()]


def _reduce(runs: Sequence[dict[str, Any]], ours: Sequence[dict[str, Any]]) -> Best:
    first = runs[0]
    said = {(run["decisions"], run["digest"]) for run in [*runs, *ours]}
    name, expected = first["implementation"], ours[0]["decisions"]
    found = min(run["decisions"] for run in runs)
    has_missed = name in MAY_MISS and found < expected
    return Best(
        job=first["job"],
        implementation=first["implementation"],
        rows=first["rows"],
        wall_s=min(run["wall_s"] for run in runs),
        cpu_s=min(run["cpu_s"] for run in runs),
        peak_rss_bytes=max(run["peak_rss_bytes"] for run in runs),
        decisions=first["decisions"],
        digest=first["digest"],
        load_1m=statistics.mean(run["load_1m"] for run in runs),
        runs=len(runs),
        is_void=name not in HAS_NO_DECISIONS and len(said) > 1 and not has_missed,
        recall=found / expected if has_missed else 1.0,
    )


def tabulate_jobs(bests: Iterable[Best], *peers: str) -> Iterator[Table]:
    """Make one table per job; name the versions of these peers, too."""
    jobs: dict[str, list[Best]] = {}
    for best in bests:
        jobs.setdefault(best.job, []).append(best)
    for job, rows in jobs.items():
        table = Table(title=job, title_justify="left", caption=describe_versions(*peers))
        _add_columns(table, "N", "implementation")
        _add_columns(
            table,
            "wall ms",
            "CPU ms",
            "peak MiB",
            "decisions",
            "hash",
            "load",
            "runs",
            is_number=True,
        )
        for best in rows:
            table.add_row(*_cells(best), style="red" if best.is_void else None)
        yield table


def _add_columns(table: Table, *names: str, is_number: bool = False) -> None:
    for name in names:
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)


def _cells(best: Best) -> Iterator[str]:
    decides = best.implementation not in HAS_NO_DECISIONS
    digest = "void: decides otherwise" if best.is_void else best.digest
    if best.recall < 1:
        digest = f"recall {best.recall:.4f}"
    yield f"{best.rows:,}"
    yield best.implementation
    yield f"{best.wall_s * 1e3:,.1f}"
    yield f"{best.cpu_s * 1e3:,.1f}"
    yield f"{best.peak_rss_bytes / 2**20:,.0f}"
    yield f"{best.decisions:,}" if decides else "-"
    yield digest if decides else "-"
    yield f"{best.load_1m:.1f}"
    yield str(best.runs)


def tabulate_ratios(bests: Iterable[Best]) -> Table:
    """Make the table of ratios and limits, one row per size."""
    known = {(best.job, best.implementation, best.rows): best for best in bests if not best.is_void}
    table = Table(title="ratios", title_justify="left")
    _add_columns(table, "ratio", "N")
    _add_columns(table, "by wall", "by CPU", "target", f"at {TARGET_ROWS:,}", is_number=True)
    for ratio in RATIOS:
        for size in sorted({rows for _, _, rows in known}):
            over, under = known.get((*ratio.over, size)), known.get((*ratio.under, size))
            if over is not None and under is not None:
                table.add_row(*_ratio_cells(ratio, over, under))
    for best in known.values():
        if best.implementation == OURS and best.rows == TARGET_ROWS:
            is_reached = best.peak_rss_bytes <= MEMORY_LIMIT_BYTES
            figure = f"{best.peak_rss_bytes / GIB:.2f} GiB"
            verdict = "reached" if is_reached else "missed"
            title = f"peak memory, {best.job}: ours"
            table.add_row(title, f"{best.rows:,}", figure, "", "≤ 2 GiB", verdict)
    return table


def _ratio_cells(ratio: Ratio, over: Best, under: Best) -> Iterator[str]:
    yield ratio.title
    yield f"{over.rows:,}"
    if ratio.is_memory:
        value = over.peak_rss_bytes / under.peak_rss_bytes
        yield f"{value:.2f}"
        yield ""
    else:
        value = over.wall_s / under.wall_s
        yield f"{value:.2f}"
        yield f"{over.cpu_s / under.cpu_s:.2f}"
    yield f"{'≤' if ratio.is_upper else '≥'} {ratio.limit:g}"
    yield ratio.judge(value, over.rows)


def tabulate_exponents(
    bests: Iterable[Best],
    *,
    limits: Mapping[tuple[str, str], float] = EXPONENT_LIMITS,
    by_cpu: bool = False,
) -> Table:
    """Make the table of exponents of ours: the slope of log time over log N; one is judged."""
    curves: dict[tuple[str, str], list[Best]] = {}
    for best in bests:
        if best.implementation.startswith(OURS):
            curves.setdefault((best.job, best.implementation), []).append(best)
    table = Table(title="exponents of ours", title_justify="left")
    _add_columns(table, "job", "implementation")
    _add_columns(
        table, "sizes", "by wall", "by CPU", "target", f"at {TARGET_ROWS:,}", is_number=True
    )
    for (job, name), curve in curves.items():
        curve.sort(key=lambda best: best.rows)
        limit = limits.get((job, name))
        for title, part in (("all", curve), ("two largest", curve[-2:])):
            wall = fit_exponent([(best.rows, best.wall_s) for best in part])
            cpu = fit_exponent([(best.rows, best.cpu_s) for best in part])
            if wall is not None and cpu is not None:
                judged = _judge_exponent(cpu if by_cpu else wall, limit, curve[-1].rows)
                table.add_row(job, name, title, f"{wall:.2f}", f"{cpu:.2f}", *judged)
    return table


def _judge_exponent(value: float, limit: float | None, rows: int) -> tuple[str, str]:
    if limit is None:
        return "", ""
    if rows != TARGET_ROWS:
        return f"≤ {limit:g}", "-"
    return f"≤ {limit:g}", "reached" if value <= limit else "missed"


def fit_exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """Fit the slope of log time over log N by least squares; None with fewer than two sizes."""
    if len({size for size, _ in points}) < 2:
        return None
    sizes, times = zip(*((math.log(size), math.log(time)) for size, time in points), strict=True)
    return statistics.linear_regression(sizes, times).slope


def describe_versions(*peers: str) -> str:
    """Name the versions of what was measured."""
    names = ("duckdb", "pyarrow", "pydantic", "polars", *peers)
    found = [f"{name} {_version(name)}" for name in names]
    return ", ".join(
        [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}", *found]
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
