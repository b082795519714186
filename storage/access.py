"""Access events: that a memory entered a context (admission) or was used, each counted once.

Events move no revision, no updated_at, no digest and no change sequence. Reads of the V1 store API
count themselves in `storage.items`. Source: spec/repository.md R26-R29, DESIGN 10.12.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, ValidationError

from storage.change_errors import (
    AdmissionNotAllowedError,
    IdempotencyConflictError,
    RevisionNotFoundError,
)
from storage.changes import explain_refusal
from storage.errors import AdmissionError, MaintenanceError, MemoryNotFoundError
from storage.gateway import Store, StoreReader, StoreWriter
from storage.models import MAX_COUNT, Identifier, Instant, Namespace, Row, Status
from storage.namespaces import find_namespace
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "access")
EventKind = Literal["admission", "use"]


class AccessEvent(Row):
    """One event; admissions and uses have separate id spaces in a namespace."""

    id: Identifier
    namespace: Namespace
    memory_id: Identifier
    revision: Annotated[StrictInt, Field(ge=1, le=MAX_COUNT)]
    occurred_at: Instant
    context_id: Identifier | None = None
    actor: Identifier | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """How often a memory was admitted and used, over all its revisions."""

    admissions: int
    uses: int


def parse_event(values: Mapping[str, Any]) -> AccessEvent:
    """Read an access event from plain values.

    Raises:
        AdmissionError: Malformed; the field is named `event.…`.
        LimitExceededError: Longer than a limit allows.
    """
    try:
        return AccessEvent.model_validate(values)
    except ValidationError as error:
        raise explain_refusal(error, "event") from None


def record_events(
    store: Store, kind: EventKind, events: Iterable[AccessEvent]
) -> list[MaintenanceError | None]:
    """Record events in one transaction; each gets None, or the reason why it was not recorded.

    A memory that has vanished never takes the other events with it.
    """
    with store.write() as writer:
        return [_try(writer, kind, event) for event in events]


def _try(writer: StoreWriter, kind: EventKind, event: AccessEvent) -> MaintenanceError | None:
    try:
        record_event(writer, kind, event)
    except (MemoryNotFoundError, IdempotencyConflictError, RevisionNotFoundError) as error:
        return error
    except (AdmissionNotAllowedError, AdmissionError) as error:
        return error
    return None


def record_event(writer: StoreWriter, kind: EventKind, event: AccessEvent) -> bool:
    """Record one event in the open transaction; False if exactly it was recorded before.

    Raises:
        IdempotencyConflictError: Its id was used with other facts.
        MemoryNotFoundError: No such memory.
        RevisionNotFoundError: The memory never had this revision.
        AdmissionNotAllowedError: Not active, not the current revision, or expired by then.
        AdmissionError: It happened before that revision existed.
    """
    owner = find_namespace(writer, event.namespace)
    if owner is None:
        raise MemoryNotFoundError(event.memory_id)
    facts = event.model_dump(exclude={"id", "namespace"})
    place = {"namespace_id": owner.namespace_id, "event_kind": kind, "event_id": event.id}
    known = writer.records(_SQL["find_event"], place)
    if known:
        if known[0] != facts:
            raise IdempotencyConflictError(event.id)
        return False
    _check(writer, kind, event, owner.namespace_id)
    writer.execute(_SQL["insert_event"], {**place, **facts})
    count = 1 if kind == "use" else 0
    writer.execute(
        _SQL["count_access"],
        {
            "namespace_id": owner.namespace_id,
            "memory_id": event.memory_id,
            "occurred_at": event.occurred_at,
            "uses": count,
        },
    )
    return True


def _check(reader: StoreReader, kind: EventKind, event: AccessEvent, namespace_id: int) -> None:
    params = {"namespace_id": namespace_id, "memory_id": event.memory_id}
    found = reader.rows(_SQL["find_state"], {**params, "revision": event.revision})
    if not found:
        raise MemoryNotFoundError(event.memory_id)
    current, status, expires_at, since = found[0]
    if since is None:
        raise RevisionNotFoundError(event.memory_id, event.revision)
    is_live = expires_at is None or expires_at > event.occurred_at
    is_served = status == Status.ACTIVE and current == event.revision and is_live
    if kind == "admission" and not is_served:
        raise AdmissionNotAllowedError(
            event.memory_id, event.revision, current_revision=current, current_status=status
        )
    if event.occurred_at < since:
        raise AdmissionError("event.occurred_at", "lies before the revision's updated_at")


def read_usage(reader: StoreReader, namespace: Namespace, memory_id: str) -> Usage:
    """Count the events of a memory.

    Raises:
        MemoryNotFoundError: No such memory.
    """
    owner = find_namespace(reader, namespace)
    params = {"namespace_id": owner.namespace_id if owner else -1, "memory_id": memory_id}
    rows = reader.rows(_SQL["read_usage"], params)
    if not rows:
        raise MemoryNotFoundError(memory_id)
    return Usage(*rows[0])
