"""Memories, their earlier revisions, evidence and relations: the columns, read and insert.

Changes go through `storage.repository`, accesses through `storage.access`, removals through
`storage.removal`.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from storage.digests import encode_json
from storage.errors import (
    MemoryNotFoundError,
)
from storage.gateway import StoreReader, StoreWriter
from storage.marks import find_marks
from storage.models import Status
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "memories")
_INSTANT = pa.timestamp("us", tz="UTC")

_STATE_FIELDS = [
    ("revision", pa.int64()),
    ("revision_kind", pa.string()),
    ("kind", pa.string()),
    ("status", pa.string()),
    ("content", pa.string()),
    ("confidence", pa.float32()),
    ("importance", pa.float32()),
    ("salience", pa.float32()),
    ("tags", pa.string()),
    ("metadata", pa.string()),
    ("pinned", pa.bool_()),
    ("updated_at", _INSTANT),
    ("expires_at", _INSTANT),
]
MEMORY_SCHEMA = pa.schema(
    [
        ("namespace_id", pa.int32()),
        ("id", pa.string()),
        *_STATE_FIELDS,
        ("marks", pa.string()),
        ("created_at", _INSTANT),
        ("content_at", _INSTANT),
        ("restored_at", _INSTANT),
        ("tombstoned_at", _INSTANT),
        ("last_accessed_at", _INSTANT),
        ("access_count", pa.int64()),
        ("origin", pa.string()),
        ("origin_digest", pa.string()),
    ]
)
_OWNER_FIELDS = [("namespace_id", pa.int32()), ("memory_id", pa.string())]
REVISION_SCHEMA = pa.schema([*_OWNER_FIELDS, *_STATE_FIELDS])
EVIDENCE_SCHEMA = pa.schema(
    [
        *_OWNER_FIELDS,
        ("uri", pa.string()),
        ("digest", pa.string()),
        ("kind", pa.string()),
        ("occurred_at", _INSTANT),
        ("since_revision", pa.int64()),
    ]
)
RELATION_SCHEMA = pa.schema(
    [
        *_OWNER_FIELDS,
        ("kind", pa.string()),
        ("target_id", pa.string()),
        ("since_revision", pa.int64()),
        ("until_revision", pa.int64()),
    ]
)
_TABLES = {
    "insert_memories": MEMORY_SCHEMA,
    "insert_revisions": REVISION_SCHEMA,
    "insert_evidence": EVIDENCE_SCHEMA,
    "insert_relations": RELATION_SCHEMA,
}


def encode_labels(tags: Iterable[str], metadata: Mapping[str, str]) -> dict[str, str]:
    """Encode tags and metadata for their columns, with the keep marks found in them."""
    tags = list(tags)
    return {
        "tags": encode_json(tags),
        "metadata": encode_json(dict(metadata)),
        "marks": encode_json(find_marks(tags, metadata)),
    }


def insert_memories(writer: StoreWriter, incoming: pa.Table) -> int:
    """Insert memories (MEMORY_SCHEMA); the caller has validated them and stepped the sequence."""
    return _insert(writer, "insert_memories", incoming)


def insert_revisions(writer: StoreWriter, incoming: pa.Table) -> int:
    """Insert earlier revisions (REVISION_SCHEMA)."""
    return _insert(writer, "insert_revisions", incoming)


def insert_evidence(writer: StoreWriter, incoming: pa.Table) -> int:
    """Insert evidence (EVIDENCE_SCHEMA)."""
    return _insert(writer, "insert_evidence", incoming)


def insert_relations(writer: StoreWriter, incoming: pa.Table) -> int:
    """Insert edges (RELATION_SCHEMA); both ends of an edge have a row of their own."""
    return _insert(writer, "insert_relations", incoming)


def _insert(writer: StoreWriter, statement: str, incoming: pa.Table) -> int:
    if incoming.num_rows == 0:
        return 0
    return writer.insert(_SQL[statement], incoming.cast(_TABLES[statement]))


def read_memory(reader: StoreReader, namespace_id: int, memory_id: str) -> dict[str, Any]:
    """Read one memory with all its columns; tags, metadata and marks decoded.

    Raises:
        MemoryNotFoundError: The namespace has no such memory.
    """
    found = read_memories(reader, namespace_id, [memory_id])
    if not found:
        raise MemoryNotFoundError(memory_id)
    return found[0]


def read_memories(
    reader: StoreReader, namespace_id: int, ids: Iterable[str]
) -> list[dict[str, Any]]:
    """Read the memories with these ids that exist, sorted by id."""
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    rows = reader.records(_SQL["read_memories"], params)
    for row in rows:
        for column in ("tags", "metadata", "marks"):
            row[column] = json.loads(row[column])
    return rows


def find_memory(reader: StoreReader, memory_id: str) -> list[tuple[int, int, str]]:
    """Find an id in all namespaces: (namespace_id, revision, status) of each."""
    return reader.rows(_SQL["find_memory"], {"memory_id": memory_id})


def read_evidence(
    reader: StoreReader, namespace_id: int, ids: Iterable[str]
) -> list[dict[str, Any]]:
    """Read the evidence of memories, sorted by memory and uri."""
    return reader.records(_SQL["read_evidence"], {"namespace_id": namespace_id, "ids": list(ids)})


def read_relations(
    reader: StoreReader, namespace_id: int, ids: Iterable[str]
) -> list[dict[str, Any]]:
    """Read the edges of memories, earlier ones included (until_revision is set there)."""
    return reader.records(_SQL["read_relations"], {"namespace_id": namespace_id, "ids": list(ids)})


def read_revisions(reader: StoreReader, namespace_id: int, memory_id: str) -> list[dict[str, Any]]:
    """Read the earlier revisions of a memory, oldest first."""
    params = {"namespace_id": namespace_id, "memory_id": memory_id}
    return reader.records(_SQL["read_revisions"], params)


def list_live(
    reader: StoreReader, namespace_id: int, *, now: datetime, limit: int
) -> list[dict[str, Any]]:
    """List what an agent may see at `now`: active, not expired, newest change first.

    Expired rows are filtered before the limit, to the microsecond, whether swept or not.
    """
    params = {"namespace_id": namespace_id, "now": now, "limit": limit}
    return reader.records(_SQL["list_live"], params)


def read_status_before(reader: StoreReader, namespace_id: int, memory_id: str) -> Status:
    """Read the status that a tombstone hides: that of the newest state before it."""
    params = {"namespace_id": namespace_id, "memory_id": memory_id}
    rows = reader.rows(_SQL["status_before_tombstone"], params)
    return Status(rows[0][0]) if rows else Status.ACTIVE


def count_memories(
    reader: StoreReader, *, now: datetime, namespace: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Count memories by lifecycle: disjoint counters that add up to `total`."""
    names: Mapping[str, str | None] = namespace or dict.fromkeys(("tenant", "principal", "scope"))
    record = reader.records(_SQL["memory_state"], {"now": now, **names})[0]
    return {name: count or 0 for name, count in record.items()}
