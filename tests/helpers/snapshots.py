"""Small memories and their snapshots, for the tests of both."""

from collections.abc import Mapping
from typing import Any

from storage.models import MemoryRecord, Namespace
from storage.snapshots import Snapshot, SnapshotRequest, snapshot_from_rows

Said = dict[str, Any]

HERE = Namespace(tenant="t", principal="p", scope="s")
THERE = Namespace(tenant="t", principal="p", scope="b")
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
