"""Pairs of memories whose stored vectors are near; what becomes of them is decided elsewhere.

Neighbours come from the published index; the cosine of each pair is computed anew from the stored
values, since the distance that an index gives is not exact enough at a threshold.
Source: spec/consolidate.md R70, R71, R74.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage import Store
from storage.models import Namespace
from storage.namespaces import find_namespace
from storage.neighbours import Embedded, read_embedded
from storage.vectors import VectorStore
from tasks.rules.cosine import compare_vectors

SCHEMA = pa.schema(
    [
        ("memory_id", pa.string()),
        ("partner_id", pa.string()),
        ("cosine", pa.float64()),
        ("is_truncated", pa.bool_()),
    ]
)
_COLUMNS = ("memory_id", "content_digest", "vector")
_BATCH = 512
# An index is this inexact; whatever it may have taken for too far is looked at again.
_TOLERANCE = 1e-5
# Rows that no longer count may stand before neighbours: so many more are fetched.
_MOST_SPARE = 100

Obstacle = Literal["not_served", "not_indexed"]
_Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SemanticPairs:
    """The semantic pass of a namespace.

    Attributes:
        pairs: SCHEMA; each pair once, the older memory first, in order of the later one, then of
            the earlier. `is_truncated`: a vector of it stands for a part of its text only, so the
            pair supports no merge.
        obstacle: Why nothing was looked for: no verified publication of this store is served, or
            it is too large to be searched without an index.
        compared: Memories whose vector was searched with.
        unembeddable: Those without a vector, or with one that has no direction.
        stale: Those of which another content was embedded.
        truncated: Those of the compared ones whose vector stands for a part of the text.
    """

    pairs: pa.Table
    obstacle: Obstacle | None = None
    compared: int = 0
    unembeddable: int = 0
    stale: int = 0
    truncated: int = 0


def find_semantic_pairs(
    store: Store, namespace: Namespace, *, threshold: float, k: int = 10, now: datetime
) -> SemanticPairs:
    """Find the memories of a namespace whose vectors are at least this near.

    Args:
        store: The store; no lock may be held.
        namespace: The only namespace that is looked at.
        threshold: The smallest cosine, after rounding to six decimals.
        k: How many neighbours of each memory are looked at.
        now: The instant that expiry is judged at.

    Raises:
        IndexUnreadableError: The vectors cannot be read.
    """
    with store.read() as reader:
        owner = find_namespace(reader, namespace)
        served = None
        if owner is not None:
            served = read_embedded(reader, owner.namespace_id, store.path, now=now)
    vectors = VectorStore(store.path)
    if served is None or served.vector_table not in vectors.tables():
        return SemanticPairs(SCHEMA.empty_table(), "not_served")
    if vectors.lacks_index(served.vector_table):
        return SemanticPairs(SCHEMA.empty_table(), "not_indexed")
    return _Search(vectors, served, threshold=threshold, k=k).run()


class _Search:
    """One search of one publication; memories are known by their place in creation order."""

    def __init__(self, vectors: VectorStore, served: Embedded, *, threshold: float, k: int) -> None:
        self._vectors, self._served = vectors, served
        self._threshold, self._k = threshold, k
        is_current = pc.equal(served.members.column("state"), "current")
        current = served.members.filter(is_current)
        self._ids: list[str] = current.column("memory_id").to_pylist()
        self._digests: list[str] = current.column("content_digest").to_pylist()
        self._is_truncated = current.column("is_truncated").to_numpy()
        self._places = {memory_id: place for place, memory_id in enumerate(self._ids)}
        others = max(0, served.record_count - len(self._ids))
        self._limit = k + 1 + min(others, _MOST_SPARE)
        self._is_compared = np.zeros(len(self._ids), dtype=np.bool_)

    def run(self) -> SemanticPairs:
        """Search with every vector, and make each pair once."""
        found: dict[tuple[int, int], float] = {}
        for places, vectors in self._read_vectors():
            self._is_compared[places] = True
            for place, partner, cosine in self._find_near(places, vectors):
                found[max(place, partner), min(place, partner)] = cosine
        states = self._served.members.column("state")
        compared = int(self._is_compared.sum())
        stale = pc.sum(pc.equal(states, "stale")).as_py() or 0
        return SemanticPairs(
            pairs=self._make_table(found),
            compared=compared,
            unembeddable=len(states) - stale - compared,
            stale=stale,
            truncated=int(self._is_truncated[self._is_compared].sum()),
        )

    def _read_vectors(self) -> Iterator[tuple[npt.NDArray[np.int64], _Vectors]]:
        """Read the vectors that have a direction, of current texts, in batches."""
        table, publication_id = self._served.vector_table, self._served.publication_id
        for batch in self._vectors.read(table, publication_id, _COLUMNS):
            places = self._locate(batch)
            rows = _stack(batch.column("vector"))
            is_good = (places >= 0) & np.isfinite(rows).all(axis=1) & rows.any(axis=1)
            places, rows = places[is_good], rows[is_good]
            for start in range(0, len(places), _BATCH):
                yield places[start : start + _BATCH], rows[start : start + _BATCH]

    def _locate(self, rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.int64]:
        """Give the places of the memories that rows are about; -1 for rows that do not count."""
        names = (rows.column(name).to_pylist() for name in ("memory_id", "content_digest"))
        found = []
        for memory_id, digest in zip(*names, strict=True):
            place = self._places.get(memory_id, -1)
            found.append(place if place >= 0 and self._digests[place] == digest else -1)
        return np.array(found, dtype=np.int64)

    def _find_near(
        self, places: npt.NDArray[np.int64], vectors: _Vectors
    ) -> Iterator[tuple[int, int, float]]:
        """Find up to k partners of each vector that are near enough, best first."""
        rows = self._vectors.find_neighbours(
            self._served.vector_table,
            publication_id=self._served.publication_id,
            vectors=vectors,
            limit=self._limit,
            farthest=1 - self._threshold + _TOLERANCE,
        )
        if rows.num_rows == 0:
            return
        asked = rows.column("query_index").to_numpy()
        partners = self._locate(rows)
        cosines = compare_vectors(vectors[asked], _stack(rows.column("vector").combine_chunks()))
        own = places[asked]
        is_near = (partners >= 0) & (partners != own) & (cosines >= self._threshold)
        own, partners, cosines = own[is_near], partners[is_near], cosines[is_near]
        taken: dict[int, int] = {}
        for row in np.lexsort((partners, -cosines, own)).tolist():
            place = int(own[row])
            taken[place] = taken.get(place, 0) + 1
            if taken[place] <= self._k:
                yield place, int(partners[row]), float(cosines[row])

    def _make_table(self, found: dict[tuple[int, int], float]) -> pa.Table:
        rows = [
            {
                "memory_id": self._ids[earlier],
                "partner_id": self._ids[later],
                "cosine": cosine,
                "is_truncated": bool(self._is_truncated[earlier] or self._is_truncated[later]),
            }
            for (later, earlier), cosine in sorted(found.items())
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def _stack(column: pa.Array) -> _Vectors:
    """Give the vectors of a column as one matrix, [rows, dimension]."""
    rows: _Vectors = column.flatten().to_numpy().reshape(len(column), column.type.list_size)
    return rows
