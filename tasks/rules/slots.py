"""Which slots of a schedule need a run: pure figures.

Missed slots are worked off by one run, whatever the order in which late runs start: a slot is
covered once any run that began at or after it has settled. Source: spec/maintenance.md R2, R4-R7.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from zoneinfo import ZoneInfo

from storage.errors import AdmissionError
from storage.run_errors import Missed

LONGEST_INTERVAL_S = 31_536_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Interval:
    """A schedule whose slots are offset + k x interval seconds since 1970-01-01T00:00:00Z."""

    interval_s: int
    offset_s: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no interval.

        Raises:
            AdmissionError: Out of bounds, or no whole seconds.
        """
        is_whole = all(type(value) is int for value in (self.interval_s, self.offset_s))
        if not is_whole or not 1 <= self.interval_s <= LONGEST_INTERVAL_S:
            raise AdmissionError("interval_s", f"must be whole, 1..{LONGEST_INTERVAL_S}")
        if not 0 <= self.offset_s < self.interval_s:
            raise AdmissionError("offset_s", "must be at least 0 and less than the interval")

    @property
    def anchor(self) -> datetime:
        """The slot that a scheduler counts from, so that a restart moves none."""
        return _EPOCH + timedelta(seconds=self.offset_s)

    def list_slots(self, now: datetime) -> Iterator[datetime]:
        """Give the slots after an instant, without end."""
        step = timedelta(seconds=self.interval_s)
        first = math.floor((now - self.anchor) / step) + 1
        return (self.anchor + k * step for k in count(first))


def find_day(slot: datetime, zone: str) -> str:
    """Find the date of a slot where its schedule lives: the key of one that runs once a day.

    A local time that occurs twice, or never, has one date either way.

    Raises:
        AdmissionError: There is no such time zone.
    """
    return slot.astimezone(find_zone(zone, "slot_zone")).date().isoformat()


def find_zone(name: str, field: str) -> ZoneInfo:
    """Find a time zone by the name that a field has.

    Raises:
        AdmissionError: There is none.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise AdmissionError(field, "is no time zone") from None


def judge_slot(
    slot: datetime,
    *,
    last_settled: datetime | None,
    is_day_settled: bool = False,
    activated_at: datetime | None = None,
    interval_s: int = 0,
) -> Missed | None:
    """Decide whether the slot of a scheduled run is missed; None: it needs its run.

    Args:
        slot: The planned start.
        last_settled: When the latest settled run of the job and namespace began, whoever asked.
        is_day_settled: A scheduled run of the slot's local date has settled.
        activated_at: Since when the job runs at this interval; None: no check, as for a cron.
        interval_s: The interval in seconds.
    """
    if activated_at is not None and slot < activated_at + timedelta(seconds=interval_s):
        return "first_interval"
    if is_day_settled or (last_settled is not None and last_settled >= slot):
        return "covered"
    return None
