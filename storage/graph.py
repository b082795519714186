"""What must hold between memories after a change set: both ends of every edge, in fitting statuses.

Source: spec/repository.md R21, R22.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from storage.change_errors import RelationTargetError
from storage.errors import InvariantError
from storage.models import MemoryRecord, Relation, RelationKind, RevisionKind, Status
from storage.staging import Staged

_RETIRED = {Status.SUPERSEDED, Status.TOMBSTONED}
_EXPLAINING = {RelationKind.SUPERSEDED_BY, RelationKind.CONFLICTS_WITH}
# The edges that each memory has in the end, by id.
Held = Mapping[str, frozenset[Relation]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Stored memories next to the changed ones: their statuses, and their edges to those."""

    statuses: Mapping[str, str]
    edges: frozenset[tuple[str, str, str]]  # (memory_id, kind, target_id)


def check_graph(memories: Mapping[str, Staged], around: Surroundings) -> None:
    """Check every changed memory and every neighbour that it touches.

    Raises:
        RelationTargetError: An edge leads to nothing.
        InvariantError: An edge has one end, or does not fit the statuses.
    """
    held = {name: frozenset(one.current.relations) for name, one in memories.items()}
    for staged in memories.values():
        if staged.is_changed:
            _check_memory(staged, memories, held, around)


def _check_memory(
    staged: Staged, memories: Mapping[str, Staged], held: Held, around: Surroundings
) -> None:
    record = staged.current
    before = () if staged.is_new else staged.states[0].relations
    for edge in dict.fromkeys([*before, *record.relations]):
        _check_edge(record, edge, memories, held, around)
    if record.status not in _RETIRED and _has(record, {RelationKind.SUPERSEDED_BY}):
        raise InvariantError("it is superseded by another memory, so it cannot stay", record.id)
    if record.status in {Status.SUPERSEDED, Status.CONFLICTED}:
        became = any(_made(state, record.status) for state in staged.states[1:])
        lost = not held[record.id].issuperset(before)
        if (became or lost) and not _has(record, _EXPLAINING):
            raise InvariantError(f"it is {record.status} without an edge that says why", record.id)


def _made(state: MemoryRecord, status: Status) -> bool:
    """Tell whether this very step gave the status; a restore only gives it back."""
    return state.revision_kind == RevisionKind.STATUS_CHANGED and state.status == status


def _check_edge(
    record: MemoryRecord,
    edge: Relation,
    memories: Mapping[str, Staged],
    held: Held,
    around: Surroundings,
) -> None:
    is_held = edge in held[record.id]
    target = memories.get(edge.target_id)
    status = target.current.status if target else around.statuses.get(edge.target_id)
    if status is None:
        if is_held:
            raise RelationTargetError(record.id, edge.target_id)
        return
    inverse = Relation(kind=edge.kind.inverse, target_id=record.id)
    if target is not None:
        is_mirrored = inverse in held[edge.target_id]
    else:
        is_mirrored = (edge.target_id, inverse.kind.value, record.id) in around.edges
    if is_mirrored != is_held:
        raise InvariantError("an edge has one end only", record.id)
    if is_held and edge.kind == RelationKind.SUPERSEDES and status not in _RETIRED:
        raise InvariantError("it supersedes a memory that is not superseded", record.id)


def _has(record: MemoryRecord, kinds: set[RelationKind]) -> bool:
    return any(edge.kind in kinds for edge in record.relations)
