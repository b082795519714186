"""The only door to LanceDB: immutable vector rows, appended a publication at a time.

What is served is decided in DuckDB. Every call opens the table anew, because an open handle does
not see the commits of others; a call that has nothing to do makes no version. Source:
spec/refresh.md R18, R19, R24, R65-R68; PLATFORM L1-L32.
"""

import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.fresh import new_uuid
from storage.index_errors import IndexUnreadableError, RefreshError, StageFailedError

if TYPE_CHECKING:
    import lancedb
    from lancedb.table import Table

VECTOR_DIRECTORY = "vectors"
_UUID_FILE = "index.uuid"
# Exact search below this many rows, an index above it (PLATFORM L30).
EXACT_ROWS = 50_000
_BATCH_ROWS = 8_192
# What a process keeps of the index in memory, so that not every query reads it from disk.
_INDEX_CACHE_BYTES = 512 * 2**20
_METADATA_BYTES = 64 * 2**20
_SESSIONS: "dict[Path, tuple[str | None, lancedb.Session]]" = {}
# Parts of an index that a neighbour search looks at: near-equal vectors share theirs, and parts
# have a constant size, so that all searches of a table take time in proportion to its rows.
_PROBES = 4
_IDS_PER_DELETE = 500
_MOST_ROUNDS = 4
_INDEXED = frozenset({"publication_id", "vector"})
_NAMES = (
    "partition",
    "publication_id",
    "record_id",
    "memory_id",
    "memory_revision",
    "content_digest",
    "row_digest",
    "staged_at",
    "vector",
)


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A row that a search found, unverified; `distance` is the cosine distance."""

    partition: str
    record_id: str
    memory_id: str
    memory_revision: int
    content_digest: str
    distance: float


@dataclass(frozen=True, slots=True)
class TableFigures:
    """How large a Lance table has become."""

    name: str
    rows: int
    versions: int
    fragments: int
    file_count: int
    byte_count: int


def vector_schema(dimension: int) -> pa.Schema:
    """Give the schema of a vector table."""
    text = {name: pa.string() for name in _NAMES}
    types: dict[str, pa.DataType] = text | {
        "memory_revision": pa.int64(),
        "staged_at": pa.timestamp("us", tz="UTC"),
        "vector": pa.list_(pa.float32(), dimension),
    }
    return pa.schema([pa.field(name, types[name], nullable=False) for name in _NAMES])


class VectorStore:
    """The vector directory of a store."""

    def __init__(self, store_path: Path) -> None:
        """Remember where it is; nothing is opened."""
        self.path = store_path / VECTOR_DIRECTORY

    def read_uuid(self) -> str | None:
        """Read the uuid of the directory; None: there is none, or it was emptied."""
        try:
            return str(uuid.UUID((self.path / _UUID_FILE).read_text(encoding="ascii").strip()))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def ensure(self, table: str, dimension: int) -> str:
        """Make the directory, its uuid and a table, whatever is missing; give the uuid.

        The caller holds the store's write lock: two processes that create a table at once would
        disturb each other (PLATFORM X9).
        """
        self.path.mkdir(mode=0o700, exist_ok=True)
        found = self.read_uuid()
        if found is None:
            found = new_uuid()
            fresh = self.path / f"{_UUID_FILE}.new"
            fresh.write_text(found, encoding="ascii")
            fresh.chmod(0o600)
            fresh.replace(self.path / _UUID_FILE)
        with _translated(StageFailedError):
            self._remove_torn(table)
            if table not in self.tables():
                self._connect().create_table(table, schema=vector_schema(dimension))
        return found

    def _remove_torn(self, table: str) -> None:
        """Remove what a process left that died while it created a table: nothing was ever in it."""
        directory = self.path / f"{table}.lance"
        if directory.is_dir() and not any(directory.glob("_versions/*.manifest")):
            shutil.rmtree(directory)

    def tables(self) -> list[str]:
        """List the tables that are there."""
        return sorted(entry.stem for entry in self.path.glob("*.lance") if entry.is_dir())

    def add(self, table: str, rows: pa.RecordBatchReader | pa.Table) -> None:
        """Append the rows of a publication; one call, one commit."""
        with _translated(StageFailedError):
            self._open(table).add(rows)

    def count(self, table: str, publication_id: str) -> int:
        """Count the rows of a publication; a table that is gone has none."""
        if table not in self.tables():
            return 0
        with _translated(IndexUnreadableError):
            return int(self._open(table).count_rows(_of_publication(publication_id)))

    def read(
        self, table: str, publication_id: str, columns: Iterable[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows of a publication in batches, in no order; a table that is gone has none."""
        if table not in self.tables():
            return
        with _translated(IndexUnreadableError):
            query = self._open(table).search().where(_of_publication(publication_id))
            found = query.select(list(columns)).limit(None)
            yield from found.to_batches(_BATCH_ROWS)

    def search(
        self, table: str, *, publication_id: str, vector: list[float], limit: int
    ) -> list[VectorHit]:
        """Find the rows of a publication that are nearest by cosine, nearest first."""
        where = _of_publication(publication_id)
        wanted = ["partition", "record_id", "memory_id", "memory_revision", "content_digest"]
        with _translated(IndexUnreadableError):
            query: Any = self._open(table).search(vector, vector_column_name="vector")
            query = query.distance_type("cosine").where(where, prefilter=True)
            rows = query.select([*wanted, "_distance"]).limit(limit).to_list()
        return [
            VectorHit(**{name: row[name] for name in wanted}, distance=row["_distance"])
            for row in rows
        ]

    def find_neighbours(
        self,
        table: str,
        *,
        publication_id: str,
        vectors: npt.NDArray[np.float32],
        limit: int,
        farthest: float,
    ) -> pa.Table:
        """Find the rows of a publication that are nearest to each of several vectors, in one go.

        Returns:
            query_index, memory_id, content_digest, vector, _distance; up to `limit` rows a query
            that are nearer than the cosine distance `farthest`, in no order.
        """
        # One vector alone would be taken for no batch, and its rows would have no index.
        asked = np.repeat(vectors, 2, axis=0) if len(vectors) == 1 else vectors
        with _translated(IndexUnreadableError):
            query: Any = self._open(table).search(asked, vector_column_name="vector")
            query = query.distance_type("cosine").distance_range(upper_bound=farthest)
            query = query.where(_of_publication(publication_id), prefilter=True).nprobes(_PROBES)
            query = query.select(["memory_id", "content_digest", "vector", "_distance"])
            found = query.limit(limit).to_arrow()
        return found.filter(pc.less(found.column("query_index"), len(vectors)))

    def delete_publications(self, table: str, ids: list[str]) -> int:
        """Delete the rows of publications and count them; no commit where there are none."""
        if not ids or table not in self.tables():
            return 0
        with _translated(IndexUnreadableError):
            opened, deleted = self._open(table), 0
            for start in range(0, len(ids), _IDS_PER_DELETE):
                some = ids[start : start + _IDS_PER_DELETE]
                where = f"publication_id IN ({', '.join(repr(_hex_id(one)) for one in some)})"
                count = opened.count_rows(where)
                if count:
                    opened.delete(where)
                deleted += count
        return deleted

    def list_publications(self, table: str, *, before: datetime) -> dict[str, int]:
        """Count the rows of each publication that were staged at or before an instant."""
        found: Counter[str] = Counter()
        with _translated(IndexUnreadableError):
            query = self._open(table).search().select(["publication_id", "staged_at"]).limit(None)
            for batch in query.to_batches(_BATCH_ROWS):
                old = batch.filter(pc.less_equal(batch.column("staged_at"), before))
                for row in old.column("publication_id").value_counts().to_pylist():
                    found[row["values"]] += row["counts"]
        return dict(found)

    def optimize(self, table: str, *, grace: timedelta) -> None:
        """Compact a table and drop the versions that are older than the grace.

        Until nothing is left to do: what takes rows into an index leaves them in a fragment of
        their own. With nothing to compact it makes no version.
        """
        with _translated(IndexUnreadableError):
            for _ in range(_MOST_ROUNDS):
                opened = self._open(table)
                opened.optimize(cleanup_older_than=grace)
                if self._open(table).version == opened.version:
                    return

    def count_old_versions(self, table: str, *, grace: timedelta) -> int:
        """Count the versions that are older than the newest by more than the grace."""
        with _translated(IndexUnreadableError):
            written = [version["timestamp"] for version in self._open(table).list_versions()]
        return sum(at < max(written) - grace for at in written)

    def lacks_index(self, table: str) -> bool:
        """Tell whether exact search has become slow and no index serves it."""
        with _translated(IndexUnreadableError):
            opened = self._open(table)
            indexed = {name for one in opened.list_indices() for name in one.columns}
            return opened.count_rows() >= EXACT_ROWS and not indexed >= _INDEXED

    def index_rows(self, table: str) -> None:
        """Build the indexes that search uses; rows that are added later are searched without."""
        from lancedb.index import Bitmap, IvfFlat  # noqa: PLC0415 - as below

        with _translated(IndexUnreadableError):
            opened = self._open(table)
            opened.create_index("publication_id", config=Bitmap(), replace=True)
            opened.create_index("vector", config=IvfFlat(distance_type="cosine"), replace=True)

    def drop_table(self, table: str) -> None:
        """Remove a table with all its rows."""
        with _translated(IndexUnreadableError):
            self._connect().drop_table(table)

    def figures(self, table: str) -> TableFigures:
        """Measure a table."""
        with _translated(IndexUnreadableError):
            opened = self._open(table)
            stats: Any = opened.stats()
            fragments = int(stats["fragment_stats"]["num_fragments"])
            versions = len(opened.list_versions())
            rows = opened.count_rows()
        files = [file for file in (self.path / f"{table}.lance").rglob("*") if file.is_file()]
        byte_count = sum(file.stat().st_size for file in files)
        return TableFigures(table, rows, versions, fragments, len(files), byte_count)

    def _connect(self) -> "lancedb.DBConnection":
        import lancedb  # noqa: PLC0415 - importing it takes seconds (PLATFORM L2)

        return lancedb.connect(self.path, session=_share_session(self.path, self.read_uuid()))

    def _open(self, table: str) -> "Table":
        return self._connect().open_table(table)


class NoVectors(VectorStore):
    """The same directory taken for empty: its tables are about to be made anew."""

    def tables(self) -> list[str]:
        """List no table."""
        return []


def _share_session(path: Path, index_uuid: str | None) -> "lancedb.Session":
    """Share one cache of the index per directory; a directory that was made anew gets a new one."""
    import lancedb  # noqa: PLC0415 - as above

    known_uuid, session = _SESSIONS.get(path, (None, None))
    if session is None or known_uuid != index_uuid:
        session = lancedb.Session(
            index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=_METADATA_BYTES
        )
        _SESSIONS[path] = (index_uuid, session)
    return session


def _of_publication(publication_id: str) -> str:
    return f"publication_id = '{_hex_id(publication_id)}'"


def _hex_id(publication_id: str) -> str:
    """Let only our own ids into a filter, which is text for Lance."""
    if not publication_id.removeprefix("pub_").isalnum():
        raise IndexUnreadableError
    return publication_id


@contextmanager
def _translated(error_type: type[RefreshError]) -> Iterator[None]:
    """Turn Lance's bare errors into ours: their texts carry paths and values."""
    try:
        yield
    except RefreshError:
        raise
    except (RuntimeError, ValueError, OSError, KeyError, pa.ArrowException) as error:
        raise error_type(cause=type(error).__name__) from None
