"""Merge memories that a person names: the same change set as the job's, judged first.

Source: spec/consolidate.md R42, R45.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from storage import Store, StoreReader
from storage.errors import AdmissionError, MaintenanceError, MemoryNotFoundError
from storage.merge_facts import JoinedPair, find_kept_apart, read_lineage_texts
from storage.models import MemoryRecord, Namespace, Status
from storage.namespaces import find_namespace
from storage.records import read_records
from tasks.consolidate.recording import Author, open_ledger
from tasks.rules.clusters import MAX_LOSERS, judge_lineages
from tasks.rules.pairs import FEWEST_TOKENS, PairResult, judge_pair, reaches_overlap
from tasks.rules.prepared import Prepared, prepare

_FEWEST = 2


class MergeRefusedError(MaintenanceError):
    """Two memories cannot be merged; nothing was written."""

    code = "merge_refused"

    def __init__(self, ids: Sequence[str], reasons: Sequence[str]) -> None:
        """Name the two and what keeps them apart."""
        said = ", ".join(reasons)
        super().__init__(
            f"{ids[0]!r} and {ids[1]!r} are kept apart: {said}", ids=[*ids], reasons=[*reasons]
        )


@dataclass(frozen=True, slots=True)
class MergedByHand:
    """What became of a merge by hand: `run_id` takes it back, `skipped` are ids with reasons.

    `has_adopted`: nobody is merged yet, but the canonical has taken over a text of the others.
    """

    run_id: str
    canonical_id: str
    revision: int
    merged: tuple[str, ...]
    skipped: dict[str, str]
    has_adopted: bool


def merge_memories(  # noqa: PLR0913 - what to merge, how, and two clocks
    store: Store,
    namespace: Namespace,
    ids: Sequence[str],
    *,
    force: bool,
    now: datetime,
    clock: datetime,
) -> MergedByHand:
    """Merge memories into the oldest of them.

    Args:
        store: The store; no lock may be held.
        namespace: Whose memories.
        ids: Two or more, each once.
        force: Merge although a guard or a mark keeps them apart; the receipt says so.
        now: When it happens.
        clock: Wall time, for the receipt.

    Raises:
        AdmissionError: Too few or too many ids, or one twice.
        MemoryNotFoundError: The namespace has no such memory.
        MergeRefusedError: One is not active, or two of them do not pass.
    """
    names = list(dict.fromkeys(ids))
    if len(names) != len(ids) or not _FEWEST <= len(names) <= MAX_LOSERS + 1:
        message = f"name {_FEWEST} to {MAX_LOSERS + 1} different memories"
        raise AdmissionError("ids", message)
    with store.write() as writer:
        owner = find_namespace(writer, namespace)
        if owner is None:
            raise AdmissionError("namespace", "the store has no such namespace")
        members = _read_members(writer, owner.namespace_id, names, now)
        _check_pairs(writer, owner.namespace_id, members, force=force)
        canonical, *losers = members
        revisions = [f"{one.id}@{one.revision}" for one in members]
        name = hashlib.sha256("\0".join([owner.key, *revisions]).encode()).hexdigest()
        author = Author(owner.namespace_id, None, f"hand_{name[:20]}", now, clock, is_forced=force)
        ledger = open_ledger(writer, author, {canonical.id}, {one.id for one in losers})
        done = ledger.merge(canonical.id, [one.id for one in losers])
        ledger.commit(writer)
    revision = ledger.stage.memories[canonical.id].current.revision
    return MergedByHand(
        run_id=author.run_id,
        canonical_id=canonical.id,
        revision=revision,
        merged=done.absorbed,
        skipped=dict(done.skipped),
        has_adopted=done.merged is not None and not done.absorbed,
    )


def _read_members(
    reader: StoreReader, namespace_id: int, names: Sequence[str], now: datetime
) -> list[MemoryRecord]:
    """Read the members in canonical order."""
    records = read_records(reader, namespace_id, names)
    for name in names:
        if name not in records:
            raise MemoryNotFoundError(name)
    for name in names:
        one = records[name]
        if one.status != Status.ACTIVE:
            raise MergeRefusedError((name, name), [f"it is {one.status}"])
        if one.expires_at is not None and one.expires_at <= now:
            raise MergeRefusedError((name, name), ["it has expired"])
    return sorted(records.values(), key=lambda one: (one.created_at or now, one.id))


def _check_pairs(
    reader: StoreReader, namespace_id: int, members: Sequence[MemoryRecord], *, force: bool
) -> None:
    ids = [one.id for one in members]
    kept = find_kept_apart(reader, namespace_id, ids)
    prepared = {one.id: prepare(one.content, kind=one.kind, namespace_id=0) for one in members}
    names: defaultdict[str, list[str]] = defaultdict(list)
    for text in read_lineage_texts(reader, namespace_id, ids):
        names[text.memory_id].append(text.name)
        prepared[text.name] = prepare(text.content, kind=text.kind, namespace_id=0)

    def passes(left: str, right: str) -> bool:
        sides = prepared[left], prepared[right]
        return _is_alike(*sides) if force else not _list_guards(*sides)

    for left, right in combinations(members, 2):
        pair = min(left.id, right.id), max(left.id, right.id)
        joined = kept.get(pair, JoinedPair(is_related=False, is_marked=False))
        # No force overrides these (R41).
        reasons = ["expiry"] if left.expires_at != right.expires_at else []
        reasons += ["related"] if joined.is_related else []
        if force:
            reasons += [] if passes(*pair) else ["below"]
        else:
            reasons += ["kept_apart"] if joined.is_marked else []
            reasons += _list_guards(prepared[left.id], prepared[right.id])
        if not reasons and judge_lineages([pair], names, passes)[1]:
            reasons = ["lineage"]
        if reasons:
            raise MergeRefusedError((left.id, right.id), reasons)


def _list_guards(left: Prepared, right: Prepared) -> list[str]:
    verdict = judge_pair(left, right)
    passes = verdict.result in {PairResult.EXACT, PairResult.NEAR}
    return [] if passes else [*verdict.reasons] or [verdict.result]


def _is_alike(left: Prepared, right: Prepared) -> bool:
    """Tell whether two texts would pass if no guard fired."""
    if not left.tokens or not right.tokens:
        return False
    if left.fingerprint == right.fingerprint:
        return True
    shared = len(left.tokens & right.tokens)
    union = len(left.tokens | right.tokens)
    is_long = min(len(left.tokens), len(right.tokens)) >= FEWEST_TOKENS
    return is_long and left.kind == right.kind and reaches_overlap(shared, union)
