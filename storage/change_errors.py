"""Why a change set or an access event was refused; nothing of it was stored.

The codes and facts are those of spec/repository.md 4.4; the general ones stand in storage.errors.
"""

from storage.errors import ConflictError, MaintenanceError


class ChangeError(MaintenanceError):
    """The root of refusals by the repository's rules."""


class MemoryExistsError(ChangeError):
    """A create names an id that the namespace has used before."""

    code = "memory_already_exists"

    def __init__(self, memory_id: str) -> None:
        """Name the id."""
        super().__init__(f"memory {memory_id!r} exists already", memory_id=memory_id)


class RevisionNotFoundError(ChangeError):
    """An access event names a revision that never was."""

    code = "revision_not_found"

    def __init__(self, memory_id: str, revision: int) -> None:
        """Name the memory and the revision."""
        super().__init__(
            f"memory {memory_id!r} never had revision {revision}",
            memory_id=memory_id,
            revision=revision,
        )


class RelationTargetError(ChangeError):
    """An edge leads to nothing."""

    code = "relation_target_not_found"

    def __init__(self, memory_id: str, target_id: str) -> None:
        """Name both ends."""
        super().__init__(
            f"memory {memory_id!r} has an edge to {target_id!r}, which does not exist",
            memory_id=memory_id,
            target_id=target_id,
        )


class EvidenceRequiredError(ChangeError):
    """An operation lacks the evidence that it needs."""

    code = "evidence_required"

    def __init__(self, memory_id: str, need: str) -> None:
        """Name the memory and what it needs: any evidence, or a decision."""
        super().__init__(
            f"memory {memory_id!r} needs {need} evidence", memory_id=memory_id, need=need
        )


class AdmissionNotAllowedError(ChangeError):
    """A memory may not enter a context: not active, not current, or expired."""

    code = "admission_not_allowed"

    def __init__(
        self, memory_id: str, revision: int, *, current_revision: int, current_status: str
    ) -> None:
        """Name what was asked for and what is there."""
        super().__init__(
            f"memory {memory_id!r} revision {revision} may not be admitted: it is {current_status} "
            f"at revision {current_revision}",
            memory_id=memory_id,
            revision=revision,
            current_revision=current_revision,
            current_status=current_status,
        )


class IdempotencyConflictError(ConflictError):
    """A key or an event id was used before with other input."""

    code = "idempotency_conflict"

    def __init__(self, key: str) -> None:
        """Name the key."""
        super().__init__(f"key {key!r} was used before with other input", key=key)


class InvalidTransitionError(ChangeError):
    """The status of a memory does not allow this step."""

    code = "invalid_transition"

    def __init__(self, memory_id: str, *, before: str, after: str) -> None:
        """Name the memory and both statuses; `absent` for a memory that is not there yet."""
        super().__init__(
            f"memory {memory_id!r} cannot go from {before} to {after}",
            memory_id=memory_id,
            **{"from": before, "to": after},
        )
