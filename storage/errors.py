"""Every error that memtend raises on purpose; the attributes hold the facts, the text is built.

Texts carry ids and figures, never content, vectors or credentials, and are at most 1024 bytes.

* MaintenanceError
  x StorageError
    - StoreNotFoundError
    - SchemaVersionError
    - MigrationError
    - StoreBusyError
    - LeaseHeldError
    - MemoryNotFoundError
    - PlanNotFoundError
    - RunNotFoundError
    - FrozenMemoryError
    - ConflictError
      * RevisionConflictError
      * FenceLostError
  x PlanRefusedError
  x AdmissionError
  x LimitExceededError
  x NamespaceMismatchError
  x InvariantError
  x InternalError
"""

import re
from typing import ClassVar

MAX_TEXT_BYTES = 1024  # DESIGN: errors are at most 1024 bytes
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clip_text(text: str) -> str:
    """Make a text one line of valid UTF-8, cut to at most 1024 bytes at a code point border.

    Source: spec/maintenance.md R27.
    """
    clean = _SURROGATE.sub("\ufffd", _CONTROL.sub(" ", text))
    return clean.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore")


class MaintenanceError(Exception):
    """The root of all errors of memtend."""

    code: ClassVar[str] = "maintenance_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **facts: object) -> None:
        """Keep the facts; the text is cut to 1024 bytes."""
        super().__init__(clip_text(message))
        self.facts = facts


class StorageError(MaintenanceError):
    """Something about a store."""

    code = "storage_failure"


class StoreNotFoundError(StorageError):
    """The directory holds no store."""

    code = "store_not_found"

    def __init__(self, path: str) -> None:
        """Name the directory."""
        super().__init__(f"there is no store at {path}; create it with: memtend init", store=path)


class SchemaVersionError(StorageError):
    """The store was written by a newer memtend, or has not been migrated."""

    code = "schema_version"

    def __init__(self, *, found: int, supported: int) -> None:
        """Name both versions."""
        hint = "upgrade memtend" if found > supported else "migrate it with: memtend init"
        super().__init__(
            f"the store has schema version {found}, this memtend works with {supported}; {hint}",
            found=found,
            supported=supported,
        )


class MigrationError(StorageError):
    """A migration failed, or one that was applied has changed since."""

    code = "migration"


class StoreBusyError(StorageError):
    """The lock of the store was not free in time."""

    code = "store_locked"
    retryable = True

    def __init__(self, *, waited_s: float) -> None:
        """Say how long the caller waited."""
        super().__init__(
            f"the store is in use by another process; gave up after {waited_s:.1f} s",
            waited_s=round(waited_s, 1),
        )


class LeaseHeldError(StorageError):
    """Another run works on this namespace; the asking run ends as skipped_busy."""

    code = "lease_held"

    def __init__(self, *, job: str, reason: str, held_by: str, until: str) -> None:
        """Name the job at work and how long its lease lasts if it is not prolonged."""
        super().__init__(
            f"{job}: a run of {held_by} works on this namespace (its lease lasts until {until})",
            reason=reason,
            held_by=held_by,
            until=until,
        )


class MemoryNotFoundError(StorageError):
    """No memory with this id in the namespace."""

    code = "memory_not_found"

    def __init__(self, memory_id: str) -> None:
        """Name the id."""
        super().__init__(f"no memory {memory_id!r} in this namespace", memory_id=memory_id)


class PlanNotFoundError(StorageError):
    """No stored plan with this id."""

    code = "plan_not_found"

    def __init__(self, plan_id: str) -> None:
        """Name the id."""
        super().__init__(f"no stored plan {plan_id!r}", plan_id=plan_id)


class RunNotFoundError(StorageError):
    """No run with this id."""

    code = "run_not_found"

    def __init__(self, run_id: str) -> None:
        """Name the id."""
        super().__init__(f"no plan and no run {run_id!r}", run_id=run_id)


class FrozenMemoryError(StorageError):
    """The status of the memory does not allow this change."""

    code = "invariant_violation"

    def __init__(self, memory_id: str, status: str) -> None:
        """Name the memory and its status."""
        super().__init__(
            f"memory {memory_id!r} is {status} and cannot be changed",
            memory_id=memory_id,
            status=status,
        )


class ConflictError(StorageError):
    """What was expected is not what was found: read again and decide again."""

    code = "conflict"


class RevisionConflictError(ConflictError):
    """The memory has another revision than the caller expected."""

    code = "revision_conflict"

    def __init__(self, memory_id: str, *, expected: int, actual: int) -> None:
        """Name both revisions."""
        super().__init__(
            f"memory {memory_id!r} has revision {actual}, expected {expected}",
            memory_id=memory_id,
            expected=expected,
            actual=actual,
        )


class FenceLostError(ConflictError):
    """The lease was taken over: this run must stop writing."""

    code = "lease_lost"

    def __init__(self, *, fence: int) -> None:
        """Name the fence that no longer holds."""
        super().__init__(f"the lease with fence {fence} is no longer ours", fence=fence)


class PlanRefusedError(MaintenanceError, ValueError):
    """A safety limit or a wrong confirmation forbids to apply a plan; nothing was written."""

    code = "plan_refused"

    def __init__(self, plan_id: str, limit: str, **figures: float | None) -> None:
        """Name the plan, the limit that was hit and its figures."""
        shown = ", ".join(f"{k} {v}" for k, v in figures.items() if v is not None)
        super().__init__(
            f"plan {plan_id} refused by {limit}" + (f" ({shown})" if shown else ""),
            plan_id=plan_id,
            limit=limit,
            **figures,
        )


class AdmissionError(MaintenanceError, ValueError):
    """An input is invalid; nothing of it was stored."""

    code = "invalid_input"

    def __init__(self, field: str, reason: str, *, record: str | int | None = None) -> None:
        """Name the record (a line number or a path), the field and the reason."""
        where = "" if record is None else f"record {record}: "
        super().__init__(f"{where}{field}: {reason}", record=record, field=field, reason=reason)
        self.field = field
        self.reason = reason


class LimitExceededError(MaintenanceError, ValueError):
    """An input, or an answer, is larger than a limit allows; nothing of it was stored."""

    code = "limit_exceeded"

    def __init__(self, resource: str, *, limit: int, actual: int) -> None:
        """Name the resource and both figures."""
        super().__init__(
            f"{resource}: at most {limit}, found {actual}",
            resource=resource,
            limit=limit,
            actual=actual,
        )


class NamespaceMismatchError(MaintenanceError, ValueError):
    """Something belongs to another namespace, or has a status that was not asked for."""

    code = "namespace_mismatch"

    def __init__(self, context: str) -> None:
        """Name what was being done."""
        super().__init__(f"{context}: another namespace or status", context=context)


class InvariantError(MaintenanceError):
    """A change would break what always holds; nothing of it was stored."""

    code = "invariant_violation"

    def __init__(self, reason: str, memory_id: str | None = None) -> None:
        """Name the memory, if it is about one, and the reason."""
        where = "" if memory_id is None else f"memory {memory_id!r}: "
        super().__init__(f"{where}{reason}", memory_id=memory_id, reason=reason)


class InternalError(MaintenanceError):
    """An unexpected error of another library or of ours; only its class is told."""

    code = "internal"

    def __init__(self, name: str) -> None:
        """Name the class of the error."""
        super().__init__(f"internal:{name}", name=name)
