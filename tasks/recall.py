"""Recall: which active memories of a namespace fit a text, deterministically.

Preview only: nothing is recorded until a host admits or uses what it was shown (tasks.contexts).
The semantic branch (tasks.semantic) may add hits; a fault in it leaves exactly the lexical answer.
Source: spec/recall.md R7-R12.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from storage import Store, StoreReader
from storage.lexical import WORD_CJK_BIGRAM_V1, is_searchable
from storage.models import MemoryRecord, Namespace, RelationKind, Status, round_to_f32
from storage.namespaces import find_namespace
from storage.query import query_memories
from storage.records import read_records
from storage.staging import has_decision
from tasks.fusion import fuse
from tasks.hits import (
    Hit,
    RecallPolicy,
    describe_hit,
    make_hit,
    parse_recall_policy,
    sort_hits,
)
from tasks.semantic import SemanticFaultError, SemanticSource, plan_search

__all__ = [
    "Hit",
    "RecallPolicy",
    "Recalled",
    "SemanticSource",
    "describe_hit",
    "list_targets",
    "parse_recall_policy",
    "recall",
    "recall_memories",
    "sort_hits",
]

RELATED_SHARE = 0.75  # spec/recall.md R11
SemanticState = Literal["used", "absent", "dropped"]


class Recalled(NamedTuple):
    """What was recalled, and what became of the semantic branch; `warning` says why it dropped."""

    hits: list[Hit]
    semantic: SemanticState
    warning: str | None = None


def recall_memories(  # noqa: PLR0913 - whose, what, how, when, by which embedder
    store: Store,
    namespace: Namespace,
    query: str,
    *,
    policy: RecallPolicy | None,
    now: datetime,
    source: SemanticSource | None = None,
    profile: str = WORD_CJK_BIGRAM_V1,
) -> Recalled:
    """Recall memories by words and, where the namespace has an index, by meaning; best first.

    Args:
        store: Read in short transactions; nothing is written.
        namespace: The only namespace that is read.
        query: Free text; without a letter or digit nothing is found.
        policy: Bounds; None recalls nothing.
        now: Memories that have expired by then are not served.
        source: How to embed the query; None: by words only.
        profile: The lexical profile.

    Raises:
        LimitExceededError: The query is too long.
    """
    if policy is None or not is_searchable(query):
        return Recalled([], "absent")
    answer: list[Hit] = []
    try:
        with store.read() as reader:
            lexical = _find_lexical(reader, namespace, query, policy, now, profile)
            answer = _complete(reader, namespace, lexical, policy, now)
            search = plan_search(store, reader, namespace, source)
        found = search and search.find(query, decided_only=policy.decided_only, now=now)
        if not search or not found:
            return Recalled(answer, "absent")
        seen, semantic = found
        with search.confirm(seen) as reader:
            fused = fuse(lexical, semantic, search.fusion)
            return Recalled(_complete(reader, namespace, fused, policy, now), "used")
    except SemanticFaultError as fault:
        return Recalled(answer, "dropped", str(fault))


def recall(  # noqa: PLR0913 - whose, what, how, when
    reader: StoreReader,
    namespace: Namespace,
    query: str,
    *,
    policy: RecallPolicy | None,
    now: datetime,
    profile: str = WORD_CJK_BIGRAM_V1,
) -> list[Hit]:
    """Recall memories by words alone, in one open transaction, best first.

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
    lexical = _find_lexical(reader, namespace, query, policy, now, profile)
    return _complete(reader, namespace, lexical, policy, now)


def _find_lexical(  # noqa: PLR0913, PLR0917 - as above
    reader: StoreReader,
    namespace: Namespace,
    query: str,
    policy: RecallPolicy,
    now: datetime,
    profile: str,
) -> list[Hit]:
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
    scores = {one.memory_id: one.score for one in found if one.score >= policy.min_lexical_score}
    records = _read_records(reader, namespace, [name for name, score in scores.items() if score])
    return [make_hit(record, scores[name], "lexical") for name, record in records.items()]


def _read_records(
    reader: StoreReader, namespace: Namespace, ids: Sequence[str]
) -> dict[str, MemoryRecord]:
    """Read the memories that exist, in the order of their ids in the list."""
    owner = find_namespace(reader, namespace)
    found = read_records(reader, owner.namespace_id, ids) if owner and ids else {}
    return {name: found[name] for name in ids if name in found}


def _complete(
    reader: StoreReader, namespace: Namespace, hits: list[Hit], policy: RecallPolicy, now: datetime
) -> list[Hit]:
    """Add related memories, sort, and cut."""
    if policy.max_related_lookups:
        hits = hits + _find_related(reader, namespace, hits, policy, now)
    return sort_hits(hits)[: policy.max_results]


def _find_related(
    reader: StoreReader, namespace: Namespace, hits: list[Hit], policy: RecallPolicy, now: datetime
) -> list[Hit]:
    seeds = _read_records(reader, namespace, [hit.memory_id for hit in hits])
    wanted = list_targets(hits, seeds, budget=policy.max_related_lookups)
    records = _read_records(reader, namespace, [target for _, target in wanted])
    return [
        make_hit(records[target], _share(hit.score), "related", hit.memory_id)
        for hit, target in wanted
        if target in records and _is_served(records[target], policy, now)
    ]


def list_targets(
    hits: Iterable[Hit], seeds: Mapping[str, MemoryRecord], *, budget: int
) -> list[tuple[Hit, str]]:
    """List what to look up: related_to edges of the hits, one hop, each target once.

    A lookup that finds nothing is spent as well. A hit whose memory has gone has no edges.
    """
    hits = list(hits)
    tried = {hit.memory_id for hit in hits}
    wanted: list[tuple[Hit, str]] = []
    for hit in hits:
        edges = seeds[hit.memory_id].relations if hit.memory_id in seeds else ()
        for edge in edges:
            is_new = edge.kind == RelationKind.RELATED_TO and edge.target_id not in tried
            if is_new and len(wanted) < budget:
                tried.add(edge.target_id)
                wanted.append((hit, edge.target_id))
    return wanted


def _share(score: float) -> float:
    return min(max(round_to_f32(score * RELATED_SHARE), 0.0), 1.0)


def _is_served(record: MemoryRecord, policy: RecallPolicy, now: datetime) -> bool:
    is_live = record.expires_at is None or record.expires_at > now
    is_decided = not policy.decided_only or has_decision(record.evidence)
    return record.status == Status.ACTIVE and is_live and is_decided
