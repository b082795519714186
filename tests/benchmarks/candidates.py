"""Measure how the search for consolidation's candidates grows with the number of memories.

    python -m tests.benchmarks.candidates --sizes 10k,100k

Each size gets a store of its own in a temporary directory: Zipf texts of 5 to 25 words, of every 20
a copy, one with one word more, one with one replaced and one in another order. Tokenising is done
once for each text; what a run pays every time are the three steps after it. Nothing is asserted on
times; read how they grow.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path[:0] = [str(Path(__file__).resolve().parents[depth]) for depth in (2, 1)]

from helpers.duplicates import add_memories, make_texts  # noqa: E402 - found through these paths
from helpers.rows import NOW  # noqa: E402

from storage import create_store  # noqa: E402
from storage.candidates import gather_candidates  # noqa: E402
from storage.duplicate_texts import index_missing_tokens  # noqa: E402
from tasks.duplicate_texts import PROFILE, tokenise_text  # noqa: E402

_NAMESPACE = 1
_BATCH = 20_000

Step = tuple[str, float, float, int]  # name, wall seconds, CPU seconds, rows


class Stopwatch:
    """Runs from its creation on."""

    def __init__(self) -> None:
        """Start."""
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self, name: str, rows: int) -> Step:
        """Give a step with the time since the start; called with what the step found."""
        return name, time.perf_counter() - self._wall, time.process_time() - self._cpu, rows


def read_size(text: str) -> int:
    """Read a number of memories, such as 10k."""
    return int(text.removesuffix("k")) * (1_000 if text.endswith("k") else 1)


def measure(directory: Path, memories: int) -> Iterator[Step]:
    """Fill a store and yield what each step took and found."""
    store = create_store(directory, clock=NOW)[0]
    texts = enumerate(make_texts(random.Random(memories), memories))  # noqa: S311 - made-up data
    rows = [
        {"id": f"m{number}", "content": text, "created_at": NOW - timedelta(seconds=number)}
        for number, text in texts
    ]
    with store.session():
        for start in range(0, memories, _BATCH):
            with store.write() as writer:
                add_memories(writer, _NAMESPACE, rows[start : start + _BATCH])
        clock = Stopwatch()
        count = index_missing_tokens(store, _NAMESPACE, tokenise_text, profile=PROFILE)
        yield clock.stop("tokenise", count)
        with store.read() as reader:
            clock = Stopwatch()
            found = gather_candidates(reader, _NAMESPACE, profile=PROFILE, now=NOW)
            yield clock.stop("gather", memories)
            clock = Stopwatch()
            yield clock.stop("near pairs", found.find_near_pairs().pairs.num_rows)
            clock = Stopwatch()
            yield clock.stop("all pairs", found.find_pairs().pairs.num_rows)


def main(arguments: Sequence[str]) -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description="Measure the search for candidates.")
    parser.add_argument("--sizes", default="10k,100k", help="memories of a store, by commas")
    options = parser.parse_args(arguments)
    table = Table("memories", "step", "wall s", "CPU s", "rows")
    for memories in map(read_size, options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as directory:
            for name, wall_s, cpu_s, rows in measure(Path(directory) / "store", memories):
                table.add_row(f"{memories:,}", name, f"{wall_s:.2f}", f"{cpu_s:.2f}", f"{rows:,}")
    Console().print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
