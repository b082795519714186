"""Vectors of erased memories leave the files: each table is rewritten in place without them.

A delete leaves the bytes, and its predicate, on disk; so the rows that stay are streamed into a new
version of the table, every older version and every file that none refers to goes, and the indexes
are built anew. Killed at any point, a table is the old one or the new one; doing it again is
harmless. The caller holds the lease that keeps every other writer of vectors out.
Source: spec/refresh.md R69; PLATFORM D53, D54, L13.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from storage.erasure_keys import Keyer
from storage.index_errors import IndexUnreadableError
from storage.vectors import VectorStore

if TYPE_CHECKING:
    from lancedb.table import Table

_BATCH_ROWS = 8_192
_NEEDED = {"partition", "memory_id", "vector"}

# What a partition's ids are fingerprinted with, and which fingerprints were erased.
Marked = tuple[Keyer, frozenset[str]]


@dataclass(slots=True)
class Rewritten:
    """What became of the vector tables.

    Attributes:
        tables: How many were rewritten.
        rows: How many rows of erased memories they had, in their last version.
        foreign: Tables of another shape, which are not ours; they are left alone.
        vectors: Vectors that were taken out, as bytes, unless a row that stays has the same.
    """

    tables: int = 0
    rows: int = 0
    foreign: int = 0
    vectors: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class VectorEraser:
    """The vector directory of a store, and what has to leave it.

    `owners` tells by partition what is erased there; rows of partitions that nobody knows any more
    are compared with all of it.
    """

    store_path: Path
    owners: Mapping[str, Marked]
    others: tuple[Marked, ...] = ()

    def rewrite(self, *, on_table: Callable[[str], None], most_vectors: int) -> Rewritten:
        """Rewrite every table without the erased rows.

        Args:
            on_table: Told of each table before its rewrite: to prolong the lease.
            most_vectors: How many vectors to remember, to look for them later.

        Raises:
            IndexUnreadableError: A table cannot be read or written.
        """
        done = Rewritten()
        store = VectorStore(self.store_path)
        for name in store.tables():
            on_table(name)
            with _translated():
                table = self._open(name)
                if not set(table.schema.names) >= _NEEDED:
                    done.foreign += 1
                    continue
                self._rewrite(table, done, most_vectors)
                _clean(self._open(name))
            if store.lacks_index(name):
                store.index_rows(name)
        return done

    def count(self) -> int:
        """Count the rows of erased memories that the tables have."""
        found = 0
        for name in VectorStore(self.store_path).tables():
            with _translated():
                table = self._open(name)
                if set(table.schema.names) >= _NEEDED:
                    for batch in _read(table, ["partition", "memory_id"]):
                        found += pc.sum(self._match(batch)).as_py() or 0
        return found

    def list_ids(self, partitions: frozenset[str]) -> set[str]:
        """List the ids that have rows in some partitions, whatever publication they belong to."""
        names: set[str] = set()
        for name in VectorStore(self.store_path).tables():
            with _translated():
                table = self._open(name)
                if not set(table.schema.names) >= _NEEDED:
                    continue
                for batch in _read(table, ["partition", "memory_id"]):
                    for partition, memory_id in _pairs(batch):
                        if partition in partitions:
                            names.add(memory_id)
        return names

    def _rewrite(self, table: "Table", done: Rewritten, most_vectors: int) -> None:
        schema = table.schema
        kept_vectors: set[bytes] = set()
        taken = [
            vector
            for batch in _read(table, sorted(_NEEDED))
            for vector in _list_vectors(batch.filter(self._match(batch)))
        ]
        done.rows += len(taken)
        done.vectors |= set(taken[: max(0, most_vectors - len(done.vectors))])

        def stay() -> Iterator[pa.RecordBatch]:
            for batch in _read(table, schema.names):
                kept = batch.filter(pc.invert(self._match(batch)))
                if done.vectors:
                    kept_vectors.update(done.vectors.intersection(_list_vectors(kept)))
                if kept.num_rows:
                    yield kept.select(schema.names).cast(schema)

        reader = pa.RecordBatchReader.from_batches(schema, stay())
        self._connect().create_table(table.name, data=reader, mode="overwrite")
        done.vectors -= kept_vectors
        done.tables += 1

    def _match(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pa.array([self._is_erased(*pair) for pair in _pairs(batch)], pa.bool_())

    def _is_erased(self, partition: str, memory_id: str) -> bool:
        mine = self.owners.get(partition)
        asked = self.others if mine is None else (mine,)
        return any(marks and keyer.sign_id(memory_id) in marks for keyer, marks in asked)

    def _connect(self) -> Any:  # noqa: ANN401 - lancedb is imported where it is needed
        import lancedb  # noqa: PLC0415 - importing it takes seconds (PLATFORM L2)

        return lancedb.connect(VectorStore(self.store_path).path)

    def _open(self, name: str) -> "Table":
        table: Table = self._connect().open_table(name)
        return table


def _read(table: "Table", columns: list[str]) -> Iterator[pa.RecordBatch]:
    yield from table.search().select(columns).limit(None).to_batches(_BATCH_ROWS)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[str, str]]:
    columns = (batch.column(name).to_pylist() for name in ("partition", "memory_id"))
    return zip(*columns, strict=True)


def _list_vectors(batch: pa.RecordBatch) -> Iterator[bytes]:
    column = batch.column("vector")
    width = column.type.list_size * 4
    data = column.flatten().to_numpy(zero_copy_only=False).astype("<f4").tobytes()
    for start in range(0, len(data), width):
        yield data[start : start + width]


def _clean(table: "Table") -> None:
    """Remove every version but the newest, and every file that it does not refer to."""
    with warnings.catch_warnings():
        # It warns that readers of older versions will fail; that is what is wanted here (D54).
        warnings.simplefilter("ignore", UserWarning)
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)


@contextmanager
def _translated() -> Iterator[None]:
    """Turn Lance's bare errors into ours: their texts carry paths and values."""
    try:
        yield
    except (RuntimeError, ValueError, OSError, KeyError, pa.ArrowException) as error:
        raise IndexUnreadableError(cause=type(error).__name__) from None
