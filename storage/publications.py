"""Publications: immutable record sets on their way from staging to collection.

Every step is one transaction of the store; vectors are written and read outside of them. Source:
spec/refresh.md R9, R24-R34, R54, R65-R67; DESIGN 10.21.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from storage.gateway import StoreReader, StoreWriter
from storage.identities import CasScope, RecordProfile
from storage.index_errors import PublicationLostError, SourceChangedError
from storage.leases import Lease
from storage.partitions import Partition, Served, empty_pointer, fence_source, move_pointer
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "publications")

# What a publication holds of each memory.
ROW_SCHEMA = pa.schema(
    [("memory_id", pa.string()), ("revision", pa.int64()), ("content_digest", pa.string())]
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the active memories; disjoint: they add up to `active`."""

    active: int = 0
    published: int = 0
    failed: int = 0
    permanent: int = 0
    quarantined: int = 0
    deferred: int = 0

    @property
    def unpublished(self) -> int:
        """How many rows failed for now, for good, or killed a process."""
        return self.failed + self.permanent + self.quarantined

    @property
    def coverage(self) -> float:
        """The published share of the active memories, to 6 places; 1.0 without any."""
        return round(self.published / self.active, 6) if self.active else 1.0


@dataclass(frozen=True, slots=True)
class Publication:
    """One publication, as it is staged; `base_revision` is what its flip expects."""

    publication_id: str
    partition: str
    namespace_id: int
    run_id: str
    vector_table: str
    record_profile: RecordProfile
    lease_fence: int
    base_revision: int
    index_history: str
    store_history: str
    snapshot_digest: str
    snapshot_bytes: int
    source_token: int | None
    counts: Counts
    record_count: int
    byte_count: int
    set_digest: str
    staged_at: datetime
    phase: str = "staging"
    revision: int | None = None

    @property
    def served(self) -> Served:
        """What the pointer says once this is flipped."""
        return Served(self.publication_id, "published", self.record_count, self.byte_count)


@dataclass(frozen=True, slots=True)
class Reusable:
    """Where verified vectors can be copied from."""

    publication_id: str
    vector_table: str
    is_own: bool


class Collectable(NamedTuple):
    """A publication whose rows can go."""

    publication_id: str
    vector_table: str
    phase: str
    record_count: int


class Unserved(NamedTuple):
    """A generation of a namespace that nobody serves; `is_due`: it was replaced long ago."""

    partition: str
    generation: str
    revision: int
    record_count: int
    byte_count: int
    is_due: bool


def stage_publication(writer: StoreWriter, publication: Publication) -> None:
    """Insert a publication before its vectors are written."""
    values = asdict(publication)
    params = {name: values[name] for name in values if name not in {"phase", "revision"}}
    params["counts"] = json.dumps(params["counts"])
    writer.execute(_SQL["insert_publication"], params)


def finish_staging(writer: StoreWriter, publication_id: str, rows: pa.Table) -> None:
    """Note that the vectors are all there, and what the publication holds (ROW_SCHEMA).

    Raises:
        PublicationLostError: It was given up meanwhile.
    """
    if writer.execute(_SQL["set_staged"], {"publication_id": publication_id}) != 1:
        raise PublicationLostError
    if rows.num_rows:
        writer.insert(_SQL["insert_rows"], rows, {"publication_id": publication_id})


def flip(
    writer: StoreWriter, publication: Publication, *, scope: CasScope, clock: datetime
) -> None:
    """Serve a staged publication, if nobody else moved anything; the commit point of a run.

    The caller has checked its lease in the same transaction.

    Raises:
        SourceChangedError: The memories have changed since the snapshot.
        PublicationLostError: The publication was given up.
        IndexConflictError: Another writer moved the pointer.
    """
    if not fence_source(writer, publication.namespace_id, publication.source_token):
        raise SourceChangedError
    revision = publication.base_revision + 1
    params = {"publication_id": publication.publication_id, "revision": revision}
    if writer.execute(_SQL["set_published"], params) != 1:
        raise PublicationLostError
    expected = publication.base_revision
    move_pointer(writer, publication.partition, publication.served, expected=expected, scope=scope)
    _supersede(writer, publication.partition, publication.publication_id, clock)


def publish_nothing(  # noqa: PLR0913 - a compare-and-swap has this many facts
    writer: StoreWriter,
    partition: Partition,
    *,
    source_token: int | None,
    expected: int,
    scope: CasScope,
    clock: datetime,
) -> None:
    """Serve no row, under the same checks as `flip`; an empty pointer keeps its revision (R34)."""
    if not fence_source(writer, partition.namespace_id, source_token):
        raise SourceChangedError
    empty_pointer(writer, partition.name, expected=expected, scope=scope)
    _supersede(writer, partition.name, "", clock)


def _supersede(writer: StoreWriter, partition: str, publication_id: str, clock: datetime) -> None:
    params = {"partition": partition, "publication_id": publication_id, "clock": clock}
    writer.execute(_SQL["supersede"], params)


def invalidate(
    writer: StoreWriter,
    publication: Publication,
    *,
    revision: int,
    scope: CasScope,
    clock: datetime,
) -> None:
    """Take a flipped publication back: the pointer is emptied.

    Raises:
        IndexConflictError: Another writer has moved the pointer; it stays theirs.
    """
    move_pointer(writer, publication.partition, Served(), expected=revision, scope=scope)
    end_publication(writer, publication.publication_id, "invalidated", clock=clock)


def end_publication(
    writer: StoreWriter, publication_id: str, phase: str, *, clock: datetime
) -> None:
    """Give up a publication that is not verified."""
    params = {"publication_id": publication_id, "phase": phase, "clock": clock}
    writer.execute(_SQL["end_publication"], params)


def mark_verified(writer: StoreWriter, publication: Publication, *, clock: datetime) -> None:
    """Note that the rows of a publication were read back and are the staged ones."""
    params = {"publication_id": publication.publication_id, "clock": clock}
    if writer.execute(_SQL["set_verified"], params) != 1:
        raise PublicationLostError
    writer.execute(_SQL["delete_old_rows"], {"partition": publication.partition})


def abandon_leftovers(writer: StoreWriter, lease: Lease, *, clock: datetime) -> int:
    """Give up what runs with a lower fence staged in the namespace of the lease."""
    params = {"namespace_id": lease.namespace_id, "lease_fence": lease.fence, "clock": clock}
    return writer.execute(_SQL["abandon_leftovers"], params)


def read_publication(reader: StoreReader, publication_id: str) -> Publication | None:
    """Read one publication."""
    rows = reader.records(_SQL["read_publication"], {"publication_id": publication_id})
    if not rows:
        return None
    values = rows[0]
    return Publication(**{**values, "counts": Counts(**json.loads(values["counts"]))})


def find_reusable(
    reader: StoreReader, partition: Partition, profile: RecordProfile, *, across: bool
) -> Reusable | None:
    """Find where vectors can be copied from; `across`: from other generations, too."""
    params = {
        "partition": partition.name,
        "namespace_id": partition.namespace_id,
        "record_profile": profile,
        "embedding_digest": partition.embedding_digest,
        "across": across,
    }
    rows = reader.rows(_SQL["find_reusable"], params)
    return Reusable(*rows[0]) if rows else None


def is_same_set(reader: StoreReader, publication_id: str | None, rows: pa.Table) -> bool:
    """Tell whether a publication holds exactly these rows (ROW_SCHEMA); None holds nothing."""
    params: Mapping[str, object] = {"publication_id": publication_id or ""}
    table = reader.table(_SQL["is_same_set"], params, incoming=rows)
    return bool(table.column("is_same")[0].as_py())


def list_collectable(
    reader: StoreReader, tables: list[str], *, before: datetime
) -> list[Collectable]:
    """List the publications whose rows can go: of these tables, and whatever was begun already.

    Args:
        reader: An open handle.
        tables: The vector tables of the current history; others are left alone.
        before: Now less the grace; what ended at this instant can go.
    """
    params = {"tables": tables, "before": before}
    return [Collectable(*row) for row in reader.rows(_SQL["list_collectable"], params)]


def begin_collecting(writer: StoreWriter, ids: list[str]) -> int:
    """Note that the rows of publications are about to go; none of them can be published then."""
    return writer.execute(_SQL["set_collecting"], {"ids": ids})


def end_collecting(writer: StoreWriter, ids: list[str]) -> None:
    """Note that the rows of publications are gone."""
    writer.execute(_SQL["set_collected"], {"ids": ids})
    writer.execute(_SQL["delete_collected_rows"], {"ids": ids})


def list_known(reader: StoreReader) -> set[str]:
    """List the publications whose rows may be there."""
    return {name for (name,) in reader.rows(_SQL["list_known"])}


def list_left_tables(
    reader: StoreReader, tables: list[str], *, before: datetime
) -> list[tuple[str, int]]:
    """List (table, rows) of those given-up tables that nothing is served or copied from."""
    return reader.rows(_SQL["list_left_tables"], {"tables": tables, "before": before})


def begin_leaving(writer: StoreWriter, table: str) -> None:
    """Note that all rows of a table are about to go."""
    writer.execute(_SQL["set_leaving"], {"table": table})


def end_leaving(writer: StoreWriter, table: str) -> None:
    """Note that a table is gone."""
    ids = [name for (name,) in writer.rows(_SQL["list_leaving"], {"table": table})]
    end_collecting(writer, ids)


def list_unserved(reader: StoreReader, *, before: datetime) -> list[Unserved]:
    """List the generations that nobody serves.

    Args:
        reader: An open handle.
        before: What another generation replaced by then, and was quiet since, is due.
    """
    return [Unserved(*row) for row in reader.rows(_SQL["list_unserved"], {"before": before})]


def give_up_generation(writer: StoreWriter, partition: str, *, expected: int) -> None:
    """Empty the pointer of a partition that nobody serves and let its rows be collected.

    Raises:
        IndexConflictError: A refresh has moved the pointer.
    """
    empty_pointer(writer, partition, expected=expected, scope="partition")
    writer.execute(_SQL["set_unserved_collecting"], {"partition": partition})
    writer.execute(_SQL["forget_attempts"], {"partition": partition})
