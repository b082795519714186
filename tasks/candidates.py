"""Verification of vector hits: the index is believed for ids and scores only, and only then.

Pure functions; the memories are those that DuckDB holds now. Source: spec/recall.md 4.1,
spec/refresh.md R63, R64: under the default record profile columns stand for labels, and the
revision that a vector was made at does not have to be the current one.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from storage.identities import (
    UPSTREAM_RECORD_PROFILE,
    RecordProfile,
    digest_content,
    name_record,
)
from storage.models import MemoryRecord, Status, round_to_f32
from storage.staging import has_decision
from storage.vectors import VectorHit
from tasks.hits import Hit, make_hit

SCHEMA_LABEL = "a3s.memory.semantic.schema"
ID_LABEL = "a3s.memory.semantic.node_id"
REVISION_LABEL = "a3s.memory.semantic.node_revision"
DIGEST_LABEL = "a3s.memory.semantic.content_digest"
_PLAIN_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)
_MAX_REVISION = 2**64 - 1
# An identical vector comes back with a distance of -1.19e-07 (PLATFORM L31).
_TOLERANCE = 1e-5

DropReason = Literal[
    "partition",
    "score",
    "min_score",
    "labels",
    "record_id",
    "duplicate",
    "absent",
    "status",
    "revision",
    "content",
    "expired",
    "undecided",
]


class Candidate(NamedTuple):
    """What the index says about a row; nothing of it is checked yet."""

    partition: str
    record_id: str
    score: float
    labels: Mapping[str, str]


class Claim(NamedTuple):
    """What a row that belongs to the index says: a memory, and which text of it was embedded."""

    memory_id: str
    revision: int
    content_digest: str
    score: float


@dataclass(frozen=True, slots=True)
class Terms:
    """What a candidate has to meet."""

    partition: str
    profile: RecordProfile
    min_score: float
    now: datetime
    decided_only: bool = False


def make_candidate(hit: VectorHit, profile: RecordProfile) -> Candidate:
    """Make a candidate of a row: its columns are its labels."""
    labels = {
        SCHEMA_LABEL: profile,
        ID_LABEL: hit.memory_id,
        REVISION_LABEL: str(hit.memory_revision),
        DIGEST_LABEL: hit.content_digest,
    }
    return Candidate(hit.partition, hit.record_id, 1.0 - hit.distance, labels)


def rank_candidates(candidates: Iterable[Candidate], limit: int) -> list[Candidate]:
    """Keep the best by score, then record id; what has no score comes last."""

    def place(one: Candidate) -> tuple[float, str]:
        return math.inf if math.isnan(one.score) else -one.score, one.record_id

    return sorted(candidates, key=place)[:limit]


def read_claims(candidates: Iterable[Candidate], terms: Terms) -> dict[str, Claim]:
    """Read the claims of the candidates that belong to the index, each memory's first one."""
    claims: dict[str, Claim] = {}
    for candidate in candidates:
        claim = judge_candidate(candidate, terms, claims)
        if isinstance(claim, Claim):
            claims[claim.memory_id] = claim
    return claims


def judge_candidate(
    candidate: Candidate, terms: Terms, claims: Mapping[str, Claim]
) -> Claim | DropReason:
    """Give what a candidate claims, or the first of the rows 1 to 6 that it breaks."""
    if candidate.partition != terms.partition:
        return "partition"
    if not abs(candidate.score) <= 1 + _TOLERANCE:  # NaN is not
        return "score"
    score = round_to_f32(min(max(candidate.score, -1.0), 1.0))
    if score < round_to_f32(terms.min_score):
        return "min_score"
    said = _read_labels(candidate.labels, terms.profile)
    if said is None:
        return "labels"
    if candidate.record_id != name_record(terms.profile, terms.partition, *said):
        return "record_id"
    return "duplicate" if said[0] in claims else Claim(*said, score)


def _read_labels(labels: Mapping[str, str], profile: RecordProfile) -> tuple[str, int, str] | None:
    names = (SCHEMA_LABEL, ID_LABEL, REVISION_LABEL, DIGEST_LABEL)
    schema, memory_id, digits, digest = (labels.get(name) for name in names)
    if schema != profile or memory_id is None or digits is None or digest is None:
        return None
    if not _PLAIN_DIGITS.fullmatch(digits) or int(digits) > _MAX_REVISION:
        return None
    return memory_id, int(digits), digest


def judge_claim(claim: Claim, record: MemoryRecord | None, terms: Terms) -> DropReason | None:
    """Give the first of the rows 7 to 12 that a claim breaks against the memory as it is now."""
    if record is None:
        return "absent"
    if record.status != Status.ACTIVE:
        return "status"
    if terms.profile == UPSTREAM_RECORD_PROFILE and record.revision != claim.revision:
        return "revision"
    if digest_content(record.content) != claim.content_digest:
        return "content"
    if record.expires_at is not None and record.expires_at <= terms.now:
        return "expired"
    is_undecided = terms.decided_only and not has_decision(record.evidence)
    return "undecided" if is_undecided else None


def verify_claims(
    claims: Mapping[str, Claim], records: Mapping[str, MemoryRecord], terms: Terms
) -> list[Hit]:
    """Give the hits of the claims that hold, best first; the content is that of the memories."""
    hits = [
        make_hit(records[name], claim.score, "semantic")
        for name, claim in claims.items()
        if judge_claim(claim, records.get(name), terms) is None
    ]
    return sorted(hits, key=lambda hit: (-hit.score, -hit.updated_at.timestamp(), hit.memory_id))
