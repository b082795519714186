"""What the members of a merge were before it, and how far an undo of it can go back.

A canonical goes back as soon as nobody else has changed it and no later merge holds. A merge that
is taken back before a later one leaves its values; they go with the later one.
Source: spec/consolidate.md R59.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage import StoreReader
from storage.memories import read_relations
from storage.merge_receipts import MergeReceipt, list_receipts
from storage.models import MemoryState, Relation, RelationKind, RevisionKind, Status
from storage.records import read_history, read_record

# None of the fields that a merge gives is changed by these.
_HARMLESS = {RevisionKind.RELATION_CHANGED, RevisionKind.STATUS_CHANGED, RevisionKind.RESTORED}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Histories:
    """What was before a merge.

    Attributes:
        own: The edges that the canonical had then and that no merge had brought it.
        edges: By id, the edges that each loser had when it was taken in: those of this merge, and
            those that other merges of the canonical still hold.
        former: The state that the canonical goes back to; None: it keeps its values.
        undone: The merges that this undoes, the latest first.
        is_first: No earlier merge of the canonical could be taken back then.
    """

    own: frozenset[Relation]
    edges: Mapping[str, frozenset[Relation]]
    former: MemoryState | None
    undone: tuple[MergeReceipt, ...]
    is_first: bool


def read_histories(reader: StoreReader, namespace_id: int, receipt: MergeReceipt) -> Histories:
    """Read what the members of a merge were before it."""
    name = receipt.canonical_id
    receipts = list_receipts(reader, namespace_id, name)
    current = read_record(reader, namespace_id, name)
    states = read_history(reader, namespace_id, name)
    if current is not None:
        states = (*states, current)
    kinds = {state.revision: state.revision_kind for state in states}
    rows = read_relations(reader, namespace_id, [name])
    brought = _list_brought(rows, kinds)
    held = {loser: revision for one in receipts for loser, revision in one.losers.items()}
    taken = _read_taken(reader, namespace_id, name, rows, held)
    undone = _find_undone(receipt, receipts, states)
    target = undone[-1].former_revision if undone else None
    return Histories(
        own=_pick(rows, receipt.former_revision) - brought,
        edges={loser: _resolve(loser, name, taken, brought) for loser in held},
        former=next((state for state in states if state.revision == target), None),
        undone=undone,
        is_first=target == min(one.former_revision for one in receipts),
    )


def _read_taken(
    reader: StoreReader,
    namespace_id: int,
    canonical_id: str,
    rows: Sequence[Row],
    held: Mapping[str, int],
) -> dict[str, frozenset[Relation]]:
    """Read the edges that memories had before the canonical superseded them, by id.

    Of those that it does not hold any more, before it did so the first time.
    """
    targets = {row["target_id"] for row in rows if row["kind"] == RelationKind.SUPERSEDES}
    edges: defaultdict[str, list[Row]] = defaultdict(list)
    for row in read_relations(reader, namespace_id, sorted(targets)):
        edges[row["memory_id"]].append(row)
    superseded = Relation(kind=RelationKind.SUPERSEDED_BY, target_id=canonical_id)
    since = {
        name: row["since_revision"]
        for name, each in edges.items()
        for row in reversed(each)
        if _read_edge(row) == superseded
    }
    since |= held
    return {name: _pick(edges[name], revision - 1) for name, revision in since.items()}


def _resolve(
    loser_id: str,
    canonical_id: str,
    taken: Mapping[str, frozenset[Relation]],
    brought: Collection[Relation],
) -> frozenset[Relation]:
    """Give the edges of a loser; one to the canonical may be that of another loser in truth."""
    found = set()
    for edge in taken.get(loser_id, ()):
        inverse = Relation(kind=edge.kind.inverse, target_id=loser_id)
        if edge.target_id == canonical_id and inverse in brought:
            holders = [name for name, edges in taken.items() if inverse in edges]
            found |= {Relation(kind=edge.kind, target_id=name) for name in holders}
        else:
            found.add(edge)
    return frozenset(found)


def _pick(rows: Sequence[Row], revision: int) -> frozenset[Relation]:
    """Pick the edges that held at a revision."""
    return frozenset(
        _read_edge(row)
        for row in rows
        if row["since_revision"] <= revision
        and (row["until_revision"] is None or revision < row["until_revision"])
    )


def _list_brought(rows: Sequence[Row], kinds: Mapping[int, RevisionKind]) -> set[Relation]:
    """List the edges that a memory got by merges; rows of an edge are in order of revisions."""
    first = {_read_edge(row): row["since_revision"] for row in reversed(rows)}
    return {edge for edge, since in first.items() if kinds.get(since) == RevisionKind.MERGED}


def _read_edge(row: Row) -> Relation:
    return Relation(kind=RelationKind(row["kind"]), target_id=row["target_id"])


def _find_undone(
    receipt: MergeReceipt, receipts: Sequence[MergeReceipt], states: Sequence[MemoryState]
) -> tuple[MergeReceipt, ...]:
    """Find the merges that are undone with one, the latest first; none: it has to stay."""
    holds_later = any(one.losers for one in receipts if one.revision > receipt.revision)
    is_retired = any(state.status == Status.SUPERSEDED for state in states[-1:])
    edited = max((one.revision for one in states if _is_edit(one, receipts)), default=0)
    if holds_later or is_retired or edited > receipt.former_revision:
        return ()
    undone = [receipt]
    for one in reversed(receipts):
        if one.revision > receipt.former_revision:
            continue
        if one.released_at is None or edited > one.former_revision:
            break
        if one.keeps_values:
            undone.append(one)
    return tuple(undone)


def _is_edit(state: MemoryState, receipts: Collection[MergeReceipt]) -> bool:
    """Tell whether a revision changed values, and is of no merge that can be taken back."""
    if state.revision_kind == RevisionKind.MERGED:
        return not any(one.former_revision < state.revision <= one.revision for one in receipts)
    return state.revision_kind not in _HARMLESS
