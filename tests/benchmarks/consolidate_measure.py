"""Measure one phase of consolidation, or one peer of it, once, in a process of its own.

Run as `python -m benchmarks.consolidate_measure JOB IMPLEMENTATION DIRECTORY ROWS`: prints one JSON
object. Whole phases run on a copy of the store that they start from.
"""

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.consolidate_data import FRESH, GROWN, MERGED, PLANNED, run_here
from benchmarks.data import NOW, Seed
from benchmarks.measure import OURS, Measurement, time_work
from benchmarks.work import Implementation, Read, Work

from storage import Store, open_store
from storage.candidates import gather_candidates
from storage.duplicate_texts import index_missing_tokens
from storage.queries import read_statements
from storage.runs import Mode
from tasks.duplicate_texts import PROFILE, tokenise_text
from tasks.rules.normal_form import normal_form
from tasks.rules.tokens import find_tokens, split_runs

_SQL = read_statements("benchmarks", "consolidate")
_NAMESPACE = 1
# Naive pairs grow with the square of the memories.
MOST_FOR_NAIVE = 10_000
Pairs = Iterable[tuple[str, str]]


def _phase(start: str, mode: Mode, *, is_planned: bool = False) -> Implementation:
    """Make a phase of the whole job: it starts from one of the stores."""

    @contextmanager
    def get_ready(seed: Seed) -> Iterator[Work]:
        with tempfile.TemporaryDirectory(dir=seed.directory) as directory:
            path = Path(directory) / "store"
            shutil.copytree(seed.directory / start, path)
            os.sync()
            plan_id = _find_plan(path) if is_planned else None

            def run() -> Read:
                run_here(path, mode=mode, plan_id=plan_id)
                return lambda: _read(open_store(path), "read_merged")

            yield run

    return get_ready


def _find_plan(path: Path) -> str:
    with open_store(path).read() as reader:
        return str(reader.rows("SELECT plan_id FROM plans")[0][0])


def _read(store: Store, statement: str) -> list[tuple[Any, ...]]:
    with store.read() as reader:
        return reader.rows(_SQL[statement])


@contextmanager
def _tokenise(seed: Seed) -> Iterator[Work]:
    """Compute and store what is compared of all texts."""
    with tempfile.TemporaryDirectory(dir=seed.directory) as directory:
        path = Path(directory) / "store"
        shutil.copytree(seed.directory / FRESH, path)
        os.sync()

        def run() -> Read:
            index_missing_tokens(open_store(path), _NAMESPACE, tokenise_text, profile=PROFILE)
            return lambda: ()

        yield run


@contextmanager
def _twins(seed: Seed) -> Iterator[Work]:
    """Find the members of the namespace, and those with the fingerprint of an earlier one."""
    store = open_store(seed.directory / PLANNED)

    def run() -> Read:
        with store.read() as reader:
            gather_candidates(reader, _NAMESPACE, profile=PROFILE, now=NOW)
            found = reader.rows(_SQL["list_twins"])
        return lambda: found

    yield run


@contextmanager
def _twins_python(seed: Seed) -> Iterator[Work]:
    """Group rows in memory by their stored keys."""
    rows = _read(open_store(seed.directory / PLANNED), "read_keys")

    def run() -> Read:
        first: dict[int, tuple[int, str]] = {}
        for memory_id, key, created in rows:
            known = first.get(key)
            if known is None or (created, memory_id) < known:
                first[key] = created, memory_id
        found = [(first[key][1], name) for name, key, _ in rows if first[key][1] != name]
        return lambda: found

    yield run


@contextmanager
def _twins_sqlite(seed: Seed) -> Iterator[Work]:
    """Group with one statement over an index on the stored keys."""
    rows = _read(open_store(seed.directory / PLANNED), "read_keys")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(_SQL["sqlite_create"])
        connection.executemany(_SQL["sqlite_insert"], rows)
        connection.execute(_SQL["sqlite_index"])

        def run() -> Read:
            found = connection.execute(_SQL["sqlite_twins"]).fetchall()
            return lambda: found

        yield run


@contextmanager
def _near(seed: Seed) -> Iterator[Work]:
    """Find the pairs of representatives that pass the Jaccard test, from stored terms."""
    store = open_store(seed.directory / PLANNED)

    def run() -> Read:
        with store.read() as reader:
            candidates = gather_candidates(reader, _NAMESPACE, profile=PROFILE, now=NOW)
            near = candidates.find_near_pairs()
        older, later = (near.pairs[name].to_pylist() for name in ("memory_id", "partner_id"))
        return lambda: zip(older, later, strict=True)

    yield run


@contextmanager
def _near_naive(seed: Seed) -> Iterator[Work]:
    """Compare every text with every longer one that is not too long, as sets in memory."""
    texts: dict[tuple[str, str], str] = {}
    for memory_id, kind, content in _read(open_store(seed.directory / PLANNED), "read_texts"):
        texts.setdefault((kind, content), memory_id)
    order = {memory_id: place for place, memory_id in enumerate(texts.values())}

    def run() -> Read:
        sets = sorted(
            (
                (len(tokens), memory_id, kind, tokens)
                for (kind, content), memory_id in texts.items()
                if len(tokens := find_tokens(split_runs(normal_form(content)))) >= 5
            ),
            key=lambda one: one[:2],
        )
        found = list(_compare(sets))
        return lambda: (pair if order[pair[0]] < order[pair[1]] else pair[::-1] for pair in found)

    yield run


def _compare(sets: list[tuple[int, str, str, frozenset[str]]]) -> Pairs:
    for place, (size, memory_id, kind, tokens) in enumerate(sets):
        for other_size, other_id, other_kind, others in sets[place + 1 :]:
            if 43 * other_size > 50 * size:
                break
            shared = len(tokens & others)
            if 93 * shared >= 43 * (size + other_size) and kind == other_kind:
                yield memory_id, other_id


@contextmanager
def _near_minhash(seed: Seed) -> Iterator[Work]:
    """Ask an LSH index of MinHash signatures, and verify what it gives."""
    peer: Any = import_module("datasketch")
    rows = _read(open_store(seed.directory / PLANNED), "read_texts")

    def run() -> Read:
        index = peer.MinHashLSH(threshold=0.86, num_perm=128)
        seen: dict[str, frozenset[str]] = {}
        known: set[str] = set()
        found = []
        for memory_id, _, content in rows:
            tokens = find_tokens(split_runs(normal_form(content)))
            if content in known or len(tokens) < 5:
                continue
            known.add(content)
            signature = peer.MinHash(num_perm=128)
            signature.update_batch([token.encode() for token in tokens])
            for other in index.query(signature):
                shared = len(tokens & seen[other])
                if 93 * shared >= 43 * (len(tokens) + len(seen[other])):
                    found.append((other, memory_id))
            index.insert(memory_id, signature)
            seen[memory_id] = tokens
        return lambda: found

    yield run


# The first of each job is ours. Peers of whole phases would have to keep receipts and histories.
JOBS: dict[str, dict[str, Implementation]] = {
    "tokenise": {OURS: _tokenise},
    "plan, first": {OURS: _phase(FRESH, "plan")},
    "plan, stored terms": {OURS: _phase(PLANNED, "plan")},
    "apply": {OURS: _phase(PLANNED, "apply", is_planned=True)},
    "run, full": {OURS: _phase(FRESH, "apply")},
    "run, 1 % new": {OURS: _phase(GROWN, "apply")},
    "run, nothing new": {OURS: _phase(MERGED, "apply")},
    "exact groups": {OURS: _twins, "python loop": _twins_python, "sqlite": _twins_sqlite},
    "near pairs": {OURS: _near, "naive": _near_naive, "datasketch": _near_minhash},
}


def find_implementations(job: str, rows: int) -> list[str]:
    """Give the implementations of a job that can run here at this size."""
    left_out = {"naive"} if rows > MOST_FOR_NAIVE else set()
    left_out |= set() if find_spec("datasketch") else {"datasketch"}
    return [name for name in JOBS[job] if name not in left_out]


def main(arguments: list[str]) -> None:
    """Measure what the arguments name."""
    job, name, directory, rows = arguments
    seed = Seed(Path(directory), int(rows))
    measured: Measurement = time_work(job, name, seed, JOBS[job][name])
    sys.stdout.write(json.dumps(asdict(measured) | {"load_1m": os.getloadavg()[0]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
