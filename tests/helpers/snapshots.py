"""Small memories and their snapshots, for the tests of both."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from storage import StoreWriter
from storage.memories import (
    EVIDENCE_SCHEMA,
    MEMORY_SCHEMA,
    RELATION_SCHEMA,
    REVISION_SCHEMA,
    insert_evidence,
    insert_memories,
    insert_relations,
    insert_revisions,
)
from storage.models import MemoryRecord, Namespace
from storage.namespaces import ensure_namespace
from storage.records import evidence_rows, memory_row, relation_rows, revision_rows
from storage.snapshots import Snapshot, SnapshotRequest, snapshot_from_rows

Said = dict[str, Any]

HERE = Namespace(tenant="t", principal="p", scope="s")
THERE = Namespace(tenant="t", principal="p", scope="b")
START = datetime(2026, 1, 1, tzinfo=UTC)
AT = "2026-01-01T00:00:00Z"
EVIDENCE: Mapping[str, object] = {
    "uri": "e://1",
    "digest": "d1",
    "kind": "manual",
    "occurred_at": AT,
}
_N1: Mapping[str, object] = {
    "id": "n1",
    "content": "alpha",
    "kind": "semantic",
    "created_at": AT,
    "updated_at": AT,
    "evidence": [EVIDENCE],
}


def make_record(**fields: object) -> MemoryRecord:
    """Make the memory n1, with other fields."""
    return MemoryRecord.model_validate({**_N1, **fields})


def snap(*records: MemoryRecord, **options: Any) -> Snapshot:  # noqa: ANN401 - of a request
    """Take the snapshot of rows, with its payload."""
    return snapshot_from_rows(SnapshotRequest(HERE, **options), records, keep_payload=True)


def insert_records(
    writer: StoreWriter, records: Sequence[MemoryRecord], namespace: Namespace = HERE
) -> None:
    """Insert records as they are, with their history."""
    owner = ensure_namespace(writer, namespace).namespace_id
    rows = [memory_row(one, owner, origin_digest=None, clock=START) for one in records]
    insert_memories(writer, pa.Table.from_pylist(rows, schema=MEMORY_SCHEMA))
    rows = [row for one in records for row in revision_rows(one, owner)]
    insert_revisions(writer, pa.Table.from_pylist(rows, schema=REVISION_SCHEMA))
    rows = [row for one in records for row in evidence_rows(one, owner)]
    insert_evidence(writer, pa.Table.from_pylist(rows, schema=EVIDENCE_SCHEMA))
    rows = [row for one in records for row in relation_rows(one, owner)]
    insert_relations(writer, pa.Table.from_pylist(rows, schema=RELATION_SCHEMA))
