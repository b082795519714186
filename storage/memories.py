"""Memories, their earlier revisions, evidence and relations: read, insert, change.

A change names the revision that it expects, keeps the replaced state as a row of `revisions`, and
moves the namespace's sequence; created_at, access figures and salience survive it.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from storage.digests import encode_json
from storage.errors import (
    AdmissionError,
    FrozenMemoryError,
    MemoryNotFoundError,
    RevisionConflictError,
)
from storage.gateway import StoreReader, StoreWriter
from storage.marks import find_marks
from storage.models import RevisionKind, Status
from storage.namespaces import step_sequence
from storage.queries import read_statements
from storage.terms import insert_terms, term_rows

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


def annotate_memory(
    writer: StoreWriter,
    namespace_id: int,
    memory_id: str,
    *,
    expected_revision: int | None = None,
    at: datetime,
    **changes: object,
) -> int:
    """Change tags, metadata, pinned, expires_at, importance or salience; give the new revision.

    Raises:
        MemoryNotFoundError: No such memory.
        RevisionConflictError: It has another revision than `expected_revision`.
        FrozenMemoryError: It is superseded or tombstoned.
        AdmissionError: Nothing would change, or a field cannot be annotated.
    """
    allowed = {"tags", "metadata", "pinned", "expires_at", "importance", "salience"}
    unknown = sorted(changes.keys() - allowed)
    if unknown:
        raise AdmissionError(unknown[0], "cannot be annotated")
    row = _read_expected(writer, namespace_id, memory_id, expected_revision)
    if row["status"] in {Status.SUPERSEDED, Status.TOMBSTONED}:
        raise FrozenMemoryError(memory_id, row["status"])
    if all(row[field] == value for field, value in changes.items()):
        raise AdmissionError("changes", "would change nothing")
    return _change(
        writer, namespace_id, row, revision_kind=RevisionKind.ANNOTATED, at=at, changes=changes
    )


def revise_memory(  # noqa: PLR0913 - whose, which, expected, what, when
    writer: StoreWriter,
    namespace_id: int,
    memory_id: str,
    *,
    expected_revision: int | None = None,
    content: str,
    at: datetime,
) -> int:
    """Correct the content, which makes the memory young again; give the new revision.

    Raises:
        MemoryNotFoundError: No such memory.
        RevisionConflictError: It has another revision than `expected_revision`.
        FrozenMemoryError: It is superseded or tombstoned.
    """
    row = _read_expected(writer, namespace_id, memory_id, expected_revision)
    if row["status"] in {Status.SUPERSEDED, Status.TOMBSTONED}:
        raise FrozenMemoryError(memory_id, row["status"])
    changes = {"content": content, "content_at": max(at, row["updated_at"])}
    revision = _change(
        writer, namespace_id, row, revision_kind=RevisionKind.CORRECTED, at=at, changes=changes
    )
    insert_terms(writer, term_rows([(memory_id, content)], namespace_id))
    return revision


def restore_memory(
    writer: StoreWriter,
    namespace_id: int,
    memory_id: str,
    *,
    expected_revision: int | None = None,
    at: datetime,
) -> int:
    """Take back a tombstone: the status before it returns and the age starts anew.

    Source: spec/sweep.md R23. created_at, content_at and access figures are kept.

    Raises:
        MemoryNotFoundError: No such memory; it may have been purged.
        FrozenMemoryError: It is not tombstoned.
    """
    row = _read_expected(writer, namespace_id, memory_id, expected_revision)
    if row["status"] != Status.TOMBSTONED:
        raise FrozenMemoryError(memory_id, row["status"])
    status = read_status_before(writer, namespace_id, memory_id)
    changes = {"status": status, "restored_at": max(at, row["updated_at"]), "tombstoned_at": None}
    return _change(
        writer, namespace_id, row, revision_kind=RevisionKind.RESTORED, at=at, changes=changes
    )


def read_status_before(reader: StoreReader, namespace_id: int, memory_id: str) -> Status:
    """Read the status that a tombstone hides: that of the newest state before it."""
    params = {"namespace_id": namespace_id, "memory_id": memory_id}
    rows = reader.rows(_SQL["status_before_tombstone"], params)
    return Status(rows[0][0]) if rows else Status.ACTIVE


def record_use(  # noqa: PLR0913 - an event has this many facts
    writer: StoreWriter,
    namespace_id: int,
    memory_id: str,
    *,
    event_id: str,
    at: datetime,
    actor: str | None = None,
    context_id: str | None = None,
) -> None:
    """Record that an agent used a memory: one event, access_count + 1, last_accessed_at.

    No revision, no updated_at, no change sequence. A known `event_id` is refused by the key.
    """
    row = read_memory(writer, namespace_id, memory_id)
    owner = {"namespace_id": namespace_id, "memory_id": memory_id, "occurred_at": at}
    event = {"event_id": event_id, "revision": row["revision"]}
    people = {"context_id": context_id, "actor": actor}
    writer.execute(_SQL["insert_access_event"], owner | event | people)
    writer.execute(_SQL["count_use"], owner)


def count_memories(
    reader: StoreReader, *, now: datetime, namespace: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Count memories by lifecycle: disjoint counters that add up to `total`."""
    names: Mapping[str, str | None] = namespace or dict.fromkeys(("tenant", "principal", "scope"))
    record = reader.records(_SQL["memory_state"], {"now": now, **names})[0]
    return {name: count or 0 for name, count in record.items()}


def _read_expected(
    reader: StoreReader, namespace_id: int, memory_id: str, expected_revision: int | None
) -> dict[str, Any]:
    row = read_memory(reader, namespace_id, memory_id)
    if expected_revision is not None and row["revision"] != expected_revision:
        actual = row["revision"]
        raise RevisionConflictError(memory_id, expected=expected_revision, actual=actual)
    return row


def _change(  # noqa: PLR0913 - one internal writer behind the three public ones
    writer: StoreWriter,
    namespace_id: int,
    row: dict[str, Any],
    *,
    revision_kind: RevisionKind,
    at: datetime,
    changes: dict[str, object],
) -> int:
    state = row | changes
    owner = {
        "namespace_id": namespace_id,
        "memory_id": row["id"],
        "expected_revision": row["revision"],
    }
    columns = ("status", "content", "confidence", "importance", "salience", "pinned")
    clocks = ("content_at", "expires_at", "restored_at", "tombstoned_at")
    params = {column: state[column] for column in columns + clocks}
    params |= encode_labels(state["tags"], state["metadata"])
    params |= {"revision_kind": revision_kind, "updated_at": max(at, row["updated_at"])}
    writer.execute(_SQL["keep_revision"], owner)
    if writer.execute(_SQL["change_memory"], owner | params) != 1:
        raise RevisionConflictError(row["id"], expected=row["revision"], actual=row["revision"])
    step_sequence(writer, namespace_id)
    return int(row["revision"]) + 1
