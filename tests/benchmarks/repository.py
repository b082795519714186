"""Measure the repository: single durable adds, bulk admission, lexical queries, their growth.

    python -m tests.benchmarks.repository --sizes 10k,100k,1m --adds 20000 --repeat 3

Every size gets a store of its own in a temporary directory, filled by bulk admission. The queries
are then answered by the term index and by re-tokenising every memory, in turns of fresh processes,
so read the ratios: times of a busy hour are not those of a quiet one, and nothing here asserts on
them. Answers are compared with those of one pass over all texts, and what the adds and admissions
left in the store with what was given; a row that differs is void. 20,000 adds take some ten
minutes, 1,000,000 memories as long again. Every sample also goes to a Parquet file for a notebook.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.report import describe_versions  # noqa: E402 - found through the two paths above
from benchmarks.repository_report import NOTE, Results, Row, tabulate_all  # noqa: E402
from benchmarks.repository_work import Sample  # noqa: E402

WIDTH = 140
_UNITS = {"k": 1_000, "m": 1_000_000}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description="Measure the repository of memories.")
    parser.add_argument("--sizes", default="10k,100k", help="memories of a store, by commas")
    parser.add_argument("--adds", type=_read_size, default=20_000, help="single adds")
    parser.add_argument("--repeat", type=int, default=3, help="turns of index and re-tokenising")
    parser.add_argument("--out", type=Path, default=Path("build/repository.parquet"))
    return parser.parse_args(arguments)


def _read_size(text: str) -> int:
    unit = _UNITS.get(text[-1:].lower(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def main(arguments: Sequence[str]) -> None:
    """Measure, store the samples, print the tables."""
    options = parse_arguments(arguments)
    console = Console(width=max(Console().width, WIDTH))
    rows = list(_measure_all(options, Console(stderr=True)))
    _write(rows, options.out)
    for table in tabulate_all(Results(rows)):
        console.print(table)
    console.print(NOTE, f"{describe_versions()}; {len(rows)} samples in {options.out}", sep="\n")


def _write(rows: Sequence[Row], out: Path) -> None:
    flat = [{**asdict(row), **asdict(row.sample)} for row in rows]
    for one in flat:
        del one["sample"]
    table = pa.Table.from_pylist(flat)
    versions = pa.repeat(pa.scalar(describe_versions()), table.num_rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(table.append_column("versions", versions), out)


def _measure_all(options: argparse.Namespace, progress: Console) -> Iterator[Row]:
    adding = progress.status(f"{options.adds:,} single adds")
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as directory, adding:
        yield from measure_apart("add", Path(directory), options.adds)
    for size in map(_read_size, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="memtend-bench-") as directory:
            with progress.status(f"admitting {size:,} memories"):
                yield from measure_apart("admission", Path(directory), size)
            for repetition in range(options.repeat):
                for part in ("query", "scan"):
                    with progress.status(f"{part} {repetition + 1}, {size:,} memories"):
                        yield from measure_apart(part, Path(directory), size, repetition)


def measure_apart(part: str, directory: Path, count: int, repetition: int = 0) -> Iterator[Row]:
    """Measure one part in a process of its own; a scan's samples are those of queries.

    Raises:
        subprocess.CalledProcessError: It failed; its own words are on stderr.
    """
    command = [sys.executable, "-m", "benchmarks.repository_work", part, str(directory), str(count)]
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(  # noqa: S603 - our own module, arguments from our own tables
        command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True
    )
    said = json.loads(done.stdout)
    name = "query" if part == "scan" else part
    process = (name, count, repetition, said["peak_rss_bytes"], said["load_1m"])
    for sample in said["samples"]:
        yield Row(*process, Sample(**sample))


if __name__ == "__main__":
    main(sys.argv[1:])
