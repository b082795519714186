"""The ratios of consolidation with their targets, and the peak memory of ours."""

from collections.abc import Iterator, Sequence

from benchmarks.consolidate_measure import STORED, TOKENISING
from benchmarks.measure import OURS
from benchmarks.report import GIB, TARGET_ROWS, Best, Ratio
from rich.table import Table

MEMORY_LIMIT_BYTES = 3 * GIB
FULL, SOME, EXACT, NEAR = "run, full", "run, 1 % new", "exact groups", "near pairs"
_SMALL, _MIDDLE = 10_000, 100_000


def _ratio(job: str, peer: str, ours: str, limit: float) -> Ratio:
    return Ratio(f"{job}: {peer} ÷ {ours}", (job, peer), (job, ours), limit)


# Each is stated for one size.
RATIOS: tuple[tuple[Ratio, int], ...] = (
    (Ratio("run: full ÷ 1 % new", (FULL, OURS), (SOME, OURS), 10), _MIDDLE),
    (_ratio(EXACT, "python loop", OURS, 40), TARGET_ROWS),
    (_ratio(EXACT, "python loop", STORED, 40), TARGET_ROWS),
    (_ratio(EXACT, "sqlite", OURS, 8), TARGET_ROWS),
    (_ratio(EXACT, "sqlite", STORED, 8), TARGET_ROWS),
    (_ratio(NEAR, "naive", OURS, 50), _SMALL),
    (_ratio(NEAR, "naive", TOKENISING, 50), _SMALL),
    (_ratio(NEAR, "datasketch", OURS, 12), _MIDDLE),
    (_ratio(NEAR, "datasketch", TOKENISING, 12), _MIDDLE),
    (_ratio(NEAR, "rensa", OURS, 4), TARGET_ROWS),
    (_ratio(NEAR, "rensa", TOKENISING, 4), TARGET_ROWS),
)
# By CPU.
EXPONENT_LIMITS = {(NEAR, OURS): 1.05, (NEAR, TOKENISING): 1.05}
NOTE = (
    "Wall and CPU are the best of the runs, peak memory the largest; at 10,000 memories the fixed "
    "cost of DuckDB (3 to 8 ms a statement) weighs most. Whole phases are the job itself: locks, "
    "lease, run row, plan with its decisions, merges with history, receipts and source ids. Exact "
    "groups: all start from stored keys on disk. Near pairs: ours starts from stored terms, or "
    "tokenises and stores them; its peers start from texts in memory, tokenise and store nothing."
)


def tabulate_ratios(bests: Sequence[Best]) -> Table:
    """Make the table of ratios, one row per size, and of the peak memory of ours."""
    known = {(best.job, best.implementation, best.rows): best for best in bests if not best.is_void}
    names = ("ratio", "N", "by wall", "by CPU", "peer's recall", "target", "verdict")
    table = make_table("ratios and memory", *names)
    for ratio, stated_for in RATIOS:
        for size in sorted({rows for _, _, rows in known}):
            over, under = known.get((*ratio.over, size)), known.get((*ratio.under, size))
            if over is not None and under is not None:
                table.add_row(*_compare(ratio, over, under, is_stated=size == stated_for))
    for cells in _judge_memory(bests):
        table.add_row(*cells)
    return table


def _compare(ratio: Ratio, over: Best, under: Best, *, is_stated: bool) -> Iterator[str]:
    wall, cpu = over.wall_s / under.wall_s, over.cpu_s / under.cpu_s
    is_reached = "reached" if min(wall, cpu) >= ratio.limit else "missed"
    yield ratio.title
    yield f"{over.rows:,}"
    yield f"{wall:.1f}"
    yield f"{cpu:.1f}"
    yield f"{over.recall:.4f}"
    yield f"≥ {ratio.limit:g}"
    yield is_reached if is_stated else "-"


def _judge_memory(bests: Sequence[Best]) -> Iterator[tuple[str, ...]]:
    largest = max(best.rows for best in bests)
    for best in bests:
        if best.implementation == OURS and best.rows == largest:
            is_within = "reached" if best.peak_rss_bytes <= MEMORY_LIMIT_BYTES else "missed"
            verdict = is_within if largest == TARGET_ROWS else "-"
            figure = f"{best.peak_rss_bytes / GIB:.2f} GiB"
            yield f"peak memory, {best.job}", f"{largest:,}", figure, "", "", "≤ 3 GiB", verdict


def make_table(title: str, *names: str) -> Table:
    """Make a table whose first column is text."""
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table
