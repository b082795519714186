"""Apply the operations of a change set to staged copies, in order; the store is not touched.

Each operation makes one new state of its memory. The order of checks is that of
spec/repository.md 4.3; the first failure ends the whole set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from storage.change_errors import (
    EvidenceRequiredError,
    InvalidTransitionError,
    MemoryExistsError,
)
from storage.changes import (
    Activate,
    AddRelation,
    Annotate,
    Change,
    ChangeSet,
    Corroborate,
    Create,
    Draft,
    Operation,
    RemoveRelation,
    Restore,
    Revise,
    SetStatus,
)
from storage.errors import (
    AdmissionError,
    InvariantError,
    LimitExceededError,
    MemoryNotFoundError,
    NamespaceMismatchError,
    RevisionConflictError,
)
from storage.models import (
    MAX_EVIDENCE,
    MAX_METADATA,
    MAX_RELATIONS,
    Evidence,
    EvidenceKind,
    MemoryRecord,
    Origin,
    Relation,
    RevisionKind,
    Status,
    count_relations,
    order_evidence,
    order_relation,
)

_FROZEN = {Status.SUPERSEDED, Status.TOMBSTONED}
_DECISIONS = {EvidenceKind.MANUAL, EvidenceKind.VERIFICATION}
# Which statuses set_status may give (spec/repository.md 4.2).
_TRANSITIONS = {
    Status.CANDIDATE: {Status.CONFLICTED, Status.TOMBSTONED},
    Status.ACTIVE: {Status.SUPERSEDED, Status.CONFLICTED, Status.TOMBSTONED},
    Status.SUPERSEDED: {Status.TOMBSTONED},
    Status.CONFLICTED: {Status.SUPERSEDED, Status.TOMBSTONED},
    Status.TOMBSTONED: set[Status](),
}


@dataclass(slots=True)
class Staged:
    """A memory while a set is applied: the states it goes through, the stored one first."""

    states: list[MemoryRecord]
    is_new: bool = False

    @property
    def current(self) -> MemoryRecord:
        """The state after the operations so far."""
        return self.states[-1]

    @property
    def is_changed(self) -> bool:
        """Whether any operation touched it."""
        return self.is_new or len(self.states) > 1


@dataclass(slots=True)
class Stage:
    """All memories that a set names, by id; `status_before` reads what a tombstone hides."""

    occurred_at: datetime
    memories: dict[str, Staged]
    status_before: Callable[[str], Status]
    changed: list[str] = field(default_factory=list)


def run_operations(change_set: ChangeSet, stage: Stage) -> None:
    """Run all operations of a set on its stage.

    Raises:
        MaintenanceError: The first refusal, typed as in spec/repository.md 4.4.
    """
    for operation in change_set.operations:
        _run(operation, change_set, stage)


def _run(operation: Operation, change_set: ChangeSet, stage: Stage) -> None:
    if isinstance(operation, Create):
        _create(operation.memory, change_set, stage)
        return
    _check_evidence(operation, stage.occurred_at)
    memory_id = operation.memory_id
    staged = stage.memories.get(memory_id)
    if staged is None:
        raise MemoryNotFoundError(memory_id)
    before = staged.current
    if before.revision != operation.expected_revision:
        expected, actual = operation.expected_revision, before.revision
        raise RevisionConflictError(memory_id, expected=expected, actual=actual)
    _check_status(operation, before)
    changes = _change(operation, before, stage)
    if before.updated_at is not None and stage.occurred_at < before.updated_at:
        raise AdmissionError("change_set.occurred_at", "lies before the memory's updated_at")
    step = {"revision": before.revision + 1, "updated_at": stage.occurred_at}
    staged.states.append(before.model_copy(update={**changes, **step}))


def _create(draft: Draft, change_set: ChangeSet, stage: Stage) -> None:
    if draft.namespace is not None and draft.namespace != change_set.namespace:
        raise NamespaceMismatchError("create")
    if draft.status not in {Status.CANDIDATE, Status.ACTIVE}:
        raise InvalidTransitionError(draft.id, before="absent", after=draft.status)
    if draft.created_at > stage.occurred_at:
        raise AdmissionError("memory.created_at", "lies after the set's occurred_at")
    if draft.id in stage.memories:
        raise MemoryExistsError(draft.id)
    _check_times(draft.evidence, stage.occurred_at)
    if draft.status == Status.ACTIVE and not has_decision(draft.evidence):
        raise EvidenceRequiredError(draft.id, "decision")
    evidence = _add_evidence(draft.id, (), draft.evidence)
    relations = _add_relations(draft.id, (), draft.relations)
    values = {name: getattr(draft, name) for name in type(draft).model_fields}
    record = MemoryRecord.model_construct(
        **{
            **values,
            "evidence": evidence,
            "relations": relations,
            "revision": 1,
            "revision_kind": RevisionKind.CREATED,
            "updated_at": draft.created_at,
            "content_at": draft.created_at,
            "namespace": None,
            "origin": Origin.CHANGE_SET,
        }
    )
    stage.memories[draft.id] = Staged([record], is_new=True)


def _check_evidence(operation: Change, occurred_at: datetime) -> None:
    if not isinstance(operation, Activate | Corroborate | Revise):
        return
    if isinstance(operation, Activate) and not has_decision(operation.evidence):
        raise EvidenceRequiredError(operation.memory_id, "decision")
    if not operation.evidence:
        raise EvidenceRequiredError(operation.memory_id, "any")
    _check_times(operation.evidence, occurred_at)


def _check_times(evidence: tuple[Evidence, ...], occurred_at: datetime) -> None:
    if any(item.occurred_at > occurred_at for item in evidence):
        raise AdmissionError("evidence.occurred_at", "lies after the set's occurred_at")


def has_decision(evidence: tuple[Evidence, ...]) -> bool:
    """Tell whether any evidence is a decision: manual or verification."""
    return any(item.kind in _DECISIONS for item in evidence)


def _check_status(operation: Change, before: MemoryRecord) -> None:
    after: str | None = None
    if isinstance(operation, Activate) and before.status != Status.CANDIDATE:
        after = Status.ACTIVE
    elif isinstance(operation, SetStatus):
        if operation.status not in _TRANSITIONS[before.status]:
            after = operation.status
    elif isinstance(operation, Restore):
        after = None if before.status == Status.TOMBSTONED else "restored"
    elif not isinstance(operation, Activate) and before.status in _FROZEN:
        raise InvariantError(f"it is {before.status} and cannot be changed", before.id)
    if after is not None:
        raise InvalidTransitionError(before.id, before=before.status, after=after)


def _change(operation: Change, before: MemoryRecord, stage: Stage) -> dict[str, Any]:
    """Give the fields that one operation changes."""
    writing = {"content_at": stage.occurred_at}
    match operation:
        case Activate() | Corroborate():
            is_activation = isinstance(operation, Activate)
            kind = RevisionKind.ACTIVATED if is_activation else RevisionKind.CORROBORATED
            status = Status.ACTIVE if is_activation else before.status
            evidence = _add_evidence(before.id, before.evidence, operation.evidence)
            fields = {"status": status, "evidence": evidence, **writing}
        case Revise():
            kind, fields = _revise(operation, before, writing)
        case AddRelation():
            kind = RevisionKind.RELATION_CHANGED
            relations = _add_relations(before.id, before.relations, (operation.relation,))
            fields = {"relations": relations}
        case RemoveRelation():
            kind = RevisionKind.RELATION_CHANGED
            fields = {"relations": _remove_relation(before, operation.relation)}
        case SetStatus():
            kind = RevisionKind.STATUS_CHANGED
            gone = stage.occurred_at if operation.status == Status.TOMBSTONED else None
            fields = {"status": operation.status, "tombstoned_at": gone}
        case Restore():
            kind = RevisionKind.RESTORED
            status = _status_before(before.id, stage)
            fields = {
                "status": status,
                "restored_at": stage.occurred_at,
                "tombstoned_at": None,
            }
        case Annotate():
            kind = RevisionKind.ANNOTATED
            fields = _annotate(operation, before)
    return {**fields, "revision_kind": kind}


def _revise(
    operation: Revise, before: MemoryRecord, writing: Mapping[str, Any]
) -> tuple[RevisionKind, dict[str, Any]]:
    modes = {"refinement": RevisionKind.REFINED, "correction": RevisionKind.CORRECTED}
    fields: dict[str, Any] = {"content": operation.content, **writing}
    fields["evidence"] = _add_evidence(before.id, before.evidence, operation.evidence)
    for name in ("confidence", "importance"):
        if getattr(operation, name) is not None:
            fields[name] = getattr(operation, name)
    return modes[operation.mode], fields


def _annotate(operation: Annotate, before: MemoryRecord) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(operation, name) for name in operation.given}
    if "metadata" in fields:
        merged = {**before.metadata, **operation.metadata}
        fields["metadata"] = {key: text for key, text in merged.items() if text is not None}
        if len(fields["metadata"]) > MAX_METADATA:
            actual = len(fields["metadata"])
            raise LimitExceededError("memory metadata", limit=MAX_METADATA, actual=actual)
    if all(getattr(before, name) == value for name, value in fields.items()):
        raise AdmissionError("operation", "would change nothing")
    return fields


def _status_before(memory_id: str, stage: Stage) -> Status:
    earlier = reversed(stage.memories[memory_id].states)
    staged = next((one.status for one in earlier if one.status != Status.TOMBSTONED), None)
    return staged or stage.status_before(memory_id)


def _add_evidence(
    memory_id: str, held: tuple[Evidence, ...], new: tuple[Evidence, ...]
) -> tuple[Evidence, ...]:
    both = [*held, *new]
    if len({item.uri for item in both}) != len(both):
        raise InvariantError("an evidence uri occurs once per memory", memory_id)
    if len(both) > MAX_EVIDENCE:
        raise LimitExceededError("memory evidence", limit=MAX_EVIDENCE, actual=len(both))
    return tuple(sorted(both, key=order_evidence))


def _add_relations(
    memory_id: str, held: tuple[Relation, ...], new: tuple[Relation, ...]
) -> tuple[Relation, ...]:
    both = [*held, *new]
    if any(edge.target_id == memory_id for edge in new):
        raise InvariantError("an edge to itself", memory_id)
    if len(set(both)) != len(both):
        raise InvariantError("the same edge twice", memory_id)
    actual = count_relations(both)
    if actual > MAX_RELATIONS:
        raise LimitExceededError("memory relations", limit=MAX_RELATIONS, actual=actual)
    return tuple(sorted(both, key=order_relation))


def _remove_relation(before: MemoryRecord, edge: Relation) -> tuple[Relation, ...]:
    if edge not in before.relations:
        raise InvariantError("no such edge", before.id)
    return tuple(held for held in before.relations if held != edge)
