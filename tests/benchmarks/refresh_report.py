"""From samples of the refresh benchmark to tables: runs, the index, queries, targets, steps.

What answered or did otherwise than it should is void: it is shown as such and in no ratio.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from benchmarks.refresh_queries import (
    BARE,
    BUILD,
    EMBEDDING,
    EXACT,
    HYBRID,
    INDEXED,
    RECALL,
    SESSION,
    WORDS,
)
from benchmarks.refresh_runs import CHANGED, EXPECTED, FULL, UNCHANGED, Sample
from benchmarks.refresh_steps import STEPS
from benchmarks.report import GIB
from benchmarks.repository_report import find_percentile
from rich.table import Table

from tasks.providers.registry import DEFAULT_EMBEDDER

VOID = "void"
NOTE = (
    "Changes concern one memory in a hundred. Runs are calls of the inline runner with modules and "
    "model loaded; own is without the embedder. Best and median are over all repetitions, an "
    "unchanged tick is measured five times in each. Queries are without embedding them, which has "
    "its own row; a bare search is that of an open table, for ten ids. Targets are for 100,000 "
    "memories, that of full ÷ incremental for the embedder `use`. Steps come from the job put "
    "together with marks, and add up to its time."
)
TARGET_ROWS = 100_000
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """One sample with the process that it comes from, and the index after it."""

    part: str
    rows: int
    repetition: int
    peak_rss_bytes: int
    load_1m: float
    index: dict[str, int]
    sample: Sample


class Results:
    """All rows, by size and case."""

    def __init__(self, rows: Sequence[Row], embedder: str) -> None:
        """Take the rows, and the embedder that all of them used."""
        self.rows = rows
        self.embedder = embedder
        self.sizes = sorted({row.rows for row in rows})

    def pick(self, size: int, case: str) -> list[Row]:
        """Pick the rows of a case at one size; none if any of them is void."""
        picked = self.pick_all(size, case)
        return [] if any(row.sample.fault for row in picked) else picked

    def pick_all(self, size: int, case: str) -> list[Row]:
        """Pick the rows of a case at one size, void ones, too."""
        return [row for row in self.rows if (row.rows, row.sample.case) == (size, case)]

    def list_faults(self) -> list[str]:
        """List what was wrong, each fault of a case once."""
        named = {
            f"{row.sample.case} at {row.rows:,}: {row.sample.fault}": None
            for row in self.rows
            if row.sample.fault
        }
        return list(named)


def tabulate_all(results: Results) -> Iterator[Table]:
    """Make all tables."""
    yield tabulate_runs(results)
    yield tabulate_index(results)
    yield tabulate_queries(results)
    yield tabulate_targets(results)
    yield from tabulate_steps(results)


def tabulate_runs(results: Results) -> Table:
    """Make the table of runs."""
    table = _make_table("refresh", "N", "since the last run")
    _add_numbers(table, "best s", "median s", "CPU s", "own s", "texts", "publications")
    _add_numbers(table, "snapshots", "versions", "peak MiB", "load")
    for size in results.sizes:
        for case in EXPECTED:
            measured, valid = results.pick_all(size, case), results.pick(size, case)
            if not measured:
                continue
            walls = [row.sample.wall_s for row in valid]
            cpus = [row.sample.cpu_s for row in valid]
            times = (_say(walls, min), _say(walls, median), _say(cpus, min), _say(_own(valid), min))
            figures = measured[-1].sample.figures
            names = ("texts", "publications", "snapshots", "versions")
            done = [f"{figures.get(name, 0):,.0f}" for name in names]
            tail = (f"{_peak(measured) / _MIB:,.0f}", f"{fmean(r.load_1m for r in measured):.1f}")
            style = None if valid else "red"
            table.add_row(f"{size:,}", case, *times, *done, *tail, style=style)
    return table


def _own(rows: Iterable[Row]) -> list[float]:
    return [row.sample.wall_s - row.sample.figures.get("embed_s", 0.0) for row in rows]


def _peak(rows: Iterable[Row]) -> float:
    """Give the largest peak memory until a run was done; a process only runs what is alike."""
    return max(row.sample.figures.get("peak_rss_bytes", row.peak_rss_bytes) for row in rows)


def tabulate_index(results: Results) -> Table:
    """Make the table of what the first life of a store leaves of each run."""
    table = _make_table("index afterwards", "N", "after")
    _add_numbers(table, "publications", "versions", "fragments", "files", "MiB")
    for size in results.sizes:
        for part in dict.fromkeys(row.part for row in results.rows):
            index = next(
                (
                    r.index
                    for r in results.rows
                    if (r.rows, r.part, r.repetition) == (size, part, 0)
                ),
                None,
            )
            if index is not None:
                names = ("publications", "versions", "fragments", "files")
                counts = [f"{index[name]:,}" for name in names]
                table.add_row(f"{size:,}", part, *counts, f"{index['bytes'] / _MIB:,.1f}")
    return table


def tabulate_queries(results: Results) -> Table:
    """Make the table of queries."""
    table = _make_table("queries", "N", "search", "what")
    _add_numbers(table, "p50 ms", "p95 ms", "÷ bare p50", "÷ bare p95", "load")
    for size in results.sizes:
        for way in (EXACT, INDEXED):
            for what in (HYBRID, SESSION, WORDS, BARE, EMBEDDING, BUILD):
                measured = results.pick_all(size, f"{way}: {what}")
                if not measured:
                    continue
                times = [_find_ms(results, size, f"{way}: {what}", at) for at in (0.5, 0.95)]
                ratios = [_divide_by_bare(results, size, way, what, at) for at in (0.5, 0.95)]
                cells = (_say_figure(one, ".1f") for one in (*times, *ratios))
                load = f"{fmean(row.load_1m for row in measured):.1f}"
                style = "red" if times[0] is None else None
                table.add_row(f"{size:,}", way, what, *cells, load, style=style)
    return table


def _find_ms(results: Results, size: int, case: str, share: float) -> float | None:
    found = find_percentile((row.sample.wall_s for row in results.pick(size, case)), share)
    return None if found is None else found * 1e3


def _divide_by_bare(results: Results, size: int, way: str, what: str, share: float) -> float | None:
    above, below = (_find_ms(results, size, f"{way}: {one}", share) for one in (what, BARE))
    return above / below if above is not None and below else None


@dataclass(frozen=True, slots=True)
class Target:
    """A figure to publish with the limit that it should keep."""

    title: str
    value: float | None
    limit: float
    is_upper: bool = True
    is_stated: bool = True

    def judge(self, rows: int) -> str:
        """Say whether the target is reached; it is stated for one size, and perhaps not here."""
        if self.value is None:
            return VOID
        if rows != TARGET_ROWS or not self.is_stated:
            return "-"
        is_reached = self.value <= self.limit if self.is_upper else self.value >= self.limit
        return "reached" if is_reached else "missed"


def tabulate_targets(results: Results) -> Table:
    """Make the table of targets."""
    table = _make_table("targets", "figure", "N")
    _add_numbers(table, "today", "target", "")
    for size in results.sizes:
        for target in list_targets(results, size):
            sign = "≤" if target.is_upper else "≥"
            cells = (_say_figure(target.value, ".3f"), f"{sign} {target.limit:g}")
            table.add_row(target.title, f"{size:,}", *cells, target.judge(size))
    return table


def list_targets(results: Results, size: int) -> Iterator[Target]:
    """List the figures at one size; recall's are those with the index, where there is one."""
    full, changed = (results.pick(size, case) for case in (FULL, CHANGED))
    for name in ("wall_s", "cpu_s"):
        over, under = ([getattr(row.sample, name) for row in rows] for rows in (full, changed))
        ratio = min(over) / min(under) if over and under else None
        title = f"full ÷ incremental, {name.removesuffix('_s')}"
        is_stated = results.embedder == DEFAULT_EMBEDDER
        yield Target(title, ratio, 85, is_upper=False, is_stated=is_stated)
    ticks = _own(results.pick(size, UNCHANGED))
    yield Target("unchanged tick, s", min(ticks, default=None), 0.02)
    for case in EXPECTED:
        measured = results.pick_all(size, case)
        if measured:
            yield Target(f"peak GiB: {case}", _peak(measured) / GIB, 1.5)
    way = INDEXED if results.pick_all(size, f"{INDEXED}: {HYBRID}") else EXACT
    for share in (0.5, 0.95):
        ratio = _divide_by_bare(results, size, way, HYBRID, share)
        yield Target(f"hybrid ÷ bare search, p{share * 100:.0f}, {way}", ratio, 3)
    shares = [row.sample.figures["share"] for row in results.pick(size, f"{way}: {RECALL}")]
    yield Target(f"{RECALL}, {way}", min(shares, default=None), 0.99, is_upper=False)


def tabulate_steps(results: Results) -> Iterator[Table]:
    """Make a table of phases for each kind of run that was followed."""
    for case in (CHANGED, UNCHANGED):
        table = _make_table(f"{STEPS}{case}", "N", "phase")
        _add_numbers(table, "median ms", "share %")
        for size in results.sizes:
            rows = results.pick(size, STEPS + case)
            total_s = median(row.sample.wall_s for row in rows) if rows else 0.0
            for phase in dict.fromkeys(name for row in rows for name in row.sample.figures):
                spent_s = median(row.sample.figures.get(phase, 0.0) for row in rows)
                cells = (f"{spent_s * 1e3:,.1f}", f"{spent_s / total_s * 100:.1f}")
                table.add_row(f"{size:,}", phase, *cells)
            if rows:
                table.add_row(f"{size:,}", "in all", f"{total_s * 1e3:,.1f}", "100.0")
        yield table


def _say(values: Sequence[float], reduce: Callable[[Sequence[float]], float]) -> str:
    return f"{reduce(values):,.3f}" if values else VOID


def _say_figure(value: float | None, how: str) -> str:
    return VOID if value is None else f"{value:,{how}}"


def _make_table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def _add_numbers(table: Table, *names: str) -> None:
    for name in names:
        table.add_column(name, justify="right")
