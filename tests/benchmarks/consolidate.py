"""Measure consolidation: its phases, its searches against peers, and how they grow.

    python -m tests.benchmarks.consolidate --sizes 10k,100k,1m --repeat 3

Each size has a temporary directory: stores before and after each phase, made when a job needs
them, with duplicates planted in them. Every measurement is a process of its own, ours and a peer in
turns, so read the ratios: times of a busy hour are not those of a quiet one, and nothing here
asserts on them. A peer that does not find exactly what ours finds is void, but for those by
MinHash: their rows say what share they found. A job that does not find exactly what was planted is
void, too. datasketch and rensa are measured if they can be imported. 1,000,000 memories take an
hour, 8 GB of disk and 5 GB of memory. Every measurement also goes to a Parquet file for a notebook.
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
from benchmarks.consolidate_data import plan_growth, plan_rows  # noqa: E402
from benchmarks.consolidate_measure import JOBS, find_implementations  # noqa: E402
from benchmarks.consolidate_report import (  # noqa: E402
    EXACT,
    EXPONENT_LIMITS,
    FULL,
    NEAR,
    NOTE,
    SOME,
    make_table,
    tabulate_ratios,
)
from benchmarks.measure import OURS  # noqa: E402
from benchmarks.report import Best  # noqa: E402
from benchmarks.rounds import RESULT_SCHEMA  # noqa: E402

WIDTH = 120
_UNITS = {"k": 1_000, "m": 1_000_000}
_PEERS = ("datasketch", "rensa")


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
    versions = report.describe_versions(*_PEERS)
    found: list[dict[str, object]] = []
    for one in _measure_all(options, Console(stderr=True)):
        found.append(one)
        _write(found, versions, options.out)
    bests = report.pick_best(pa.Table.from_pylist(found, schema=RESULT_SCHEMA))
    for table in report.tabulate_jobs(bests, *_PEERS):
        console.print(table)
    exponents = report.tabulate_exponents(bests, limits=EXPONENT_LIMITS, by_cpu=True)
    console.print(tabulate_ratios(bests), tabulate_faults(bests), exponents)
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    console.print(NOTE, f"load now: {load}; {len(found)} measurements in {options.out}")


def _write(found: Sequence[Mapping[str, object]], versions: str, out: Path) -> None:
    """Store what is measured so far: a run of an hour may be stopped."""
    results = pa.Table.from_pylist(found, schema=RESULT_SCHEMA)
    column = pa.repeat(pa.scalar(versions), results.num_rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(results.append_column("versions", column), out)


def _measure_all(options: argparse.Namespace, progress: Console) -> Iterator[dict[str, object]]:
    for size in map(_read_size, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="memtend-bench-") as directory:
            for job in options.jobs.split(";"):
                with progress.status(f"{job}, {size:,} memories"):
                    _run("consolidate_data", directory, str(size), JOBS[job].start)
                    for one in _run_rounds(job, Path(directory), size, options.repeat):
                        progress.print(_describe(one), soft_wrap=True)
                        yield one


def _describe(one: Mapping[str, object]) -> str:
    return (
        f"{one['rows']:,} {one['job']}, {one['implementation']}: {one['wall_s']:.3f} s, "
        f"CPU {one['cpu_s']:.3f} s, {one['decisions']:,} decisions"
    )


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
    said = _run("consolidate_measure", job, name, str(directory), str(rows))
    measured: dict[str, object] = json.loads(said)
    return measured


def _run(module: str, *arguments: str) -> bytes:
    """Run a module of the benchmarks in a process of its own, and give what it said."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(  # noqa: S603 - our own module, arguments from our own tables
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout


def tabulate_faults(bests: Sequence[Best]) -> Table:
    """Compare what ours found with what was planted."""
    names = ("job", "implementation", "N", "planted", "found", "verdict")
    table = make_table("planted duplicates", *names)
    for best in bests:
        planted = count_planted(best.rows).get(best.job)
        if planted is not None and best.implementation.startswith(OURS):
            verdict = "all found" if best.decisions == planted else "VOID"
            figures = f"{best.rows:,}", f"{planted:,}", f"{best.decisions:,}"
            table.add_row(best.job, best.implementation, *figures, verdict)
    return table


def count_planted(rows: int) -> Mapping[str, int]:
    """Give how many decisions or pairs there have to be: decisions of earlier plans stay."""
    first, later = plan_rows(rows), plan_growth(rows)
    return {
        EXACT: first.twins,
        NEAR: first.near_pairs,
        "plan, first": first.losers,
        "plan, stored terms": first.losers,
        "apply": first.losers,
        FULL: first.losers,
        SOME: first.losers + later.losers,
        "run, nothing new": first.losers,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
