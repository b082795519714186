"""Instants: parsed once, at admission, to aware UTC datetimes in whole microseconds."""

import re
from datetime import UTC, date, datetime, timedelta

_INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|z|[+-]\d{2}:?[0-5]\d)?",
    re.ASCII,
)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_instant(text: object) -> datetime:
    """Read RFC 3339 text or an ISO text without offset, which is UTC; finer digits are cut off.

    Raises:
        ValueError: Anything else, a bare date included.
    """
    if isinstance(text, datetime):
        return to_utc(text)
    match = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        message = "not an instant such as 2026-01-31T12:00:00Z"
        raise ValueError(message)
    day, clock, offset = match.groups()
    zone = "+00:00" if offset in {None, "Z", "z"} else offset
    try:
        return datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        message = "not an instant of the calendar"
        raise ValueError(message) from None


def parse_expiry(text: object) -> datetime:
    """Read an expiry: an instant, or a bare date that means the end of that UTC day.

    Source: spec/sweep.md R5.
    """
    if isinstance(text, str) and _DAY.fullmatch(text):
        try:
            day = date.fromisoformat(text) + timedelta(days=1)
        except (ValueError, OverflowError):
            message = "not a day of the calendar"
            raise ValueError(message) from None
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    return parse_instant(text)


def to_utc(instant: datetime) -> datetime:
    """Convert to UTC; an instant without a zone is read as UTC."""
    if instant.tzinfo is None:
        return instant.replace(tzinfo=UTC)
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        message = "not an instant of the calendar"
        raise ValueError(message) from None


def epoch_us(instant: datetime) -> int:
    """Give the microseconds since 1970-01-01T00:00Z, exactly."""
    return (to_utc(instant) - EPOCH) // timedelta(microseconds=1)


def format_instant(instant: datetime) -> str:
    """Give RFC 3339 text with six fraction digits and Z."""
    # Not strftime: its %Y gives years before 1000 without their zeros.
    return to_utc(instant).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
