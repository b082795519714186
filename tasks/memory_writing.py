"""Store an item of the store API: replace what has its id, merge it with a copy, or create it.

The caller's transaction holds all of it: one memory gets one revision, and the change sequence
moves once. Source: spec/recall.md R21, spec/consolidate.md R14, DESIGN 10.14.
"""

import json
from datetime import datetime

from storage import StoreWriter
from storage.change_errors import MemoryExistsError
from storage.digests import digest_values
from storage.erasure_keys import refuse_all_erased
from storage.errors import LimitExceededError
from storage.fingerprints import find_copies
from storage.merge_sources import Sources, add_sources, read_sources
from storage.models import (
    MAX_EVIDENCE,
    Evidence,
    EvidenceKind,
    MemoryRecord,
    Origin,
    RevisionKind,
    Status,
    order_evidence,
)
from storage.records import read_record
from storage.repository import commit_states
from storage.staging import Staged
from tasks.memory_protocol import ItemDraft
from tasks.rules.guards import has_equal_meaning_signs
from tasks.rules.merging import Merged, merge_records

_REPLACED = ("content", "importance", "tags", "kind", "metadata", "expires_at")


def put_item(writer: StoreWriter, namespace_id: int, draft: ItemDraft, *, now: datetime) -> str:
    """Store an item and give the id of the memory that stands for it.

    Raises:
        MemoryExistsError: Its id belongs to a memory that is not active; nothing revives one.
        ErasedMemoryError: It was erased, or says what was.
    """
    refuse_all_erased(writer, namespace_id, {draft.id: draft.content})
    known = read_record(writer, namespace_id, draft.id)
    if known is not None and known.status != Status.ACTIVE:
        raise MemoryExistsError(draft.id)
    if known is not None:
        staged = Staged([known, _replace(known, draft, now)])
        commit_states(writer, namespace_id, {known.id: staged}, occurred_at=now)
        return known.id
    incoming = _create(draft, now)
    canonical_id = _merge(writer, namespace_id, incoming, now)
    if canonical_id is not None:
        return canonical_id
    staged = Staged([incoming], is_new=True)
    commit_states(writer, namespace_id, {incoming.id: staged}, occurred_at=now)
    return incoming.id


def retire_item(writer: StoreWriter, namespace_id: int, memory_id: str, *, now: datetime) -> bool:
    """Make a tombstone of a memory, whatever its status; False if it is one or is not there."""
    known = read_record(writer, namespace_id, memory_id)
    if known is None or known.status == Status.TOMBSTONED:
        return False
    changes = {
        **_step(known, RevisionKind.STATUS_CHANGED, now),
        "status": Status.TOMBSTONED,
        "tombstoned_at": now,
    }
    staged = Staged([known, known.model_copy(update=changes)])
    commit_states(writer, namespace_id, {memory_id: staged}, occurred_at=now)
    return True


def _create(draft: ItemDraft, now: datetime) -> MemoryRecord:
    return MemoryRecord(
        **{name: getattr(draft, name) for name in (*_REPLACED, "id", "created_at")},
        updated_at=draft.created_at,
        content_at=draft.created_at,
        evidence=(_say(draft, 1, min(draft.created_at, now)),),
        origin=Origin.STORE_API,
    )


def _replace(known: MemoryRecord, draft: ItemDraft, now: datetime) -> MemoryRecord:
    step = _step(known, RevisionKind.CORRECTED, now)
    said = _say(draft, known.revision + 1, now)
    is_new = all(item.uri != said.uri for item in known.evidence)
    evidence = known.evidence
    if is_new and len(evidence) < MAX_EVIDENCE:
        evidence = tuple(sorted((*evidence, said), key=order_evidence))
    values = {name: getattr(draft, name) for name in _REPLACED}
    written = {"content_at": step["updated_at"], "evidence": evidence}
    return known.model_copy(update={**values, **step, **written})


def _merge(
    writer: StoreWriter, namespace_id: int, incoming: MemoryRecord, now: datetime
) -> str | None:
    """Merge an item into the oldest copy that it may be merged with; None if there is none.

    Copies with another expiry are left apart: either choice would break what one of them says.
    """
    for copy in find_copies(writer, namespace_id, incoming.content, now=now):
        is_same = copy.expires_at == incoming.expires_at
        if not is_same or not has_equal_meaning_signs(copy.content, incoming.content):
            continue
        canonical = read_record(writer, namespace_id, copy.memory_id)
        if canonical is None:
            continue
        held = read_sources(writer, namespace_id, [canonical.id])
        try:
            at = max(now, canonical.updated_at or now)
            merged = merge_records((canonical, incoming), held, at=at)
        except LimitExceededError:
            continue
        _commit_merge(writer, namespace_id, canonical, merged, at)
        return canonical.id
    return None


def _commit_merge(
    writer: StoreWriter,
    namespace_id: int,
    canonical: MemoryRecord,
    merged: Merged,
    at: datetime,
) -> None:
    record = merged.record
    staged = Staged([canonical, record])
    commit_states(writer, namespace_id, {record.id: staged}, occurred_at=at)
    losses = {"kind": merged.replaced_kind, "metadata": merged.losses}
    said = json.dumps(losses, ensure_ascii=False)
    sources = Sources(record.id, record.revision, merged.source_ids, said)
    add_sources(writer, namespace_id, [sources])


def _say(draft: ItemDraft, revision: int, at: datetime) -> Evidence:
    """Give the evidence of a stored item: that its host said so."""
    return Evidence(
        uri=f"memtend:store:{draft.id}:{revision}",
        digest=digest_values(draft.content),
        kind=EvidenceKind.USER_STATEMENT,
        occurred_at=at,
    )


def _step(known: MemoryRecord, kind: RevisionKind, now: datetime) -> dict[str, object]:
    at = max(now, known.updated_at or now)
    return {"revision": known.revision + 1, "revision_kind": kind, "updated_at": at}
