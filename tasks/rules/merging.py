"""Merge memories that say the same into one: what it keeps of each, and what it cannot keep.

Pure functions over records; nothing is read or written. One implementation for the store API, which
merges an item without a row, and for consolidation. Source: spec/consolidate.md R44, R51-R56.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from storage.encoding import shorten_instant
from storage.errors import LimitExceededError
from storage.instants import format_instant
from storage.models import (
    MAX_EVIDENCE,
    MAX_METADATA,
    MAX_RELATIONS,
    MAX_TAGS,
    MAX_VALUE_BYTES,
    Evidence,
    Kind,
    MemoryRecord,
    Relation,
    RelationKind,
    RevisionKind,
    order_evidence,
    order_relation,
    without_repeats,
)
from storage.staging import has_decision

_STRENGTH = {Kind.PROCEDURAL: 3, Kind.SEMANTIC: 3, Kind.EPISODIC: 2, Kind.WORKING: 1}
_LIST_KEYS = frozenset({"supersedes", "conflicts_with", "tools", "aliases", "entity_aliases"})
COUNT, _SOURCE_IDS = "duplicate_count", "duplicate_ids"
RESERVED_KEYS = frozenset({COUNT, _SOURCE_IDS, "last_duplicate_at"})
_MOVED_EDGES = frozenset({RelationKind.RELATED_TO, RelationKind.CONFLICTS_WITH})
_SECRET = re.compile("secret|token|passw|api[ _-]?key|credential|authorization", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge: the canonical as it becomes, the ids that it takes in, and what it cannot keep.

    `losses` are metadata values, as {key, kept, lost, from}; `replaced_kind` is the canonical's own
    kind where a stronger one took its place.
    """

    record: MemoryRecord
    source_ids: tuple[str, ...]
    losses: tuple[dict[str, str], ...]
    replaced_kind: Kind | None


@dataclass(frozen=True, slots=True)
class Absorption:
    """What a canonical can take in: the merge, its losers, and the ids that would break a limit."""

    merged: Merged
    losers: tuple[MemoryRecord, ...]
    skipped: tuple[str, ...]


def merge_records(
    members: Sequence[MemoryRecord], held: Mapping[str, Sequence[str]], *, at: datetime
) -> Merged:
    """Merge memories into the first of them, in one revision; relations stay as they are.

    Args:
        members: The canonical and then the losers, in canonical order.
        held: The stored source ids of members that have some.
        at: When the merge happens.

    Raises:
        LimitExceededError: The canonical would get too many tags or keys, or too long a value.
    """
    canonical = members[0]
    source_ids = _gather_sources(members[1:], held, canonical.id)
    known = (*list_sources(canonical, held), *source_ids)
    sources = without_repeats(tuple(one for one in known if one != canonical.id))
    return _merge(members, describe_sources(sources, at), source_ids, at=at)


def adopt_text(members: Sequence[MemoryRecord], *, at: datetime) -> Merged:
    """Give the canonical the text and the merged fields of all, but take nobody in yet (R56).

    Raises:
        LimitExceededError: As `merge_records`.
    """
    metadata = members[0].metadata
    own = {key: metadata[key] for key in sorted(RESERVED_KEYS & metadata.keys())}
    return _merge(members, own, (), at=at)


def absorb_losers(
    canonical: MemoryRecord,
    losers: Sequence[MemoryRecord],
    held: Mapping[str, Sequence[str]],
    *,
    at: datetime,
) -> Absorption | None:
    """Merge as many losers, in canonical order, as the limits of the canonical allow (R44).

    Its relations are those of `move_relations`. None: no loser fits.
    """
    fitting = tuple(losers)
    try:
        merged = _merge_with_relations((canonical, *fitting), held, at)
    except LimitExceededError:
        fitting = _find_fitting(canonical, losers, held, at)
        if not fitting:
            return None
        merged = _merge_with_relations((canonical, *fitting), held, at)
    taken = {one.id for one in fitting}
    skipped = tuple(one.id for one in losers if one.id not in taken)
    return Absorption(merged, fitting, skipped)


def _find_fitting(
    canonical: MemoryRecord,
    losers: Iterable[MemoryRecord],
    held: Mapping[str, Sequence[str]],
    at: datetime,
) -> tuple[MemoryRecord, ...]:
    """Find the losers that fit, each beside the ones before it that do."""
    fitting: tuple[MemoryRecord, ...] = ()
    for one in losers:
        with suppress(LimitExceededError):
            _merge_with_relations((canonical, *fitting, one), held, at)
            fitting += (one,)
    return fitting


def choose_text(members: Sequence[MemoryRecord]) -> MemoryRecord:
    """Choose whose text a merge keeps; of equals the first (R51)."""
    return max(members, key=_rank_text)


def move_relations(members: Sequence[MemoryRecord]) -> tuple[Relation, ...]:
    """Give the edges of the canonical once it has taken the losers in (R55).

    It keeps its own ones, gets the `related_to` and `conflicts_with` edges of losers to outsiders,
    and supersedes every loser and whatever a loser superseded. Edges inside are dropped.

    Raises:
        LimitExceededError: Too many; the edges that say what is superseded do not count.
    """
    canonical, losers = members[0], members[1:]
    inside = {one.id for one in members}
    held = [edge for edge in canonical.relations if edge.target_id not in inside]
    moved = [
        edge
        for one in losers
        for edge in one.relations
        if edge.kind in _MOVED_EDGES and edge.target_id not in inside
    ]
    counted = {edge for edge in (*held, *moved) if edge.kind != RelationKind.SUPERSEDES}
    if len(counted) > MAX_RELATIONS:
        raise LimitExceededError("memory relations", limit=MAX_RELATIONS, actual=len(counted))
    inherited = [
        edge.target_id
        for one in members
        for edge in one.relations
        if edge.kind == RelationKind.SUPERSEDES
    ]
    targets = {*inherited, *inside} - {canonical.id}
    superseding = {Relation(kind=RelationKind.SUPERSEDES, target_id=target) for target in targets}
    return tuple(sorted(counted | superseding, key=order_relation))


def _merge_with_relations(
    members: Sequence[MemoryRecord], held: Mapping[str, Sequence[str]], at: datetime
) -> Merged:
    merged = merge_records(members, held, at=at)
    record = merged.record.model_copy(update={"relations": move_relations(members)})
    return replace(merged, record=record)


def _merge(
    members: Sequence[MemoryRecord],
    described: Mapping[str, str],
    source_ids: tuple[str, ...],
    *,
    at: datetime,
) -> Merged:
    canonical, winner = members[0], choose_text(members)
    metadata, losses = _merge_metadata(members)
    metadata |= described
    tags = without_repeats(tuple(tag for one in members for tag in one.tags))
    _check_limits(tags, metadata)
    kind = max((one.kind for one in members), key=_STRENGTH.__getitem__)
    changes = {
        "revision": canonical.revision + 1,
        "revision_kind": RevisionKind.MERGED,
        "kind": kind,
        "content": winner.content,
        "confidence": winner.confidence,
        "evidence": _join_evidence(canonical.evidence, winner.evidence),
        "tags": tags,
        "metadata": metadata,
        "pinned": any(one.pinned for one in members),
        "created_at": min(one.created_at for one in members if one.created_at is not None),
        "updated_at": at,
        **{name: _latest(getattr(one, name) for one in members) for name in _LATEST},
    }
    replaced = canonical.kind if kind != canonical.kind else None
    return Merged(canonical.model_copy(update=changes), source_ids, losses, replaced)


_LATEST = ("importance", "salience", "access_count", "last_accessed_at", "content_at")


def _latest(values: Iterable[Any]) -> Any:  # noqa: ANN401 - numbers and instants alike
    return max((value for value in values if value is not None), default=None)


def _rank_text(one: MemoryRecord) -> tuple[bool, bool, float, int]:
    return one.pinned, has_decision(one.evidence), one.importance, len(one.content)


def list_sources(one: MemoryRecord, held: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """List the ids that a memory has taken in: those that it names, and the stored ones."""
    words = one.metadata.get(_SOURCE_IDS, "").split(",")
    named = (word for text in words if (word := text.strip()))
    return without_repeats((*named, *held.get(one.id, ())))


def _gather_sources(
    losers: Iterable[MemoryRecord], held: Mapping[str, Sequence[str]], canonical_id: str
) -> tuple[str, ...]:
    ids = [name for one in losers for name in (one.id, *list_sources(one, held))]
    return without_repeats(tuple(name for name in ids if name != canonical_id))


def describe_sources(sources: tuple[str, ...], at: datetime) -> dict[str, str]:
    """Say in metadata how many ids were taken in, and name as many as fit as a whole."""
    text = ""
    for source_id in sources:
        longer = f"{text},{source_id}" if text else source_id
        if len(longer.encode()) > MAX_VALUE_BYTES:
            break
        text = longer
    return {
        COUNT: str(len(sources)),
        _SOURCE_IDS: text,
        "last_duplicate_at": shorten_instant(format_instant(at)),
    }


def _merge_metadata(
    members: Iterable[MemoryRecord],
) -> tuple[dict[str, str], tuple[dict[str, str], ...]]:
    merged: dict[str, str] = {}
    losses = []
    for one in members:
        for key, value in one.metadata.items():
            if key in RESERVED_KEYS or not value.strip():
                continue
            kept = merged.setdefault(key, value)
            if key in _LIST_KEYS:
                merged[key] = _unite(kept, value)
            elif kept != value:
                losses.append({"key": key, **_hide(key, kept, value), "from": one.id})
    return {key: value for key, value in merged.items() if value}, tuple(losses)


def _unite(kept: str, value: str) -> str:
    words = (word.strip() for word in f"{kept},{value}".split(","))
    return ",".join(without_repeats(tuple(word for word in words if word)))


def _hide(key: str, kept: str, lost: str) -> dict[str, str]:
    """Give both values, of a key that looks like a secret their digests only."""
    values = {"kept": kept, "lost": lost}
    if not _SECRET.search(key):
        return values
    return {
        name: f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" for name, text in values.items()
    }


def _join_evidence(
    held: tuple[Evidence, ...], brought: tuple[Evidence, ...]
) -> tuple[Evidence, ...]:
    uris = {item.uri for item in held}
    fresh = [item for item in brought if item.uri not in uris][: MAX_EVIDENCE - len(held)]
    return tuple(sorted((*held, *fresh), key=order_evidence))


def _check_limits(tags: tuple[str, ...], metadata: Mapping[str, str]) -> None:
    if len(tags) > MAX_TAGS:
        raise LimitExceededError("memory tags", limit=MAX_TAGS, actual=len(tags))
    if len(metadata) > MAX_METADATA:
        raise LimitExceededError("memory metadata", limit=MAX_METADATA, actual=len(metadata))
    longest = max((len(text.encode()) for text in metadata.values()), default=0)
    if longest > MAX_VALUE_BYTES:
        raise LimitExceededError("memory.metadata.value", limit=MAX_VALUE_BYTES, actual=longest)
