"""Measure memtend against its peers and print tables, ratios with targets, and exponents.

    python tests/benchmarks/run.py --rows 10000,100000 --jobs sweep --repeat 3

Rows are seeded once per size into a temporary directory: a store, a SQLite file, an Arrow file.
Every measurement is a process of its own on a copy of them, ours and a peer in turns, so read the
ratios: times of a busy hour are not those of a quiet one, and nothing here asserts on them. A peer
that does not decide exactly what ours decides is void. polars is measured if it can be imported.
1,000,000 rows take about ten minutes, 2 GB of disk and 3 GB of memory. Every measurement also goes
to a Parquet file (rounds.RESULT_SCHEMA plus the repetition and the versions) for a notebook.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

sys.path[:0] = [str(Path(__file__).resolve().parents[depth]) for depth in (2, 1)]

from benchmarks import report  # noqa: E402 - found through the two paths above
from benchmarks.data import seed_rows  # noqa: E402
from benchmarks.measure import JOBS  # noqa: E402
from benchmarks.rounds import RESULT_SCHEMA, run_rounds  # noqa: E402

WIDTH = 120


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description="Measure memtend against its peers.")
    families = sorted({job.split()[0] for job in JOBS})
    parser.add_argument("--rows", default="10000,100000,1000000", help="separated by commas")
    parser.add_argument("--jobs", default=",".join(families), help="sweep, prune or both")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each peer")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks.parquet"))
    return parser.parse_args(arguments)


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
    console.print(report.tabulate_ratios(bests), report.tabulate_exponents(bests), report.NOTE)
    console.print(f"{results.num_rows} measurements in {options.out}")


def _measure_all(options: argparse.Namespace, progress: Console) -> Iterator[dict[str, object]]:
    chosen = options.jobs.split(",")
    jobs = [job for job in JOBS if job.split()[0] in chosen]
    for size in map(int, options.rows.split(",")):
        with tempfile.TemporaryDirectory(prefix="memtend-bench-") as directory:
            with progress.status(f"seeding {size:,} memories"):
                seed = seed_rows(Path(directory), size)
            for job in jobs:
                with progress.status(f"{job}, {size:,} memories"):
                    yield from run_rounds(job, seed, repeat=options.repeat)


if __name__ == "__main__":
    main(sys.argv[1:])
