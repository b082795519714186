"""What recall gives: its policy, its hits, and the order that they are served in.

Source: spec/recall.md R7, R10, R11.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, cast

from pydantic import ConfigDict, Field, StrictBool, StrictInt, ValidationError

from storage.errors import AdmissionError
from storage.models import MemoryRecord, UnitNumber
from storage.staging import has_decision
from tasks.policies import Policy

_CHANNELS = ("hybrid", "lexical", "semantic", "related")


class RecallPolicy(Policy):
    """How much to recall, and from what score on."""

    model_config = ConfigDict(validate_default=True)  # the default is a 32-bit float, too

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
    evidence_count: int = 0
    decided: bool = False


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


def make_hit(
    record: MemoryRecord, score: float, channel: str, related_from: str | None = None
) -> Hit:
    """Make a hit of a stored memory."""
    return Hit(
        memory_id=record.id,
        revision=record.revision,
        kind=record.kind.value,
        content=record.content,
        score=score,
        channel=channel,
        updated_at=cast("datetime", record.updated_at),  # every stored memory has one
        related_from=related_from,
        evidence_count=len(record.evidence),
        decided=has_decision(record.evidence),
    )


def describe_hit(hit: Hit) -> dict[str, object]:
    """Give a hit as data."""
    said: dict[str, object] = {"id": hit.memory_id, "revision": hit.revision, "kind": hit.kind}
    said |= {"score": hit.score, "channel": hit.channel, "content": hit.content}
    said["decided"] = hit.decided
    return said | ({"related_from": hit.related_from} if hit.related_from else {})


def sort_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Sort by score, channel, newest change and id (R10); code points sort like UTF-8 bytes."""
    return sorted(
        hits,
        key=lambda hit: (
            -hit.score,
            _CHANNELS.index(hit.channel),
            -hit.updated_at.timestamp(),
            hit.memory_id,
        ),
    )
