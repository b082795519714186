"""The served vectors of current texts: read from the published index, or asked of it.

Rows of other texts, and vectors without a direction, never count. Source: spec/consolidate.md R70.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.neighbours import Embedded
from storage.vectors import VectorStore
from tasks.near_vectors import Vectors
from tasks.rules.cosine import compare_vectors
from tasks.rules.near_lists import Pairs, Places

_COLUMNS = ("memory_id", "content_digest", "vector")
_BATCH = 512
# An index is this inexact; whatever it may have taken for too far is looked at again.
_TOLERANCE = 1e-5
# Rows that no longer count may stand before neighbours: so many more are fetched.
_MOST_SPARE = 100


class ServedVectors:
    """The vectors of one publication; texts are known by their place in a table of current ones."""

    def __init__(self, vectors: VectorStore, served: Embedded, current: pa.Table) -> None:
        """Take the current texts: memory_id, content_digest."""
        self._vectors, self._served = vectors, served
        self._ids = current.column("memory_id").combine_chunks()
        self._digests = current.column("content_digest").combine_chunks()

    def lacks_index(self) -> bool:
        """Tell whether asking for partners has become slow and no index serves it."""
        return self._vectors.lacks_index(self._served.vector_table)

    def read(self, wanted: Places) -> tuple[Places, Vectors]:
        """Read those of the wanted vectors that have a direction, with their places."""
        table, publication_id = self._served.vector_table, self._served.publication_id
        # The last one stands for the place -1.
        is_wanted = np.zeros(len(self._ids) + 1, np.bool_)
        is_wanted[wanted] = True
        found = [(np.empty(0, np.int64), np.empty((0, 0), np.float32))]
        for batch in self._vectors.read(table, publication_id, _COLUMNS):
            rows = pa.Table.from_batches([batch])
            places, vectors = self._locate(rows), _stack(rows)
            is_good = is_wanted[places] & np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
            found.append((places[is_good], vectors[is_good]))
        parts = [part for part in found if len(part[0]) > 0] or found[:1]
        places, vectors = (np.concatenate(column) for column in zip(*parts, strict=True))
        return places, vectors

    def ask_index(
        self, places: Places, vectors: Vectors, threshold: float, *, limit: int
    ) -> Iterator[Pairs]:
        """Ask for up to so many of the nearest partners of each of these texts."""
        others = max(0, self._served.record_count - len(self._ids))
        for start in range(0, len(places), _BATCH):
            asked = vectors[start : start + _BATCH]
            rows = self._vectors.find_neighbours(
                self._served.vector_table,
                publication_id=self._served.publication_id,
                vectors=asked,
                limit=limit + 1 + min(others, _MOST_SPARE),
                farthest=1 - threshold + _TOLERANCE,
            )
            if rows.num_rows == 0:
                continue
            queries = rows.column("query_index").to_numpy()
            own, partners = places[start + queries], self._locate(rows)
            cosines = compare_vectors(asked[queries], _stack(rows))
            is_near = (partners >= 0) & (partners != own) & (cosines >= threshold)
            yield Pairs(own, partners, cosines).pick(is_near)

    def _locate(self, rows: pa.Table) -> Places:
        """Give the places of the texts that rows are about; -1 for rows that do not count."""
        places = pc.index_in(rows.column("memory_id"), value_set=self._ids).combine_chunks()
        is_same = pc.equal(self._digests.take(places), rows.column("content_digest"))
        is_current = pc.fill_null(is_same, fill_value=False).to_numpy()
        return np.where(is_current, places.fill_null(-1).to_numpy(), -1).astype(np.int64)


def _stack(rows: pa.Table) -> Vectors:
    """Give the vectors of rows as one matrix, [rows, dimension]."""
    column = rows.column("vector").combine_chunks()
    vectors: Vectors = column.flatten().to_numpy().reshape(len(column), column.type.list_size)
    return vectors
