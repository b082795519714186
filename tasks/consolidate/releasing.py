"""Take a merge back: what becomes of the canonical memory, of the losers, and of their neighbours.

An edited canonical keeps its values; nobody loses a fact. Source: spec/consolidate.md R59, DESIGN
10.18.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

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
from tasks.consolidate.absorbing import mirror_edges, step
from tasks.consolidate.histories import Histories
from tasks.rules.merging import COUNT, RESERVED_KEYS, describe_sources

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
        return _give_text_back(stage, receipt, histories, left_sources, at)
    asked = [name for name in receipt.losers if name in wanted]
    skipped = {name: why for name in asked if (why := _refuse(stage, receipt, name))}
    released = tuple(name for name in asked if name not in skipped)
    if not released:
        return Released((), skipped, is_reverted=False)
    before = stage.memories[receipt.canonical_id].current
    is_whole = not receipt.losers.keys() - released - list_gone(skipped)
    former = histories.former if is_whole else None
    if former is not None:
        values = _revert(before, former, histories, left_sources, at)
    else:
        values = {"metadata": _recount(before.metadata, left_sources, at)}
    edges = _part_edges(stage, before, histories, {*released})
    for name, own in edges.items():
        one = stage.memories[name]
        given = values if name == before.id else {"status": Status.ACTIVE, "restored_at": at}
        given |= {"relations": _keep_existing(own, stage, edges.keys())}
        given |= step(one.current, RevisionKind.RESTORED, at)
        one.states.append(one.current.model_copy(update=given))
    mirror_edges(stage, edges.keys(), at)
    warning = _CHANGED if is_whole and former is None else None
    return Released(released, skipped, former is not None, warning)


def _give_text_back(
    stage: MergeStage,
    receipt: MergeReceipt,
    histories: Histories,
    left: tuple[str, ...],
    at: datetime,
) -> Released:
    canonical, former = stage.memories.get(receipt.canonical_id), histories.former
    is_same = canonical is not None and canonical.current.revision == receipt.revision
    if canonical is None or former is None or not is_same:
        return Released((), {receipt.canonical_id: _CHANGED}, is_reverted=False)
    before = canonical.current
    values = _revert(before, former, histories, left, at)
    values |= step(before, RevisionKind.RESTORED, at)
    canonical.states.append(before.model_copy(update=values))
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


def _revert(
    before: MemoryRecord,
    former: MemoryState,
    histories: Histories,
    left: tuple[str, ...],
    at: datetime,
) -> dict[str, Any]:
    """Give the former fields; uses since the merges stay, and who was released before is gone."""
    changes = {name: getattr(former, name) for name in _FORMER}
    if not histories.is_first and former.metadata.get(COUNT) != str(len(left)):
        changes["metadata"] = _recount(former.metadata, left, at)
    latest, first = histories.undone[0].figures, histories.undone[-1].figures
    for name in ("created_at", "content_at"):
        changes[name] = parse_instant(first[name])
    if before.last_accessed_at == _parse(latest["merged_accessed_at"]):
        changes["last_accessed_at"] = _parse(first["last_accessed_at"])
    figures = [one.figures for one in histories.undone]
    gained = sum(one["merged_uses"] - one["former_uses"] for one in figures)
    return {**changes, "access_count": before.access_count - gained}


def _parse(instant: str | None) -> datetime | None:
    return parse_instant(instant) if instant else None


def _recount(metadata: Mapping[str, str], left: tuple[str, ...], at: datetime) -> dict[str, str]:
    """Say anew whom a memory stands for."""
    kept = {key: value for key, value in metadata.items() if key not in RESERVED_KEYS}
    return kept | (describe_sources(left, at) if left else {})


def _part_edges(
    stage: MergeStage, canonical: MemoryRecord, histories: Histories, back: Collection[str]
) -> dict[str, set[Relation]]:
    """Give the edges of the canonical, and of losers that it gives back, by id.

    It keeps those that it had itself, that people gave it since, or that it has from others.
    """
    held = histories.edges.keys() - back

    def follow(edges: Iterable[Relation]) -> set[Relation]:
        return {_follow(stage, canonical, edge, held) for edge in edges}

    parted = {name: follow(histories.edges[name]) for name in back}
    brought = {edge for each in parted.values() for edge in each}
    brought |= {Relation(kind=RelationKind.SUPERSEDES, target_id=name) for name in back}
    kept = follow(histories.own).union(*(follow(histories.edges[name]) for name in held))
    own = {edge for edge in kept if edge.target_id in back}
    parted[canonical.id] = (set(canonical.relations) - (brought - kept)) | own
    superseded = Relation(kind=RelationKind.SUPERSEDED_BY, target_id=canonical.id)
    for name in back:
        # What it got meanwhile stays.
        parted[name] |= {*stage.memories[name].current.relations} - {superseded}
    for name, edges in parted.items():
        for edge in [*edges]:
            if edge.target_id in parted:
                inverse = Relation(kind=edge.kind.inverse, target_id=name)
                parted[edge.target_id].add(inverse)
    return parted


def _follow(
    stage: MergeStage, canonical: MemoryRecord, edge: Relation, held: Collection[str]
) -> Relation:
    """Give an edge as it is now: its target may have been merged meanwhile.

    Either way the canonical has it in its place, or took the target in: that is `held`.
    """
    target = stage.memories.get(edge.target_id)
    if target is None or edge in canonical.relations:
        return edge
    for one in target.current.relations:
        if one.kind == RelationKind.SUPERSEDED_BY:
            moved = Relation(kind=edge.kind, target_id=one.target_id)
            is_here = one.target_id == canonical.id and edge.target_id in held
            if moved in canonical.relations or is_here:
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
