"""Which of two contradicting memories is the newer one: by when it happened, never by arrival.

Source: spec/consolidate.md R83.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple

from storage.instants import parse_instant, to_utc
from storage.models import MemoryRecord
from tasks.rules.conflicts import ConflictClass

EVENT_TIME = "event_time"
# In these classes one fact takes the place of the other; texts that deny each other do not say so.
_REPLACING = {ConflictClass.FIGURES, ConflictClass.SLOT, ConflictClass.DECLARED}


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What tells when the fact of a memory came to be; `evidence_at` is that of the newest."""

    memory_id: str
    metadata: Mapping[str, str]
    evidence_at: datetime | None
    created_at: datetime


class Proposal(NamedTuple):
    """A supersession that somebody has to verify."""

    old_id: str
    new_id: str


def gather_event_facts(record: MemoryRecord) -> EventFacts:
    """Take what tells the event time from a stored memory."""
    if record.created_at is None:
        message = "a stored memory has a time of creation"
        raise ValueError(message)
    seen = [item.occurred_at for item in record.evidence]
    newest = max(seen, default=None)
    return EventFacts(record.id, record.metadata, newest, record.created_at)


def read_event_time(facts: EventFacts) -> datetime | None:
    """Read the event time of a memory; None: it names one that is neither an instant nor a day.

    A day stands for its beginning in UTC.
    """
    said = facts.metadata.get(EVENT_TIME, "")
    if not said.strip():
        return facts.evidence_at or facts.created_at
    try:
        return parse_instant(said)
    except ValueError:
        return _read_day(said)


def propose_replacement(
    left: EventFacts, right: EventFacts, conflict_class: ConflictClass
) -> Proposal | None:
    """Propose which memory of a conflict pair replaces the other; the order is no matter.

    Returns:
        None where it stays a conflict: equal or unknown event times, or a class in which neither
        replaces the other.
    """
    if conflict_class not in _REPLACING:
        return None
    ours, theirs = read_event_time(left), read_event_time(right)
    if ours is None or theirs is None or ours == theirs:
        return None
    old, new = (left, right) if ours < theirs else (right, left)
    return Proposal(old.memory_id, new.memory_id)


def _read_day(text: str) -> datetime | None:
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        return None
    return to_utc(datetime(day.year, day.month, day.day))  # noqa: DTZ001 - `to_utc` reads it as UTC
