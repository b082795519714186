"""From samples of the repository's benchmark to tables: rates, percentiles, ratios, exponents.

What answers otherwise than expected is void: it is shown as such and in no ratio and no exponent.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.report import fit_exponent
from benchmarks.repository_work import EXPECTED, FSYNC, OPENING, OURS, SCAN, Sample
from benchmarks.searches import BANDS
from rich.table import Table

VOID = "void"
ALL = "all"
NOTE = (
    "Adds are change sets with one create each, in an open session: each is a transaction and an "
    "fsync. Admission puts up to 100,000 validated records into a transaction. Queries run in an "
    "open session; opening takes the lock and the file anew for each. A scan re-tokenises every "
    "active text of the namespace; its ratios compare the same queries."
)
Points = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Row:
    """One sample with the process that it comes from."""

    part: str
    rows: int
    repetition: int
    peak_rss_bytes: int
    load_1m: float
    sample: Sample


@dataclass(frozen=True, slots=True)
class Group:
    """The samples of one implementation in one place, without what void ones would say."""

    rows: Sequence[Row]
    is_void: bool

    @property
    def walls(self) -> list[float]:
        """Give the wall times in the order of measuring."""
        return [] if self.is_void else [row.sample.wall_s for row in self.rows]

    def say(self, share: float) -> str:
        """Give a percentile in milliseconds."""
        return VOID if self.is_void else _in_ms(find_percentile(self.walls, share))


def find_percentile(values: Iterable[float], share: float) -> float | None:
    """Find the smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


class Results:
    """All rows, with the answers that were expected."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Sort out what was expected from what was measured."""
        self._measured = [row for row in rows if row.sample.implementation != EXPECTED]
        self._expected = {
            (row.part, row.rows, row.sample.case): row.sample
            for row in rows
            if row.sample.implementation == EXPECTED
        }

    def sizes(self, part: str) -> list[int]:
        """Give the sizes that a part was measured at."""
        return sorted({row.rows for row in self._measured if row.part == part})

    def pick(
        self, part: str, rows: int, name: str, keep: Callable[[str], bool] = lambda _: True
    ) -> Group:
        """Pick the samples of an implementation at one size whose case is to be kept."""
        picked = [
            row
            for row in self._measured
            if (row.part, row.rows, row.sample.implementation) == (part, rows, name)
            and keep(row.sample.case)
        ]
        return Group(picked, is_void=any(self._is_wrong(row) for row in picked))

    def _is_wrong(self, row: Row) -> bool:
        if row.sample.implementation == FSYNC:
            return False
        expected = self._expected.get((row.part, row.rows, row.sample.case))
        return expected is None or expected.digest != row.sample.digest

    def count_matching(self, rows: int, keep: Callable[[str], bool]) -> dict[str, int]:
        """Give how many memories each query touches."""
        return {
            case: sample.matching
            for (part, size, case), sample in self._expected.items()
            if (part, size) == ("query", rows) and keep(case)
        }


def tabulate_all(results: Results) -> Iterator[Table]:
    """Make all tables."""
    yield tabulate_adds(results)
    yield tabulate_admission(results)
    yield tabulate_queries(results)
    yield tabulate_exponents(results)


def tabulate_adds(results: Results) -> Table:
    """Make the table of single adds, with the rate at the beginning and at the end."""
    table = _make_table("single adds, durable", "adds", "implementation")
    _add_numbers(
        table, "per s", "p50 ms", "p95 ms", "first tenth per s", "last tenth per s", "load"
    )
    for count in results.sizes("add"):
        for name in (OURS, FSYNC):
            group = results.pick("add", count, name)
            tenth = max(1, count // 10)
            parts = (group.walls, group.walls[:tenth], group.walls[-tenth:])
            all_, first, last = (_say_rate(len(part), sum(part)) for part in parts)
            figures = (all_, group.say(0.5), group.say(0.95), first, last, _say_load(group))
            _add_row(table, group, f"{count:,}", name, *figures)
    return table


def tabulate_admission(results: Results) -> Table:
    """Make the table of bulk admission."""
    table = _make_table("bulk admission", "N", "implementation")
    _add_numbers(table, "rows per s", "rows per CPU s", "peak MiB", "load")
    for count in results.sizes("admission"):
        group = results.pick("admission", count, OURS)
        samples = [] if group.is_void else [row.sample for row in group.rows]
        items = sum(sample.items for sample in samples)
        walls, cpus = (sum(getattr(one, name) for one in samples) for name in ("wall_s", "cpu_s"))
        peak = max(row.peak_rss_bytes for row in group.rows) / 2**20
        figures = (_say_rate(items, walls), _say_rate(items, cpus), f"{peak:,.0f}")
        _add_row(table, group, f"{count:,}", OURS, *figures, _say_load(group))
    return table


def tabulate_queries(results: Results) -> Table:
    """Make the table of queries: per band, and all of them."""
    table = _make_table("lexical queries", "N", "words")
    _add_numbers(table, "matching", "ours p50 ms", "p95", "opening p50 ms", "p95")
    _add_numbers(table, "scan p50 ms", "p95", "scan ÷ ours p50", "p95", "load")
    for size in results.sizes("query"):
        for band in (*BANDS, ALL):
            ours, opening, scan = (
                results.pick("query", size, name, _within(band)) for name in (OURS, OPENING, SCAN)
            )
            matching = fmean(results.count_matching(size, _within(band)).values())
            scanned = {row.sample.case for row in scan.rows}
            same = results.pick("query", size, OURS, scanned.__contains__)
            times = [one.say(share) for one in (ours, opening, scan) for share in (0.5, 0.95)]
            ratios = [_say_ratio(scan, same, share) for share in (0.5, 0.95)]
            figures = (f"{matching:,.0f}", *times, *ratios, _say_load(ours))
            _add_row(table, ours, f"{size:,}", band, *figures)
    return table


def tabulate_exponents(results: Results) -> Table:
    """Make the table of exponents of the query p95: the slope of log time over log size."""
    table = _make_table("exponents of the query p95, ours", "against", "words")
    _add_numbers(table, "points", "exponent")
    for band in (*BANDS, ALL):
        _add_fit(table, "N", band, list(_find_p95_of_sizes(results, band)))
    for size in results.sizes("query"):
        _add_fit(table, f"matching rows at {size:,}", ALL, list(_find_p95_of_cases(results, size)))
    return table


def _find_p95_of_sizes(results: Results, band: str) -> Iterator[tuple[int, float]]:
    for size in results.sizes("query"):
        p95 = find_percentile(results.pick("query", size, OURS, _within(band)).walls, 0.95)
        if p95 is not None:
            yield size, p95


def _find_p95_of_cases(results: Results, size: int) -> Iterator[tuple[int, float]]:
    for case, matching in results.count_matching(size, _within(ALL)).items():
        p95 = find_percentile(results.pick("query", size, OURS, case.__eq__).walls, 0.95)
        if p95 is not None and matching:
            yield matching, p95


def _add_fit(table: Table, against: str, band: str, points: Points) -> None:
    slope = fit_exponent(points)
    if slope is not None:
        table.add_row(against, band, str(len(points)), f"{slope:.2f}")


def _within(band: str) -> Callable[[str], bool]:
    return lambda case: band == ALL or case.startswith(f"{band}/")


def _make_table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def _add_numbers(table: Table, *names: str) -> None:
    for name in names:
        table.add_column(name, justify="right")


def _add_row(table: Table, group: Group, *cells: str) -> None:
    table.add_row(*cells, style="red" if group.is_void else None)


def _say_load(group: Group) -> str:
    return f"{fmean(row.load_1m for row in group.rows):.1f}"


def _say_rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f}" if seconds else VOID


def _say_ratio(over: Group, under: Group, share: float) -> str:
    above, below = (find_percentile(one.walls, share) for one in (over, under))
    return f"{above / below:,.1f}" if above and below else VOID


def _in_ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:,.1f}"
