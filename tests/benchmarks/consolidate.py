"""Measure consolidation: its phases, its searches against peers, and how they grow.

    python -m tests.benchmarks.consolidate --sizes 10k,100k,1m --repeat 3

Each size is seeded once into a temporary directory: stores before and after each phase, with
duplicates planted in them. Every measurement is a process of its own, ours and a peer in turns, so
read the ratios: times of a busy hour are not those of a quiet one, and nothing here asserts on
them. A peer that does not find exactly what ours finds is void, and so is a phase that does not
merge exactly what was planted. 1,000,000 memories take half an hour, 8 GB of disk and 3 GB of
memory. Every measurement also goes to a Parquet file for a notebook.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks import report  # noqa: E402 - found through the two paths above
from benchmarks.consolidate_data import plan_growth, plan_rows, seed_stores  # noqa: E402
from benchmarks.consolidate_measure import JOBS, find_implementations  # noqa: E402
from benchmarks.measure import OURS  # noqa: E402
from benchmarks.report import GIB, TARGET_ROWS, Best, Ratio  # noqa: E402
from benchmarks.rounds import RESULT_SCHEMA  # noqa: E402

WIDTH = 120
MEMORY_LIMIT_BYTES = 3 * GIB
_UNITS = {"k": 1_000, "m": 1_000_000}
_FULL, _SOME, _EXACT, _NEAR = "run, full", "run, 1 % new", "exact groups", "near pairs"
# Each is stated for one size; the increment for all.
RATIOS: tuple[tuple[Ratio, int], ...] = (
    (Ratio("run: full ÷ 1 % new", (_FULL, OURS), (_SOME, OURS), 10), 100_000),
    (Ratio("exact: python loop ÷ ours", (_EXACT, "python loop"), (_EXACT, OURS), 40), TARGET_ROWS),
    (Ratio("exact: sqlite ÷ ours", (_EXACT, "sqlite"), (_EXACT, OURS), 8), TARGET_ROWS),
    (Ratio("near: naive ÷ ours", (_NEAR, "naive"), (_NEAR, OURS), 50), 10_000),
    (Ratio("near: datasketch ÷ ours", (_NEAR, "datasketch"), (_NEAR, OURS), 12), 100_000),
)
NOTE = (
    "Wall and CPU are the best of the runs, peak memory the largest. Whole phases are the job "
    "itself: locks, lease, run row, plan with its decisions, merges with history, receipts and "
    "source ids. Searches start from stored terms; naive, datasketch and the loop start from rows "
    "in memory and store nothing, naive and datasketch tokenise."
)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description="Measure consolidation.")
    parser.add_argument("--sizes", default="10k,100k", help="memories of a store, by commas")
    parser.add_argument("--jobs", default=";".join(JOBS), help="separated by semicolons")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each")
    parser.add_argument("--out", type=Path, default=Path("build/consolidate.parquet"))
    return parser.parse_args(arguments)


def _read_size(text: str) -> int:
    unit = _UNITS.get(text[-1:].lower(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def main(arguments: Sequence[str]) -> None:
    """Measure, store the measurements, print the tables."""
    options = parse_arguments(arguments)
    console = Console(width=max(Console().width, WIDTH))
    found = list(_measure_all(options, Console(stderr=True)))
    results = pa.Table.from_pylist(found, schema=RESULT_SCHEMA)
    versions = pa.repeat(pa.scalar(report.describe_versions()), results.num_rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(results.append_column("versions", versions), options.out)
    bests = report.pick_best(results)
    for table in report.tabulate_jobs(bests):
        console.print(table)
    console.print(tabulate_ratios(bests), tabulate_faults(bests), report.tabulate_exponents(bests))
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    console.print(NOTE, f"load now: {load}; {results.num_rows} measurements in {options.out}")


def _measure_all(options: argparse.Namespace, progress: Console) -> Iterator[dict[str, object]]:
    for size in map(_read_size, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="memtend-bench-") as directory:
            with progress.status(f"seeding {size:,} memories"):
                seed_stores(Path(directory), size)
            for job in options.jobs.split(";"):
                with progress.status(f"{job}, {size:,} memories"):
                    yield from _run_rounds(job, Path(directory), size, options.repeat)


def _run_rounds(job: str, directory: Path, rows: int, repeat: int) -> Iterator[dict[str, object]]:
    """Measure ours, a peer, ours, the next peer and so on, some times over."""
    peers = [name for name in find_implementations(job, rows) if name != OURS]
    for _ in range(repeat):
        if not peers:
            yield measure_apart(job, OURS, directory, rows)
        for peer in peers:
            yield measure_apart(job, OURS, directory, rows)
            yield measure_apart(job, peer, directory, rows)


def measure_apart(job: str, name: str, directory: Path, rows: int) -> dict[str, object]:
    """Measure one implementation once, in a process of its own.

    Raises:
        subprocess.CalledProcessError: It failed; its own words are on stderr.
    """
    command = [sys.executable, "-m", "benchmarks.consolidate_measure", job, name]
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(  # noqa: S603 - our own module, arguments from our own tables
        [*command, str(directory), str(rows)],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    measured: dict[str, object] = json.loads(done.stdout)
    return measured


def tabulate_ratios(bests: Sequence[Best]) -> Table:
    """Make the table of ratios, one row per size, and of the peak memory of ours."""
    known = {(best.job, best.implementation, best.rows): best for best in bests if not best.is_void}
    table = _make_table("ratios and memory", "ratio", "N", "by wall", "by CPU", "target", "verdict")
    for ratio, stated_for in RATIOS:
        for size in sorted({rows for _, _, rows in known}):
            over, under = known.get((*ratio.over, size)), known.get((*ratio.under, size))
            if over is not None and under is not None:
                wall, cpu = over.wall_s / under.wall_s, over.cpu_s / under.cpu_s
                is_reached = "reached" if min(wall, cpu) >= ratio.limit else "missed"
                verdict = is_reached if size == stated_for else "-"
                figures = f"{wall:.1f}", f"{cpu:.1f}", f"≥ {ratio.limit:g}", verdict
                table.add_row(ratio.title, f"{size:,}", *figures)
    for best in known.values():
        if best.implementation == OURS and best.job == _FULL:
            is_within = best.peak_rss_bytes <= MEMORY_LIMIT_BYTES
            verdict = ("reached" if is_within else "missed") if best.rows == TARGET_ROWS else "-"
            figure = f"{best.peak_rss_bytes / GIB:.2f} GiB"
            table.add_row(f"peak memory, {_FULL}", f"{best.rows:,}", figure, "", "≤ 3 GiB", verdict)
    return table


def tabulate_faults(bests: Sequence[Best]) -> Table:
    """Compare what whole phases decided with what was planted."""
    table = _make_table("planted duplicates", "phase", "N", "planted", "merged", "verdict")
    for best in bests:
        planted = count_planted(best.rows).get(best.job)
        if planted is not None:
            verdict = "all found" if best.decisions == planted else "VOID"
            table.add_row(
                best.job, f"{best.rows:,}", f"{planted:,}", f"{best.decisions:,}", verdict
            )
    return table


def count_planted(rows: int) -> Mapping[str, int]:
    """Give how many decisions are in the store after each phase: those of earlier ones stay."""
    first, later = plan_rows(rows).losers, plan_growth(rows).losers
    return {
        "plan, first": first,
        "plan, stored terms": first,
        "apply": first,
        _FULL: first,
        _SOME: first + later,
        "run, nothing new": first,
    }


def _make_table(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
