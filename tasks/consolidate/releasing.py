"""Take a merge back: what becomes of the canonical memory, of the losers, and of their neighbours.

An edited canonical keeps its values; nobody loses a fact. Source: spec/consolidate.md R59, DESIGN
10.18.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from storage import StoreReader
from storage.instants import parse_instant
from storage.merge_receipts import MergeReceipt
from storage.merging import MergeStage
from storage.models import (
    MemoryRecord,
    MemoryState,
    Relation,
    RelationKind,
    RevisionKind,
    Status,
    order_relation,
)
from storage.records import read_history, read_record
from tasks.consolidate.absorbing import mirror_edges, step
from tasks.rules.merging import RESERVED_KEYS, describe_sources

_GONE, _TAKEN, _CHANGED = "gone", "taken", "canonical_changed"
_FORMER = (
    "kind",
    "content",
    "confidence",
    "importance",
    "salience",
    "tags",
    "metadata",
    "pinned",
    "evidence",
)


@dataclass(frozen=True, slots=True)
class Released:
    """What became of a merge that was taken back.

    Attributes:
        released: The losers that are active again.
        skipped: Those that are not, and why: `gone`, or `taken` by something else.
        is_reverted: Whether the canonical has its former fields again.
        warning: Why it has not, although all losers are released.

    An adopted text has no losers: the canonical itself is given back, or skipped.
    """

    released: tuple[str, ...]
    skipped: Mapping[str, str]
    is_reverted: bool
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Histories:
    """The states that members of a merge had before it, by id; whether its canonical is unedited.

    Edges that were added or removed since are no edit: they are judged by themselves.
    """

    former: Mapping[str, MemoryState]
    is_unedited: bool

    def edges(self, memory_id: str) -> tuple[Relation, ...]:
        """Give the edges that a member had."""
        known = self.former.get(memory_id)
        return known.relations if known is not None else ()


def read_histories(reader: StoreReader, namespace_id: int, receipt: MergeReceipt) -> Histories:
    """Read what the members of a merge were before it."""
    revisions = {name: revision - 1 for name, revision in receipt.losers.items()}
    revisions[receipt.canonical_id] = int(receipt.figures["former_revision"])
    states = {name: read_history(reader, namespace_id, name) for name in revisions}
    former = {
        name: state
        for name, revision in revisions.items()
        for state in states[name]
        if state.revision == revision
    }
    canonical = read_record(reader, namespace_id, receipt.canonical_id)
    since = [one for one in (*states[receipt.canonical_id], canonical) if one is not None]
    edits = [
        one
        for one in since
        if one.revision > receipt.revision and one.revision_kind != RevisionKind.RELATION_CHANGED
    ]
    return Histories(former, is_unedited=not edits)


def release_merge(  # noqa: PLR0913 - a merge, what was before it, and what is wanted
    stage: MergeStage,
    receipt: MergeReceipt,
    histories: Histories,
    wanted: Collection[str],
    *,
    left_sources: tuple[str, ...],
    at: datetime,
) -> Released:
    """Release losers of a merge on the stage.

    Args:
        stage: Holds the members, those they have edges with, and those they had edges with.
        receipt: The merge.
        histories: What its members were before it.
        wanted: Which of its losers to release.
        left_sources: The source ids that the canonical has once these are released.
        at: When it happens.
    """
    if not receipt.losers:
        return _give_text_back(stage, receipt, histories, at)
    asked = [name for name in receipt.losers if name in wanted]
    skipped = {name: why for name in asked if (why := _refuse(stage, receipt, name))}
    released = tuple(name for name in asked if name not in skipped)
    canonical = stage.memories.get(receipt.canonical_id)
    if not released or canonical is None:
        return Released(released if canonical else (), skipped, is_reverted=False)
    before = canonical.current
    is_whole = not receipt.losers.keys() - released - list_gone(skipped)
    is_unedited = histories.is_unedited
    if is_whole and is_unedited:
        changes = _revert(before, receipt, histories.former[before.id])
    else:
        changes = _shed(before, left_sources, at)
    former = {
        name: {_follow(stage, before, edge) for edge in histories.edges(name)}
        for name in receipt.losers
    }
    brought = {edge for name in released for edge in former[name]}
    kept = {edge for name in receipt.losers.keys() - released for edge in former[name]}
    edges = _list_edges(before, brought, kept | {*histories.edges(before.id)}, {*released})
    inside = {before.id, *released}
    for name in released:
        loser = stage.memories[name].current
        own = _keep_existing(former[name], stage, inside)
        stage.memories[name].states.append(loser.model_copy(update=_reactivate(loser, own, at)))
    relations = _keep_existing(edges, stage, inside)
    moved = {"relations": relations, **step(before, RevisionKind.RESTORED, at)}
    canonical.states.append(before.model_copy(update={**changes, **moved}))
    touched = {
        edge.target_id
        for name in inside
        for state in (stage.memories[name].states[0], stage.memories[name].current)
        for edge in state.relations
    }
    for name in sorted(touched - inside):
        mirror_edges(stage.memories[name], stage, inside, at)
    warning = _CHANGED if is_whole and not is_unedited else None
    return Released(released, skipped, is_whole and is_unedited, warning)


def _give_text_back(
    stage: MergeStage, receipt: MergeReceipt, histories: Histories, at: datetime
) -> Released:
    canonical = stage.memories.get(receipt.canonical_id)
    if canonical is None or canonical.current.revision != receipt.revision:
        return Released((), {receipt.canonical_id: _CHANGED}, is_reverted=False)
    before = canonical.current
    changes = _revert(before, receipt, histories.former[before.id])
    changes |= step(before, RevisionKind.RESTORED, at)
    canonical.states.append(before.model_copy(update=changes))
    return Released((), {}, is_reverted=True)


def list_gone(skipped: Mapping[str, str]) -> set[str]:
    """List the losers that never come back; where something else took a place, that may change."""
    return {name for name, why in skipped.items() if why == _GONE}


def _refuse(stage: MergeStage, receipt: MergeReceipt, loser_id: str) -> str | None:
    known = stage.memories.get(loser_id)
    if known is None:
        return _GONE
    edge = Relation(kind=RelationKind.SUPERSEDED_BY, target_id=receipt.canonical_id)
    is_merged = known.current.status == Status.SUPERSEDED and edge in known.current.relations
    return None if is_merged else _TAKEN


def _revert(before: MemoryRecord, receipt: MergeReceipt, former: MemoryState) -> dict[str, Any]:
    """Give the former fields; uses since the merge stay."""
    figures = receipt.figures
    changes = {name: getattr(former, name) for name in _FORMER}
    for name in ("created_at", "content_at"):
        changes[name] = parse_instant(figures[name])
    uses = before.access_count - int(figures["merged_uses"]) + int(figures["former_uses"])
    accessed = figures["merged_accessed_at"]
    if before.last_accessed_at == (parse_instant(accessed) if accessed else None):
        former_access = figures["last_accessed_at"]
        changes["last_accessed_at"] = parse_instant(former_access) if former_access else None
    return {**changes, "access_count": uses}


def _shed(before: MemoryRecord, left: tuple[str, ...], at: datetime) -> dict[str, Any]:
    """Keep the values, but for what says whom the canonical stands for."""
    metadata = {key: value for key, value in before.metadata.items() if key not in RESERVED_KEYS}
    return {"metadata": metadata | (describe_sources(left, at) if left else {})}


def _list_edges(
    canonical: MemoryRecord, brought: Iterable[Relation], kept: Collection[Relation], back: set[str]
) -> set[Relation]:
    """List the edges of the canonical once it stands no more for some losers.

    Args:
        canonical: As it is.
        brought: The edges that these losers brought it.
        kept: The edges that it had itself, or has from others.
        back: The losers.
    """
    gone = {Relation(kind=RelationKind.SUPERSEDES, target_id=name) for name in back}
    own = {edge for edge in kept if edge.target_id in back}
    return (set(canonical.relations) - gone - (set(brought) - set(kept))) | own


def _follow(stage: MergeStage, canonical: MemoryRecord, edge: Relation) -> Relation:
    """Give an edge as the canonical has it now: its target may have been merged meanwhile."""
    target = stage.memories.get(edge.target_id)
    if target is None or edge in canonical.relations:
        return edge
    for one in target.current.relations:
        moved = Relation(kind=edge.kind, target_id=one.target_id)
        if one.kind == RelationKind.SUPERSEDED_BY and moved in canonical.relations:
            return moved
    return edge


def _keep_existing(
    edges: Iterable[Relation], stage: MergeStage, inside: Collection[str]
) -> tuple[Relation, ...]:
    """Keep the edges whose other end is there and can hold its half."""
    held = [edge for edge in edges if _can_hold(stage, edge, inside)]
    return tuple(sorted(held, key=order_relation))


def _can_hold(stage: MergeStage, edge: Relation, inside: Collection[str]) -> bool:
    target = stage.memories.get(edge.target_id)
    if target is None:
        return False
    if edge.target_id in inside:
        return True
    is_retired = target.current.status in {Status.SUPERSEDED, Status.TOMBSTONED}
    return is_retired or edge.kind != RelationKind.SUPERSEDES


def _reactivate(
    loser: MemoryRecord, relations: tuple[Relation, ...], at: datetime
) -> dict[str, Any]:
    return {
        "status": Status.ACTIVE,
        "relations": relations,
        "restored_at": at,
        **step(loser, RevisionKind.RESTORED, at),
    }
