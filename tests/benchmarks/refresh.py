"""Measure the refresh job and hybrid recall, and print figures, targets and where time goes.

    python -m tests.benchmarks.refresh --sizes 10k,100k --embedder use --repeat 3

Each repetition copies the seeded store and goes through its life: the first full build, queries,
ticks without a change, changes of inactive memories only, of metadata, of contents, and once more
with a clock at every step. Each of these is a process of its own; full and incremental runs take
turns, so read the ratios: times of a busy hour are not those of a quiet one, and nothing here
asserts on them. A row whose answers are wrong is void, with the reason under the tables. With
`use` a full build of 100,000 memories takes some four minutes, with `hash` half a minute. Every
sample also goes to a Parquet file for a notebook.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.data import NOW, make_memories  # noqa: E402 - found through the two paths above
from benchmarks.refresh_edits import change_memories  # noqa: E402
from benchmarks.refresh_measure import QUERIES, STEPS  # noqa: E402
from benchmarks.refresh_report import NOTE, Results, Row, tabulate_all  # noqa: E402
from benchmarks.refresh_runs import (  # noqa: E402
    CHANGED,
    FULL,
    INACTIVE,
    METADATA,
    UNCHANGED,
    Sample,
    list_active,
)
from benchmarks.report import describe_versions  # noqa: E402

from storage import create_store, open_store  # noqa: E402
from storage.memories import insert_memories  # noqa: E402
from storage.models import DEFAULT_NAMESPACE  # noqa: E402
from storage.namespaces import ensure_namespace, step_sequence  # noqa: E402
from storage.terms import insert_terms, term_rows  # noqa: E402

WIDTH = 150
# What is measured in a repetition, each with what changes before it.
PARTS = (
    (FULL, None),
    (QUERIES, None),
    (UNCHANGED, None),
    (INACTIVE, INACTIVE),
    (METADATA, METADATA),
    (CHANGED, CHANGED),
    (STEPS, CHANGED),
)
_UNITS = {"k": 1_000, "m": 1_000_000}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description="Measure refresh and hybrid recall.")
    parser.add_argument("--sizes", default="10k", help="memories of a store, by commas")
    parser.add_argument("--embedder", default="hash", help="use, hash or another one's name")
    names = ",".join(part for part, _ in PARTS)
    parser.add_argument("--parts", default=names, help="what to measure, by commas; full is always")
    parser.add_argument("--queries", type=int, default=40, help="how many queries are asked")
    parser.add_argument("--repeat", type=int, default=3, help="lives of a store")
    parser.add_argument("--out", type=Path, default=Path("build/refresh.parquet"))
    options = parser.parse_args(arguments)
    unknown = set(options.parts.split(",")) - {part for part, _ in PARTS}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {names}")
    return options


def _read_size(text: str) -> int:
    unit = _UNITS.get(text[-1:].lower(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def main(arguments: Sequence[str]) -> None:
    """Measure, store the samples, print the tables."""
    options = parse_arguments(arguments)
    console = Console(width=max(Console().width, WIDTH))
    rows = list(_measure_all(options, Console(stderr=True)))
    _write(rows, options.out)
    results = Results(rows, options.embedder)
    for table in tabulate_all(results):
        console.print(table)
    for fault in results.list_faults():
        console.print(f"void: {fault}", style="red", markup=False)
    versions = f"{describe_versions()}; embedder {options.embedder}"
    console.print(NOTE, f"{versions}; {len(rows)} samples in {options.out}", sep="\n")


def _write(rows: Sequence[Row], out: Path) -> None:
    flat = []
    for row in rows:
        sample = asdict(row.sample)
        sample["figures"] = json.dumps(sample["figures"])
        flat.append(asdict(row) | sample | {"index": json.dumps(row.index)})
        del flat[-1]["sample"]
    table = pa.Table.from_pylist(flat)
    versions = pa.repeat(pa.scalar(describe_versions()), table.num_rows)
    out.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(table.append_column("versions", versions), out)


def _measure_all(options: argparse.Namespace, progress: Console) -> Iterator[Row]:
    chosen = {FULL, *options.parts.split(",")}
    for size in map(_read_size, options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="memtend-bench-") as directory:
            seed, path = Path(directory) / "seed", Path(directory) / "store"
            with progress.status(f"seeding {size:,} memories"):
                counts = {FULL: seed_store(seed, size), QUERIES: options.queries}
            for repetition in range(options.repeat):
                shutil.copytree(seed, path)
                for place, (part, change) in enumerate(PARTS):
                    if part not in chosen:
                        continue
                    with progress.status(f"{part} {repetition + 1}, {size:,} memories"):
                        count = counts.get(part, 0)
                        if change is not None:
                            count = change_memories(open_store(path), change, place)
                        said = measure_apart(part, path, options.embedder, count)
                    for sample in said.pop("samples"):
                        yield Row(part, size, repetition, **said, sample=Sample(**sample))
                shutil.rmtree(path)


def seed_store(path: Path, rows: int) -> int:
    """Make a store of synthetic memories with their terms; give how many are active."""
    memories = make_memories(rows)
    store = create_store(path, clock=NOW)[0]
    with store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE).namespace_id
        insert_memories(writer, memories)
        texts = zip(*(memories[name].to_pylist() for name in ("id", "content")), strict=True)
        insert_terms(writer, term_rows(texts, owner))
        step_sequence(writer, owner)
    with store.read() as reader:
        return len(list_active(reader))


def measure_apart(part: str, path: Path, embedder: str, count: int) -> dict[str, Any]:
    """Measure one part in a process of its own.

    Raises:
        subprocess.CalledProcessError: It failed; its own words are on stderr.
    """
    command = [sys.executable, "-m", "benchmarks.refresh_measure", part, str(path), embedder]
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(  # noqa: S603 - our own module, arguments from our own tables
        [*command, str(count)],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    return said


if __name__ == "__main__":
    main(sys.argv[1:])
