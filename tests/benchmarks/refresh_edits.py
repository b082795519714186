"""What hosts change between two refreshes, through change sets as they would."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from benchmarks.data import NOW
from benchmarks.refresh_runs import CHANGED, INACTIVE, METADATA, list_active

from storage import Store
from storage.changes import MAX_OPERATIONS
from storage.instants import format_instant
from storage.models import DEFAULT_NAMESPACE
from storage.repository import apply_change_set

_STEP = 100
_Row = tuple[str, int, str]


def change_memories(store: Store, case: str, turn: int) -> int:
    """Change one memory in a hundred, other ones each turn; give how many texts are new.

    Where only inactive memories change, as many candidates are added.
    """
    with store.read() as reader:
        rows = list_active(reader)[turn % _STEP :: _STEP]
    at = format_instant(NOW + timedelta(minutes=turn + 1))
    operations = [_EDITS[case](row, at) for row in rows]
    _apply(store, f"{case} {turn}", at, operations)
    return len(rows) if case == CHANGED else 0


def _apply(store: Store, key: str, at: str, operations: Sequence[dict[str, Any]]) -> None:
    with store.session():
        for start in range(0, len(operations), MAX_OPERATIONS):
            made = {
                "idempotency_key": f"{key} {start}",
                "namespace": DEFAULT_NAMESPACE.model_dump(),
            }
            some = operations[start : start + MAX_OPERATIONS]
            apply_change_set(store, {**made, "occurred_at": at, "operations": list(some)})


def _revise(row: _Row, at: str) -> dict[str, Any]:
    memory_id, revision, content = row
    proof = {"uri": f"e://{memory_id}/{at}", "digest": "d", "kind": "manual", "occurred_at": at}
    step = {"op": "revise", "memory_id": memory_id, "expected_revision": revision}
    return {**step, "content": f"{content} again", "mode": "correction", "evidence": [proof]}


def _annotate(row: _Row, at: str) -> dict[str, Any]:
    memory_id, revision, _ = row
    step = {"op": "annotate", "memory_id": memory_id, "expected_revision": revision}
    return {**step, "metadata": {"seen": at}}


def _propose(row: _Row, at: str) -> dict[str, Any]:
    memory_id, _, content = row
    draft = {"id": f"{memory_id} {at}", "kind": "semantic", "status": "candidate"}
    return {"op": "create", "memory": {**draft, "content": content, "created_at": at}}


_EDITS: dict[str, Callable[[_Row, str], dict[str, Any]]] = {
    CHANGED: _revise,
    METADATA: _annotate,
    INACTIVE: _propose,
}
