"""Recall on a served index, against a bare search of the same Lance table and exact arithmetic.

A bare search is an open table, a vector, the cosine and the ten nearest ids: no store, no words, no
verification. What recall searches is compared with all vectors multiplied in numpy, and its whole
answer with the one that is fused from those. From the size on that the janitor builds an index at,
both are asked without it and with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from benchmarks.data import NOW
from benchmarks.refresh_runs import (
    Clock,
    CountingEmbedder,
    Sample,
    ServedRows,
    find_served,
    load_parts,
    quiet,
)
from benchmarks.searches import Query, choose_queries
from numpy.typing import NDArray

from storage import Store, open_store
from storage.models import DEFAULT_NAMESPACE
from storage.records import read_records
from storage.vectors import VectorStore
from tasks.fusion import fuse
from tasks.hits import Hit, RecallPolicy, make_hit, sort_hits
from tasks.providers.executor import embed_query
from tasks.providers.registry import find_traits
from tasks.recall import Recalled, SemanticSource, recall, recall_memories

if TYPE_CHECKING:
    from lancedb.table import Table

HYBRID, SESSION, BARE, WORDS = "hybrid", "hybrid, open session", "bare search", "by words only"
EMBEDDING, BUILD, RECALL, AGREEMENT = "embedding", "build", "recall@10", "answers as exact ones"
EXACT, INDEXED = "exact", "index"
_TURNS = 2
_LIMIT = 10
_POLICY = RecallPolicy()
# What two ways of adding up 32-bit products may differ by.
_ROUNDING = 1e-6
_LEAST_AGREEMENT = 0.99
Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query with its vector, and what recall said each time."""

    query: Query
    vector: Matrix
    answers: Sequence[Recalled]


def measure_queries(path: Path, name: str, count: int) -> Iterator[Sample]:
    """Ask some queries in turns; answers are checked when the clocks are done."""
    store, embedder = open_store(path), load_parts(name)
    embedder.warm()
    with store.read() as reader:
        served = find_served(reader)
    vectors, clock = VectorStore(path), Clock()
    ways = [EXACT, INDEXED] if vectors.lacks_index(served.vector_table) else [EXACT]
    queries = choose_queries()
    queries = queries[:: max(1, len(queries) // count)]
    said: dict[str, list[Asked]] = {}
    samples: list[Sample] = []
    found: dict[str, list[list[str]]] = {}
    candidates = 2 * find_traits(name).recall.candidate_limit
    for way in ways:
        if way == INDEXED:
            with clock.run():
                vectors.index_rows(served.vector_table)
            samples.append(Sample(f"{INDEXED}: {BUILD}", clock.wall_s, clock.cpu_s))
        table = _open_table(vectors.path, served.vector_table)
        with quiet():
            measured, said[way] = _ask_all(store, table, embedder, queries)
        samples += [replace(one, case=f"{way}: {one.case}") for one in measured]
        found[way] = [_search(vectors, served, one.vector, candidates) for one in said[way]]
    exact = _Exact.read(store, vectors, served)
    faults = {way: exact.find_fault(said[way], name) for way in ways}
    for sample in samples:
        yield replace(sample, fault=faults[sample.case.partition(":")[0]])
    for way in ways:
        share = exact.measure_recall(found[way], [one.vector for one in said[way]])
        yield Sample(f"{way}: {RECALL}", figures={"share": share})


def _open_table(path: Path, name: str) -> "Table":
    import lancedb  # noqa: PLC0415 - importing it takes seconds, and reports need none of it

    return lancedb.connect(path).open_table(name)


def _ask_all(
    store: Store, table: "Table", embedder: CountingEmbedder, queries: Sequence[Query]
) -> tuple[list[Sample], list[Asked]]:
    samples: list[Sample] = []
    asked: dict[str, Asked] = {}
    _ask(store, table, embedder, queries[0])
    for _ in range(_TURNS):
        for query in queries:
            measured, one = _ask(store, table, embedder, query)
            samples += measured
            before = asked[query.case].answers if query.case in asked else ()
            asked[query.case] = replace(one, answers=[*before, *one.answers])
    return samples, list(asked.values())


def _ask(
    store: Store, table: "Table", embedder: CountingEmbedder, query: Query
) -> tuple[list[Sample], Asked]:
    """Ask one query in every way; embedding it is taken out of what recall needs."""
    clock, samples, answers = Clock(), [], []
    source = SemanticSource(load=lambda: embedder)
    with clock.run():
        vector = embed_query(embedder, query.text)
    samples.append(Sample(EMBEDDING, clock.wall_s, clock.cpu_s))
    with clock.run():
        search: Any = table.search(vector.tolist(), vector_column_name="vector")
        search.distance_type("cosine").select(["memory_id", "_distance"]).limit(_LIMIT).to_list()
    samples.append(Sample(BARE, clock.wall_s, clock.cpu_s))
    with clock.run():
        _recall(store, query, None)
    samples.append(Sample(WORDS, clock.wall_s, clock.cpu_s))
    embedder.reset()
    with clock.run():
        answers.append(_recall(store, query, source))
    samples.append(Sample(HYBRID, clock.wall_s - embedder.wall_s, clock.cpu_s))
    with store.session():
        embedder.reset()
        with clock.run():
            answers.append(_recall(store, query, source))
        samples.append(Sample(SESSION, clock.wall_s - embedder.wall_s, clock.cpu_s))
    return samples, Asked(query, vector, answers)


def _recall(store: Store, query: Query, source: SemanticSource | None) -> Recalled:
    return recall_memories(
        store, DEFAULT_NAMESPACE, query.text, policy=_POLICY, now=NOW, source=source
    )


def _search(vectors: VectorStore, served: ServedRows, vector: Matrix, limit: int) -> list[str]:
    """Search as recall does, and give the ids of the ten nearest."""
    hits = vectors.search(
        served.vector_table,
        publication_id=served.publication_id,
        vector=vector.tolist(),
        limit=limit,
    )
    ranked = sorted(hits, key=lambda hit: (hit.distance, hit.record_id))
    return [hit.memory_id for hit in ranked[:_LIMIT]]


@dataclass(frozen=True, slots=True)
class _Exact:
    """All served vectors in memory, of length one."""

    store: Store
    served: ServedRows
    ids: Sequence[str]
    places: dict[str, int]
    matrix: Matrix

    @classmethod
    def read(cls, store: Store, vectors: VectorStore, served: ServedRows) -> "_Exact":
        columns = ("memory_id", "vector")
        rows = pa.Table.from_batches(
            vectors.read(served.vector_table, served.publication_id, columns)
        )
        ids = rows.column("memory_id").to_pylist()
        flat = rows.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        matrix = flat.reshape(len(ids), -1)
        matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return cls(store, served, ids, {name: n for n, name in enumerate(ids)}, matrix)

    def measure_recall(self, found: Sequence[Sequence[str]], vectors: Sequence[Matrix]) -> float:
        """Give the mean share of the ten nearest that were found; equal ones stand for another."""
        shares = []
        for ids, vector in zip(found, vectors, strict=True):
            scores = self.matrix @ vector
            least = np.partition(scores, -_LIMIT)[-_LIMIT] - _ROUNDING
            shares.append(sum(scores[self.places[one]] >= least for one in ids) / _LIMIT)
        return fmean(shares)

    def find_fault(self, asked: Sequence[Asked], name: str) -> str:
        """Say what is wrong with the answers of recall, if anything is."""
        shares = []
        for one in asked:
            if any(answer != one.answers[0] for answer in one.answers):
                return "a query was answered in two ways"
            if one.answers[0].semantic != "used":
                return f"the search by meaning was {one.answers[0].semantic}"
            expected = {hit.memory_id for hit in self._answer(one, name)}
            given = {hit.memory_id for hit in one.answers[0].hits}
            union = expected | given
            shares.append(len(expected & given) / len(union) if union else 1.0)
        agreement = fmean(shares)
        return "" if agreement >= _LEAST_AGREEMENT else f"{agreement:.3f} of the exact answers"

    def _answer(self, one: Asked, name: str) -> list[Hit]:
        """Answer a query by the exact list of what is near."""
        limit, min_score = find_traits(name).recall
        scores = self.matrix @ one.vector
        best = np.argsort(-scores, kind="stable")[:limit]
        near = {self.ids[n]: float(scores[n]) for n in best if scores[n] >= min_score}
        with self.store.read() as reader:
            words = recall(reader, DEFAULT_NAMESPACE, one.query.text, policy=_POLICY, now=NOW)
            records = read_records(reader, self.served.owner.namespace_id, near)
        live = [one for one in records.values() if not one.expires_at or one.expires_at > NOW]
        semantic = sort_hits(make_hit(one, near[one.id], "semantic") for one in live)
        return fuse(words, semantic)[: _POLICY.max_results]
