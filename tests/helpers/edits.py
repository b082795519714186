"""Change one memory as a host would: change sets and access events with keys of their own."""

from datetime import datetime
from typing import Any

from storage import StoreWriter
from storage.access import AccessEvent, record_event
from storage.changes import parse_change_set
from storage.instants import format_instant
from storage.memories import read_memory
from storage.namespaces import read_namespace
from storage.repository import commit_change_set


def annotate_memory(
    writer: StoreWriter,
    namespace_id: int,
    memory_id: str,
    *,
    at: datetime,
    **changes: Any,  # noqa: ANN401 - JSON
) -> int:
    """Annotate a memory and give its new revision."""
    return _change(writer, namespace_id, memory_id, {"op": "annotate", **changes}, at=at)


def revise_memory(
    writer: StoreWriter, namespace_id: int, memory_id: str, *, content: str, at: datetime
) -> int:
    """Correct the content of a memory and give its new revision."""
    revision = read_memory(writer, namespace_id, memory_id)["revision"]
    said = {
        "uri": f"e://{memory_id}/{revision}",
        "digest": "d",
        "kind": "session_turn",
        "occurred_at": format_instant(at),
    }
    operation = {"op": "revise", "content": content, "mode": "correction", "evidence": [said]}
    return _change(writer, namespace_id, memory_id, operation, at=at)


def restore_memory(writer: StoreWriter, namespace_id: int, memory_id: str, *, at: datetime) -> int:
    """Take back a tombstone and give the new revision."""
    return _change(writer, namespace_id, memory_id, {"op": "restore"}, at=at)


def record_use(
    writer: StoreWriter, namespace_id: int, memory_id: str, *, event_id: str, at: datetime
) -> None:
    """Record one use of a memory."""
    event = AccessEvent(
        id=event_id,
        namespace=read_namespace(writer, namespace_id).namespace,
        memory_id=memory_id,
        revision=read_memory(writer, namespace_id, memory_id)["revision"],
        occurred_at=at,
    )
    record_event(writer, "use", event)


def _change(
    writer: StoreWriter,
    namespace_id: int,
    memory_id: str,
    operation: dict[str, Any],
    *,
    at: datetime,
) -> int:
    revision = read_memory(writer, namespace_id, memory_id)["revision"]
    place = {"memory_id": memory_id, "expected_revision": revision}
    change_set = parse_change_set(
        {
            "idempotency_key": f"{operation['op']}-{memory_id}-{revision}",
            "namespace": read_namespace(writer, namespace_id).namespace,
            "occurred_at": at,
            "operations": [{**operation, **place}],
        }
    )
    return commit_change_set(writer, change_set).memories[0].revision
