"""Salience feedback: what is said about a memory moves its salience, never its age."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from storage import Store, StoreReader
from storage.changes import ChangeSet, parse_change_set
from storage.digests import digest_parts
from storage.errors import AdmissionError, FrozenMemoryError, MemoryNotFoundError
from storage.memories import find_memory, read_memory
from storage.models import Namespace, Status
from storage.namespaces import StoredNamespace, find_namespace, read_namespace
from storage.repository import commit_change_set
from tasks.policies import SweepPolicy

Signal = Literal["helpful", "not_helpful", "stale", "wrong"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)

# spec/sweep.md R21; 0.25 keeps a fresh floored memory above the default threshold.
_LOWEST = 0.25
_HIGHEST = 2.0
_STEP = 0.25
_FROZEN = {Status.SUPERSEDED, Status.TOMBSTONED}


@dataclass(frozen=True, slots=True)
class Feedback:
    """What feedback did: salience before and after, and the revision that holds it."""

    memory_id: str
    namespace: Namespace
    signal: Signal
    before: float | None
    salience: float
    revision: int
    changed: bool


def weigh_signal(salience: float | None, signal: Signal, *, start: float) -> float:
    """Move a salience by one signal; `start` stands in for a memory without one.

    Source: spec/sweep.md R21.
    """
    if signal in {"stale", "wrong"}:
        return _LOWEST
    step = _STEP if signal == "helpful" else -_STEP
    return min(max((start if salience is None else salience) + step, _LOWEST), _HIGHEST)


def apply_feedback(
    store: Store,
    memory_id: str,
    signal: Signal,
    *,
    at: datetime,
    namespace: Namespace | None = None,
) -> Feedback:
    """Apply one signal to a memory; a salience that is at its bound already stays as it is.

    Raises:
        MemoryNotFoundError: No such memory.
        FrozenMemoryError: It is superseded or tombstoned.
        AdmissionError: The id exists in several namespaces and none was named.
    """
    with store.write() as writer:
        owner = locate_memory(writer, memory_id, namespace)
        row = read_memory(writer, owner.namespace_id, memory_id)
        if row["status"] in _FROZEN:
            raise FrozenMemoryError(memory_id, row["status"])
        before, revision = row["salience"], int(row["revision"])
        after = weigh_signal(before, signal, start=SweepPolicy().salience_default)
        changed = before is None or after != before
        if changed:
            moved = _annotate(owner.namespace, row, at=at, salience=after)
            revision = commit_change_set(writer, moved).memories[0].revision
        return Feedback(memory_id, owner.namespace, signal, before, after, revision, changed)


def _annotate(
    namespace: Namespace, row: dict[str, Any], *, at: datetime, salience: float
) -> ChangeSet:
    """Build the change set of one signal; its key says what it changes, so it counts once."""
    parts = [row["id"].encode(), str(row["revision"]).encode()]
    operation = {
        "op": "annotate",
        "memory_id": row["id"],
        "expected_revision": row["revision"],
        "salience": salience,
    }
    return parse_change_set(
        {
            "idempotency_key": "feedback-" + digest_parts("memtend.feedback.v1", parts).hex(),
            "namespace": namespace,
            "occurred_at": max(at, row["updated_at"]),
            "operations": [operation],
        }
    )


def locate_memory(
    reader: StoreReader, memory_id: str, namespace: Namespace | None
) -> StoredNamespace:
    """Find the namespace of a memory that a person named by its id.

    Raises:
        MemoryNotFoundError: No such memory.
        AdmissionError: The id exists in several namespaces and none was named.
    """
    if namespace is not None:
        owner = find_namespace(reader, namespace)
        if owner is None:
            raise MemoryNotFoundError(memory_id)
        return owner
    found = find_memory(reader, memory_id)
    if not found:
        raise MemoryNotFoundError(memory_id)
    if len(found) > 1:
        raise AdmissionError("namespace", f"{len(found)} namespaces have this id: name one")
    return read_namespace(reader, found[0][0])
