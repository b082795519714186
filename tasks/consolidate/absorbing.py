"""What a merge makes of every memory that it touches: canonical, losers, and their neighbours.

Pure functions on staged states; nothing is read or written. Source: spec/consolidate.md R44,
R50-R56.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from storage.errors import LimitExceededError
from storage.instants import format_instant
from storage.merging import MergeStage
from storage.models import (
    MemoryRecord,
    Relation,
    RelationKind,
    RevisionKind,
    Status,
    order_relation,
)
from tasks.rules.merging import Absorption, Merged, absorb_losers, adopt_text, choose_text

AWAITING, LIMIT = "awaiting_vector", "limit_exceeded"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A canonical and losers that one change set takes in, as they are on the stage."""

    canonical: MemoryRecord
    losers: tuple[MemoryRecord, ...]

    @property
    def members(self) -> tuple[MemoryRecord, ...]:
        """All of them, the canonical first."""
        return self.canonical, *self.losers


@dataclass(frozen=True, slots=True)
class Merging:
    """What became of a cluster: who merged, who was skipped and why, and the merge itself.

    `merged` without any `absorbed` is a text that was adopted.
    """

    absorbed: tuple[str, ...]
    skipped: Mapping[str, str]
    merged: Merged | None


def merge_cluster(
    stage: MergeStage,
    cluster: Cluster,
    held: Mapping[str, Sequence[str]],
    *,
    waiting: Collection[str] | None,
    at: datetime,
) -> Merging:
    """Merge a cluster on the stage, as far as the vector index and the limits allow.

    Args:
        stage: Holds every memory that a member has an edge with.
        cluster: Who is merged.
        held: The stored source ids of members that have some.
        waiting: The memories whose text the serving generation does not serve; None: there is none.
        at: When it happens.
    """
    canonical, losers = cluster.canonical, cluster.losers
    names = tuple(one.id for one in losers)
    if waiting is not None:
        has_other_text = choose_text(cluster.members).content != canonical.content
        if has_other_text or canonical.id in waiting:
            adopted = _adopt(stage, cluster, at) if has_other_text else None
            reason = LIMIT if has_other_text and adopted is None else AWAITING
            return Merging((), dict.fromkeys(names, reason), adopted)
    absorption = absorb_losers(canonical, losers, held, at=at)
    if absorption is None:
        return Merging((), dict.fromkeys(names, LIMIT), None)
    _stage_absorption(stage, canonical, absorption, at)
    absorbed = tuple(one.id for one in absorption.losers)
    return Merging(absorbed, dict.fromkeys(absorption.skipped, LIMIT), absorption.merged)


def describe_former(canonical: MemoryRecord, merged: Merged) -> dict[str, Any]:
    """Say what an undo needs beside the history: clocks and uses, before and after."""
    after = merged.record
    figures: dict[str, Any] = {
        "former_revision": canonical.revision,
        "former_uses": canonical.access_count,
        "merged_uses": after.access_count,
    }
    for name in ("created_at", "content_at", "last_accessed_at"):
        figures[name] = _say(getattr(canonical, name))
    figures["merged_accessed_at"] = _say(after.last_accessed_at)
    if merged.replaced_kind is not None:
        figures["replaced_kind"] = merged.replaced_kind.value
    if merged.losses:
        figures["losses"] = len(merged.losses)
    return figures


def _say(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)


def _adopt(stage: MergeStage, cluster: Cluster, at: datetime) -> Merged | None:
    try:
        merged = adopt_text(cluster.members, at=at)
    except LimitExceededError:
        return None
    stage.memories[cluster.canonical.id].states.append(merged.record)
    return merged


def _stage_absorption(
    stage: MergeStage, canonical: MemoryRecord, absorption: Absorption, at: datetime
) -> None:
    superseded = Relation(kind=RelationKind.SUPERSEDED_BY, target_id=canonical.id)
    stage.memories[canonical.id].states.append(absorption.merged.record)
    for loser in absorption.losers:
        changes = {
            "status": Status.SUPERSEDED,
            "relations": (superseded,),
            **step(loser, RevisionKind.STATUS_CHANGED, at),
        }
        stage.memories[loser.id].states.append(loser.model_copy(update=changes))
    mirror_edges(stage, {canonical.id, *(one.id for one in absorption.losers)}, at)


def mirror_edges(stage: MergeStage, inside: Collection[str], at: datetime) -> None:
    """Give all others the edges that mirror those which the latest step gave the ones `inside`."""
    touched: set[str] = set()
    mirrored: defaultdict[str, list[Relation]] = defaultdict(list)
    for name in inside:
        states = stage.memories[name].states
        touched |= {edge.target_id for state in states[-2:] for edge in state.relations}
        for edge in states[-1].relations:
            inverse = Relation(kind=edge.kind.inverse, target_id=name)
            mirrored[edge.target_id].append(inverse)
    for name in sorted(touched.difference(inside)):
        staged = stage.memories[name]
        before = staged.current
        own = [edge for edge in before.relations if edge.target_id not in inside]
        relations = tuple(sorted((*own, *mirrored[name]), key=order_relation))
        if relations != before.relations:
            changes = {"relations": relations, **step(before, RevisionKind.RELATION_CHANGED, at)}
            staged.states.append(before.model_copy(update=changes))


def step(before: MemoryRecord, kind: RevisionKind, at: datetime) -> dict[str, Any]:
    """Give what every change of a memory moves."""
    return {
        "revision": before.revision + 1,
        "revision_kind": kind,
        "updated_at": max(at, before.updated_at or at),
    }
