"""Salience feedback: what is said about a memory moves its salience, never its age."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from storage import Store, StoreReader
from storage.errors import AdmissionError, MemoryNotFoundError
from storage.memories import annotate_memory, find_memory, read_memory
from storage.models import Namespace
from storage.namespaces import StoredNamespace, find_namespace, read_namespace
from tasks.policies import SweepPolicy

Signal = Literal["helpful", "not_helpful", "stale", "wrong"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)

# spec/sweep.md R21; 0.25 keeps a fresh floored memory above the default threshold.
_LOWEST = 0.25
_HIGHEST = 2.0
_STEP = 0.25


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
        before, revision = row["salience"], int(row["revision"])
        after = weigh_signal(before, signal, start=SweepPolicy().salience_default)
        changed = before is None or after != before
        if changed:
            revision = annotate_memory(writer, owner.namespace_id, memory_id, at=at, salience=after)
        return Feedback(memory_id, owner.namespace, signal, before, after, revision, changed)


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
