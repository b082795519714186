"""Partitions of the vector index and their pointers: which publication is served, compared and set.

A partition is a namespace under one serving generation. Source: spec/refresh.md R8, R16-R20.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from storage.fresh import new_uuid
from storage.gateway import StoreReader, StoreWriter
from storage.history import History, read_history_of_store
from storage.identities import CasScope, RecordProfile, digest_index_history
from storage.index_errors import IndexConflictError
from storage.queries import read_statements
from storage.vectors import VectorStore

_SQL = read_statements("storage.sql", "partitions")
_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Partition:
    """What identifies a partition; `binding` is what readers embed a query under."""

    name: str
    namespace_id: int
    generation: str
    binding: Mapping[str, Any]
    embedding_digest: str

    @property
    def dimension(self) -> int:
        """The number of components of each vector."""
        return int(self.binding["embedding"]["dimension"])


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer row: what is served, and how often that has moved."""

    revision: int
    phase: str
    publication_id: str | None
    receipt_id: str | None
    record_count: int
    byte_count: int
    pointer_uuid: str
    vector_table: str | None
    record_profile: RecordProfile | None
    store_history: str | None
    partition_count: int


@dataclass(frozen=True, slots=True)
class Observation:
    """Index status and index token, read together; `history` names what the revision belongs to."""

    pointer: Pointer
    history: str
    revision: int
    partition_count: int
    record_count: int
    byte_count: int


def ensure_partition(writer: StoreWriter, partition: Partition) -> None:
    """Insert the pointer row of a partition, once."""
    params = {
        "partition": partition.name,
        "namespace_id": partition.namespace_id,
        "generation": partition.generation,
        "binding": json.dumps(partition.binding, ensure_ascii=False),
        "embedding_digest": partition.embedding_digest,
        "pointer_uuid": new_uuid(),
    }
    writer.execute(_SQL["insert_partition"], params)
    writer.execute(_SQL["insert_index_pointer"], {"pointer_uuid": new_uuid()})


def read_pointer(reader: StoreReader, partition: str) -> Pointer | None:
    """Read the pointer of a partition; None if it was never refreshed."""
    rows = reader.rows(_SQL["read_pointer"], {"partition": partition})
    return Pointer(*rows[0]) if rows else None


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What one read transaction says of the index; its rows are not counted yet."""

    pointer: Pointer
    history: History
    revision: int
    pointer_uuid: str
    partition_count: int
    byte_count: int
    served: tuple[tuple[str | None, str | None], ...]


def glimpse_index(
    reader: StoreReader, store_path: Path, partition: Partition, scope: CasScope
) -> Glimpse:
    """Read pointer, history and what is served, in the open transaction."""
    pointer = read_pointer(reader, partition.name)
    if pointer is None:
        message = "a partition is observed before it was made"
        raise RuntimeError(message)
    history = read_history_of_store(reader, store_path)
    own = (pointer.publication_id, pointer.vector_table)
    if scope == "partition":
        figures = (pointer.partition_count, pointer.byte_count)
        return Glimpse(pointer, history, pointer.revision, pointer.pointer_uuid, *figures, (own,))
    revision, pointer_uuid, count, size = reader.rows(_SQL["read_index_pointer"])[0]
    served = tuple((name, table) for name, table in reader.rows(_SQL["list_served"]))
    return Glimpse(pointer, history, revision, pointer_uuid, count, size, served)


def observe_index(glimpse: Glimpse, vectors: VectorStore, scope: CasScope) -> Observation:
    """Complete a glimpse of the index: rows are counted in Lance.

    Raises:
        IndexUnreadableError: The vectors could not be counted.
    """
    count = sum(vectors.count(table or "", name) for name, table in glimpse.served if name)
    return Observation(
        pointer=glimpse.pointer,
        history=_history(glimpse.history, vectors, glimpse.pointer_uuid, scope),
        revision=glimpse.revision,
        partition_count=glimpse.partition_count,
        record_count=count,
        byte_count=glimpse.byte_count,
    )


def _history(history: History, vectors: VectorStore, pointer_uuid: str, scope: CasScope) -> str:
    lance_uuid = vectors.read_uuid() or _NO_UUID
    return digest_index_history(
        scope, store_uuid=history.store_uuid, lance_uuid=lance_uuid, pointer_uuid=pointer_uuid
    )


@dataclass(frozen=True, slots=True)
class Served:
    """What a pointer is set to; without a publication it is emptied."""

    publication_id: str | None = None
    phase: str = "empty"
    record_count: int = 0
    byte_count: int = 0


def move_pointer(
    writer: StoreWriter, partition: str, served: Served, *, expected: int, scope: CasScope
) -> None:
    """Set a pointer, if its revision is the expected one.

    Raises:
        IndexConflictError: Another writer was first.
    """
    if scope == "index":
        _move_index(writer, expected)
        rows = writer.rows(_SQL["read_pointer"], {"partition": partition})
        expected = rows[0][0]
    params = {
        "partition": partition,
        "expected": expected,
        "publication_id": served.publication_id,
        "phase": served.phase,
        "record_count": served.record_count,
        "byte_count": served.byte_count,
    }
    if writer.execute(_SQL["move_pointer"], params) != 1:
        raise IndexConflictError(expected=expected)


def empty_pointer(writer: StoreWriter, partition: str, *, expected: int, scope: CasScope) -> None:
    """Empty a pointer under compare-and-swap; an empty one keeps its revision.

    Raises:
        IndexConflictError: Another writer was first.
    """
    pointer = read_pointer(writer, partition)
    if pointer is not None and pointer.phase != "empty":
        move_pointer(writer, partition, Served(), expected=expected, scope=scope)
        return
    params = {"partition": partition, "expected": expected}
    if scope == "partition" and writer.execute(_SQL["hold_pointer"], params) != 1:
        raise IndexConflictError(expected=expected)


def _move_index(writer: StoreWriter, expected: int) -> None:
    if writer.execute(_SQL["move_index_pointer"], {"expected": expected}) != 1:
        actual = writer.rows(_SQL["read_index_pointer"])[0][0]
        raise IndexConflictError(expected=expected, actual=actual)


def prove_pointer(  # noqa: PLR0913 - a proof has this many facts
    writer: StoreWriter,
    partition: str,
    *,
    expected: int,
    scope: CasScope,
    publication_id: str | None,
    receipt_id: str,
) -> bool:
    """Name the receipt of what is served; False: the pointer has moved since."""
    if scope == "index":
        if writer.rows(_SQL["read_index_pointer"])[0][0] != expected:
            return False
        expected = writer.rows(_SQL["read_pointer"], {"partition": partition})[0][0]
    params = {
        "partition": partition,
        "expected": expected,
        "publication_id": publication_id,
        "receipt_id": receipt_id,
    }
    return writer.execute(_SQL["prove_pointer"], params) == 1


def fence_source(writer: StoreWriter, namespace_id: int, source_token: int | None) -> bool:
    """Move the fence of a namespace if its sequence is still the given one, or for any (None)."""
    params = {"namespace_id": namespace_id, "source_token": source_token}
    return writer.execute(_SQL["fence_source"], params) == 1


def read_serving(reader: StoreReader, namespace_id: int) -> Partition | None:
    """Read the partition that readers of a namespace use."""
    rows = reader.rows(_SQL["read_serving"], {"namespace_id": namespace_id})
    if not rows:
        return None
    name, generation, binding = rows[0]
    return Partition(name, namespace_id, generation, json.loads(binding), "")


def switch_serving(
    writer: StoreWriter, namespace_id: int, partition: str, *, is_complete: bool, clock: datetime
) -> None:
    """Let readers use a partition, if none is served yet or this one is complete (R8)."""
    params = {"namespace_id": namespace_id, "partition": partition, "clock": clock}
    writer.execute(_SQL["insert_serving"], params)
    if is_complete:
        writer.execute(_SQL["switch_serving"], params)


def list_generations(reader: StoreReader, namespace_id: int | None = None) -> list[dict[str, Any]]:
    """List the partitions of a namespace, or of all, with their sizes."""
    return reader.records(_SQL["list_generations"], {"namespace_id": namespace_id})
