"""The candidate that a refined text becomes, and what its sources have to be for that.

Evidence names each source with its revision and the digest of its content; it is never a decision,
so that only a verified supersession makes the candidate active.
Source: spec/consolidate.md R91, R92.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from storage.digests import digest_parts, namespace_key
from storage.models import (
    MAX_TAGS,
    EvidenceKind,
    MemoryRecord,
    Status,
    without_repeats,
)
from tasks.providers.refiner import RefineRequest, RefinerIdentity

_DOMAIN = "memtend.refine.v1"


def digest_cluster(request: RefineRequest) -> str:
    """Digest what a refiner is asked about: 64 hex digits; revisions and order do not count."""
    parts = [namespace_key(request.namespace), request.kind.value]
    for memory_id, content in sorted(request.texts.items()):
        parts += [memory_id, _digest_content(content)]
    return digest_parts(_DOMAIN, [part.encode() for part in parts]).hex()


def name_candidate(digest: str) -> str:
    """Give the id of the candidate that is made of a cluster."""
    return f"refined-{digest}"


def is_current(
    request: RefineRequest, records: Mapping[str, MemoryRecord], *, now: datetime
) -> bool:
    """Tell whether all sources are still what was read, active and not expired."""
    for source in request.sources:
        record = records.get(source.memory_id)
        if record is None or record.status != Status.ACTIVE or record.kind != request.kind:
            return False
        if (record.revision, record.content) != (source.revision, source.content):
            return False
        if record.expires_at is not None and record.expires_at <= now:
            return False
    return True


def has_room(records: Sequence[MemoryRecord]) -> bool:
    """Tell whether one memory can hold the tags of all these."""
    return len(_unite_tags(records)) <= MAX_TAGS


def build_candidate(
    request: RefineRequest,
    records: Mapping[str, MemoryRecord],
    content: str,
    identity: RefinerIdentity,
    *,
    now: datetime,
) -> dict[str, Any]:
    """Build the change set that creates a candidate; the same cluster always has the same key.

    It keeps the sources' tags, since they may say whose memory it is, and ends with the first.
    """
    digest = digest_cluster(request)
    sources = [records[source.memory_id] for source in request.sources]
    instants = [at for source in sources for at in (source.updated_at, source.content_at)]
    occurred_at = max(filter(None, (now, *instants)))
    ends = [source.expires_at for source in sources]
    memory = {
        "id": name_candidate(digest),
        "kind": request.kind,
        "status": Status.CANDIDATE,
        "content": content,
        "importance": max(source.importance for source in sources),
        "tags": _unite_tags(sources),
        "metadata": {"refiner": identity.describe()},
        "expires_at": min(filter(None, ends), default=None),
        "evidence": [_cite(source, occurred_at) for source in sources],
        "created_at": occurred_at,
    }
    return {
        "idempotency_key": f"refine-{digest}",
        "namespace": request.namespace,
        "occurred_at": occurred_at,
        "operations": [{"op": "create", "memory": memory}],
    }


def _cite(source: MemoryRecord, occurred_at: datetime) -> dict[str, object]:
    return {
        "uri": f"memtend:memory:{source.id}:{source.revision}",
        "digest": _digest_content(source.content),
        "kind": EvidenceKind.ARTIFACT,
        "occurred_at": source.content_at or occurred_at,
    }


def _digest_content(content: str) -> str:
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def _unite_tags(records: Sequence[MemoryRecord]) -> tuple[str, ...]:
    return without_repeats(tuple(tag for record in records for tag in record.tags))
