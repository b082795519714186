"""Measure one phase of consolidation, or one peer of it, once, in a process of its own.

Run as `python -m benchmarks.consolidate_measure JOB IMPLEMENTATION DIRECTORY ROWS`: prints one JSON
object. Whole phases run on a copy of the store that they start from.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import consolidate_peers as peers
from benchmarks.consolidate_data import FRESH, GROWN, KEYS, MERGED, PLANNED, run_here
from benchmarks.data import NOW, Seed
from benchmarks.measure import OURS, Measurement, time_work
from benchmarks.work import Implementation, Read, Work

from storage import Store, open_store
from storage.candidates import gather_candidates
from storage.duplicate_texts import index_missing_tokens
from storage.queries import read_statements
from storage.runs import Mode
from tasks.duplicate_texts import PROFILE, tokenise_text

_SQL = read_statements("benchmarks", "consolidate")
_NAMESPACE = 1
# The work of a peer grows with the square of the memories, or is known to be too much.
MOST_ROWS = {"naive": 10_000, "datasketch": 100_000}
STORED, TOKENISING = "ours, stored keys", "ours, tokenising"


@dataclass(frozen=True, slots=True)
class Job:
    """A job, what it starts from, and who does it; the first is ours."""

    start: str
    implementations: Mapping[str, Implementation]


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


def _read(
    store: Store, statement: str, params: Mapping[str, object] | None = None
) -> list[tuple[Any, ...]]:
    with store.read() as reader:
        return reader.rows(_SQL[statement], params)


@contextmanager
def _copy_fresh(seed: Seed) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(dir=seed.directory) as directory:
        path = Path(directory) / "store"
        shutil.copytree(seed.directory / FRESH, path)
        os.sync()
        yield open_store(path)


@contextmanager
def _tokenise(seed: Seed) -> Iterator[Work]:
    """Compute and store what is compared of all texts."""
    with _copy_fresh(seed) as store:

        def run() -> Read:
            index_missing_tokens(store, _NAMESPACE, tokenise_text, profile=PROFILE)
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
def _twins_stored(seed: Seed) -> Iterator[Work]:
    """Find them by one statement over stored rows; what else members have is left out."""
    store = open_store(seed.directory / PLANNED)
    params = {"namespace_id": _NAMESPACE, "profile": PROFILE, "now": NOW}

    def run() -> Read:
        found = _read(store, "list_stored_twins", params)
        return lambda: found

    yield run


@contextmanager
def _near(seed: Seed) -> Iterator[Work]:
    """Find the pairs of representatives that pass the Jaccard test, from stored terms."""
    store = open_store(seed.directory / PLANNED)
    yield lambda: _find_near(store)


@contextmanager
def _near_tokenising(seed: Seed) -> Iterator[Work]:
    """Do so for memories whose terms are not stored yet: tokenise and store them first."""
    with _copy_fresh(seed) as store:

        def run() -> Read:
            index_missing_tokens(store, _NAMESPACE, tokenise_text, profile=PROFILE)
            return _find_near(store)

        yield run


def _find_near(store: Store) -> Read:
    with store.read() as reader:
        candidates = gather_candidates(reader, _NAMESPACE, profile=PROFILE, now=NOW)
        near = candidates.find_near_pairs()
    older, later = (near.pairs[name].to_pylist() for name in ("memory_id", "partner_id"))
    return lambda: zip(older, later, strict=True)


# Peers of whole phases would have to keep receipts and histories.
JOBS: dict[str, Job] = {
    "exact groups": Job(
        KEYS,
        {
            OURS: _twins,
            STORED: _twins_stored,
            "python loop": peers.twins_python,
            "sqlite": peers.twins_sqlite,
        },
    ),
    "near pairs": Job(
        PLANNED,
        {
            OURS: _near,
            TOKENISING: _near_tokenising,
            "naive": peers.near_naive,
            "datasketch": peers.near_datasketch,
            "rensa": peers.near_rensa,
        },
    ),
    "tokenise": Job(FRESH, {OURS: _tokenise}),
    "run, full": Job(FRESH, {OURS: _phase(FRESH, "apply")}),
    "run, 1 % new": Job(GROWN, {OURS: _phase(GROWN, "apply")}),
    "run, nothing new": Job(MERGED, {OURS: _phase(MERGED, "apply")}),
    "plan, first": Job(FRESH, {OURS: _phase(FRESH, "plan")}),
    "plan, stored terms": Job(PLANNED, {OURS: _phase(PLANNED, "plan")}),
    "apply": Job(PLANNED, {OURS: _phase(PLANNED, "apply", is_planned=True)}),
}


def find_implementations(job: str, rows: int) -> list[str]:
    """Give the implementations of a job that can run here at this size."""
    absent = {name for name in ("datasketch", "rensa") if find_spec(name) is None}
    names = JOBS[job].implementations
    return [name for name in names if name not in absent and rows <= MOST_ROWS.get(name, rows)]


def main(arguments: list[str]) -> None:
    """Measure what the arguments name."""
    job, name, directory, rows = arguments
    seed = Seed(Path(directory), int(rows))
    measured: Measurement = time_work(job, name, seed, JOBS[job].implementations[name])
    sys.stdout.write(json.dumps(asdict(measured) | {"load_1m": os.getloadavg()[0]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
