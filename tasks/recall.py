"""Recall: which active memories of a namespace fit a text, deterministically.

Preview only: nothing is recorded until a host admits or uses what it was shown. Source:
spec/recall.md R7, R8, R11 (the lexical branch and its related memories).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt, ValidationError

from storage import StoreReader
from storage.errors import AdmissionError
from storage.lexical import WORD_CJK_BIGRAM_V1, is_searchable
from storage.models import MemoryRecord, Namespace, RelationKind, Status, UnitNumber, round_to_f32
from storage.namespaces import find_namespace
from storage.query import query_memories
from storage.records import read_records
from storage.staging import has_decision
from tasks.policies import Policy

RELATED_SHARE = 0.75  # spec/recall.md R11
_CHANNELS = ("hybrid", "lexical", "semantic", "related")


class RecallPolicy(Policy):
    """How much to recall, and from what score on."""

    max_results: Annotated[StrictInt, Field(ge=1, le=100)] = Field(
        default=10, description="Most hits"
    )
    min_lexical_score: UnitNumber = Field(
        default=0.4, description="Smallest share of the query's words that a hit must have"
    )
    max_related_lookups: Annotated[StrictInt, Field(ge=0, le=100)] = Field(
        default=0, description="How many neighbours of hits are looked at"
    )
    decided_only: StrictBool = Field(
        default=False, description="Only memories with decision evidence"
    )


@dataclass(frozen=True, slots=True)
class Hit:
    """One recalled memory; `related_from` names the hit that a related one hangs on."""

    memory_id: str
    revision: int
    kind: str
    content: str
    score: float
    channel: str
    updated_at: datetime
    related_from: str | None = None


def parse_recall_policy(values: Mapping[str, object]) -> RecallPolicy:
    """Read a recall policy.

    Raises:
        AdmissionError: A field out of bounds, named `recall_policy.…`.
    """
    try:
        return RecallPolicy.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise AdmissionError(f"recall_policy.{field}", fault["msg"]) from None


def recall(  # noqa: PLR0913 - whose, what, how, when
    reader: StoreReader,
    namespace: Namespace,
    query: str,
    *,
    policy: RecallPolicy | None,
    now: datetime,
    profile: str = WORD_CJK_BIGRAM_V1,
) -> list[Hit]:
    """Recall memories, best first.

    Args:
        reader: An open shared handle; nothing is written.
        namespace: The only namespace that is read.
        query: Free text; without a letter or digit nothing is found.
        policy: Bounds; None recalls nothing.
        now: Memories that have expired by then are not served.
        profile: The lexical profile.
    """
    if policy is None or not is_searchable(query):
        return []
    found = query_memories(
        reader,
        {
            "namespace": namespace,
            "text": query,
            "limit": policy.max_results,
            "live_at": now,
            "decided_only": policy.decided_only,
            "profile": profile,
        },
    )
    hits = [
        Hit(
            one.memory_id, one.revision, one.kind, one.content, one.score, "lexical", one.updated_at
        )
        for one in found
        if one.score >= policy.min_lexical_score and one.score > 0
    ]
    if policy.max_related_lookups:
        hits += _related(reader, namespace, hits, policy, now)
    return sort_hits(hits)[: policy.max_results]


def describe_hit(hit: Hit) -> dict[str, object]:
    """Give a hit as data."""
    said: dict[str, object] = {"id": hit.memory_id, "revision": hit.revision, "kind": hit.kind}
    said |= {"score": hit.score, "channel": hit.channel, "content": hit.content}
    return said | ({"related_from": hit.related_from} if hit.related_from else {})


def sort_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Sort by score, channel, newest change and id (spec/recall.md R10)."""
    return sorted(
        hits,
        key=lambda hit: (
            -hit.score,
            _CHANNELS.index(hit.channel),
            -hit.updated_at.timestamp(),
            hit.memory_id,
        ),
    )


def _related(
    reader: StoreReader, namespace: Namespace, hits: list[Hit], policy: RecallPolicy, now: datetime
) -> list[Hit]:
    owner = find_namespace(reader, namespace)
    if owner is None:
        return []
    seeds = read_records(reader, owner.namespace_id, [hit.memory_id for hit in hits])
    wanted = list_targets(hits, seeds, budget=policy.max_related_lookups)
    records = read_records(reader, owner.namespace_id, [target for _, target in wanted])
    return [
        _hang_on(hit, records[target])
        for hit, target in wanted
        if target in records and _is_served(records[target], policy, now)
    ]


def list_targets(
    hits: Iterable[Hit], seeds: Mapping[str, MemoryRecord], *, budget: int
) -> list[tuple[Hit, str]]:
    """List what to look up: related_to edges of the hits, one hop, each target once.

    A lookup that finds nothing is spent as well.
    """
    hits = list(hits)
    tried = {hit.memory_id for hit in hits}
    wanted: list[tuple[Hit, str]] = []
    for hit in hits:
        for edge in seeds[hit.memory_id].relations:
            is_new = edge.kind == RelationKind.RELATED_TO and edge.target_id not in tried
            if is_new and len(wanted) < budget:
                tried.add(edge.target_id)
                wanted.append((hit, edge.target_id))
    return wanted


def _hang_on(seed: Hit, record: MemoryRecord) -> Hit:
    score = min(max(round_to_f32(seed.score * RELATED_SHARE), 0.0), 1.0)
    hit = replace(seed, memory_id=record.id, revision=record.revision, kind=record.kind.value)
    updated_at = record.updated_at or seed.updated_at
    return replace(
        hit,
        content=record.content,
        score=score,
        channel="related",
        updated_at=updated_at,
        related_from=seed.memory_id,
    )


def _is_served(record: MemoryRecord, policy: RecallPolicy, now: datetime) -> bool:
    is_live = record.expires_at is None or record.expires_at > now
    is_decided = not policy.decided_only or has_decision(record.evidence)
    return record.status == Status.ACTIVE and is_live and is_decided
