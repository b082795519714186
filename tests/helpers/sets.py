"""Short forms of change sets for tests: namespace t/p/s, times in minutes."""

from datetime import UTC, datetime, timedelta
from typing import Any

from storage.instants import format_instant
from storage.models import Namespace

SPACE = Namespace(tenant="t", principal="p", scope="s")
START = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: int) -> str:
    """Give the text of an instant `minute` minutes after the start."""
    return format_instant(START + timedelta(minutes=minute))


def evidence(uri: str, minute: int = 0, kind: str = "manual") -> dict[str, Any]:
    """Give one evidence."""
    return {"uri": uri, "digest": f"d-{uri}", "kind": kind, "occurred_at": at(minute)}


def create(memory_id: str, content: str = "alpha", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Give a create operation of an active memory with decision evidence."""
    memory: dict[str, Any] = {
        "id": memory_id,
        "kind": "semantic",
        "status": "active",
        "content": content,
    }
    memory |= {"evidence": [evidence(f"e://{memory_id}")], "created_at": at(0)}
    return {"op": "create", "memory": {**memory, **fields}}


def change(op: str, memory_id: str, revision: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Give an operation on a memory that expects a revision."""
    return {"op": op, "memory_id": memory_id, "expected_revision": revision, **fields}


def edge(kind: str, target_id: str) -> dict[str, Any]:
    """Give the relation of an add or remove operation."""
    return {"relation": {"kind": kind, "target_id": target_id}}


def change_set(key: str, minute: int, *operations: dict[str, Any]) -> dict[str, Any]:
    """Give a change set of the namespace t/p/s."""
    return {
        "idempotency_key": key,
        "namespace": SPACE.model_dump(),
        "occurred_at": at(minute),
        "operations": list(operations),
    }
