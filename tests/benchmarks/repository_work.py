"""The work that the benchmark of the repository measures, each part in a process of its own.

Run as `python -m benchmarks.repository_work PART DIRECTORY COUNT`: prints one JSON object. Getting
ready, reading back and hashing are outside the clocks. `digest` stands for the answer: of a query
its hits in their order, of adds and admissions what the store holds afterwards.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.data import NOW, make_memories
from benchmarks.measure import digest_pairs, read_peak_rss
from benchmarks.searches import LIMIT, Answer, Query, choose_queries, digest_hits, find_in_texts

from storage import Store, create_store, open_store
from storage.admission import Candidate, admit_records
from storage.digests import digest_values
from storage.instants import format_instant
from storage.models import DEFAULT_NAMESPACE, MemoryRecord
from storage.namespaces import ensure_namespace, find_namespace
from storage.queries import read_statements
from storage.query import query_memories
from storage.repository import apply_change_set

OURS, OPENING, SCAN, FSYNC = "ours", "ours, opening", "re-tokenising", "append + fsync"
# What the answers of the others are compared with; it has no time.
EXPECTED = "expected"
_SQL = read_statements("benchmarks", "repository")
_BATCH_ROWS = 100_000
# Each query is asked so often in a process of ours; reading every text takes too long for that.
_TURNS = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured call, or an answer only; `matching` counts the memories that a query touches."""

    implementation: str
    case: str
    digest: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    items: int = 1
    matching: int = 0


@dataclass(slots=True)
class _Clock:
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @contextmanager
    def run(self) -> Iterator[None]:
        started = time.perf_counter(), time.process_time()
        yield
        self.wall_s = time.perf_counter() - started[0]
        self.cpu_s = time.process_time() - started[1]

    def sample(self, implementation: str, case: str, digest: str, *, items: int = 1) -> Sample:
        return Sample(implementation, case, digest, self.wall_s, self.cpu_s, items)


def measure_adds(directory: Path, count: int) -> Iterator[Sample]:
    """Add memories one by one in a session, and append as much to a file in turns with them."""
    rows = make_memories(count).select(["id", "content", "importance"]).to_pylist()
    sets = [_make_set(row) for row in rows]
    store, clock = create_store(directory / "adds", clock=NOW)[0], _Clock()
    samples = []
    with store.session(), (directory / "appended").open("ab", buffering=0) as file:
        for values in sets:
            text = json.dumps(values).encode()
            with clock.run():
                file.write(text)
                os.fsync(file.fileno())
            samples.append(clock.sample(FSYNC, "", ""))
            with clock.run():
                apply_change_set(store, values)
            samples.append(clock.sample(OURS, "", ""))
    digest = _digest_stored(store)
    yield Sample(EXPECTED, "", _digest_given(rows))
    for one in samples:
        yield replace(one, digest=digest)


def _make_set(row: dict[str, Any]) -> dict[str, Any]:
    now = format_instant(NOW)
    proof = {"uri": f"e://{row['id']}", "digest": "d", "kind": "manual", "occurred_at": now}
    memory = {"kind": "semantic", "status": "active", "created_at": now, "evidence": [proof], **row}
    return {
        "idempotency_key": row["id"],
        "namespace": DEFAULT_NAMESPACE.model_dump(),
        "occurred_at": now,
        "operations": [{"op": "create", "memory": memory}],
    }


def measure_admission(directory: Path, count: int) -> Iterator[Sample]:
    """Admit validated records in large batches, a transaction each; the store stays for queries."""
    rows = make_memories(count).select(["id", "content", "importance", "kind", "created_at"])
    store, clock = create_store(directory / "store", clock=NOW)[0], _Clock()
    samples = []
    for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
        candidates = [_make_candidate(row) for row in batch.to_pylist()]
        with _quiet(), clock.run(), store.write() as writer:
            owner = ensure_namespace(writer, DEFAULT_NAMESPACE).namespace_id
            admit_records(writer, owner, candidates, clock=NOW)
        samples.append(clock.sample(OURS, "", "", items=len(candidates)))
    digest = _digest_stored(store)
    yield Sample(EXPECTED, "", _digest_given(rows.to_pylist()))
    for one in samples:
        yield replace(one, digest=digest)


@contextmanager
def _quiet() -> Iterator[None]:
    """What got ready is no garbage: nothing should look through it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _make_candidate(row: Mapping[str, Any]) -> Candidate:
    return Candidate(row["id"], MemoryRecord.model_validate(row), digest_values(row["id"]))


def _digest_given(rows: list[dict[str, Any]]) -> str:
    return str(digest_pairs((row["id"], row["content"]) for row in rows))


def _digest_stored(store: Store) -> str:
    with store.read() as reader:
        return str(digest_pairs(reader.rows(_SQL["read_stored"])))


def measure_queries(directory: Path, _count: int) -> Iterator[Sample]:
    """Ask every query a few times, in a session and opening the store each time."""
    store, queries = open_store(directory / "store"), choose_queries()
    with store.session():
        _ask(store, queries[0])
        for _ in range(_TURNS):
            yield from (_measure_query(OURS, store, query) for query in queries)
    yield from (_measure_query(OPENING, store, query) for query in queries)


def _measure_query(name: str, store: Store, query: Query) -> Sample:
    clock = _Clock()
    with clock.run():
        hits = _ask(store, query)
    return clock.sample(name, query.case, digest_hits(hits))


def _ask(store: Store, query: Query) -> list[tuple[str, float]]:
    asked = {"namespace": DEFAULT_NAMESPACE, "text": query.text, "limit": LIMIT, "live_at": NOW}
    with store.read() as reader:
        return [(hit.memory_id, hit.score) for hit in query_memories(reader, asked)]


def measure_scans(directory: Path, _count: int) -> Iterator[Sample]:
    """Answer queries by tokenising every memory: all in one pass unmeasured, some one by one."""
    store, queries, clock = open_store(directory / "store"), choose_queries(), _Clock()
    with store.session():
        for query, answer in zip(queries, _scan(store, queries), strict=True):
            digest = digest_hits(answer.hits)
            yield Sample(EXPECTED, query.case, digest, matching=answer.matching)
        for query in queries:
            if query.is_scanned:
                with clock.run():
                    (answer,) = _scan(store, [query])
                yield clock.sample(SCAN, query.case, digest_hits(answer.hits))


def _scan(store: Store, queries: list[Query]) -> list[Answer]:
    with store.read() as reader:
        owner = find_namespace(reader, DEFAULT_NAMESPACE)
        params = {"namespace_id": owner.namespace_id if owner else 0, "live_at": NOW}
        return find_in_texts(reader.table(_SQL["read_texts"], params), queries)


PARTS: dict[str, Callable[[Path, int], Iterator[Sample]]] = {
    "add": measure_adds,
    "admission": measure_admission,
    "query": measure_queries,
    "scan": measure_scans,
}


def main(arguments: list[str]) -> None:
    """Measure what the arguments name."""
    part, directory, count = arguments
    samples = [asdict(sample) for sample in PARTS[part](Path(directory), int(count))]
    process = {"peak_rss_bytes": read_peak_rss(), "load_1m": os.getloadavg()[0]}
    sys.stdout.write(json.dumps({"samples": samples, **process}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
