"""Texts become aware UTC instants in whole microseconds, or are refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from storage.instants import EPOCH, epoch_us, format_instant, parse_expiry, parse_instant, to_utc

Parse = Callable[[object], datetime]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
BAD = [
    pytest.param("soonish", id="a-word"),
    pytest.param("", id="empty"),
    pytest.param("2026-01-31T12", id="hour-only"),
    pytest.param("2026-01-31T12:00:00.", id="point-without-digits"),
    pytest.param("2026-01-31T12:00.5Z", id="fraction-of-a-minute"),
    pytest.param("2026-01-31T12:00:00,5Z", id="decimal-comma"),
    pytest.param("2026-1-31T12:00:00Z", id="month-of-one-digit"),
    pytest.param("20260131T120000Z", id="basic-format"),
    pytest.param("2026-W05-6T12:00:00Z", id="week-date"),
    pytest.param(" 2026-01-31T12:00:00Z", id="blank-before"),
    pytest.param("2026-01-31T12:00:00Z\n", id="newline-after"),
    pytest.param("2026-01-31T12:00:00 UTC", id="zone-name"),
    pytest.param("2026-01-31T12:00:00+1", id="offset-of-one-digit"),
    pytest.param("2026-01-31T12:00:00+24:00", id="offset-of-a-day"),
    pytest.param("2026-01-31T12:00:00+05:60", id="offset-with-60-minutes"),
    pytest.param("\uff12\uff10\uff12\uff16-01-31T12:00:00Z", id="wide-digits"),
    pytest.param("2026-02-30T12:00:00Z", id="no-such-day"),
    pytest.param("2025-02-29T12:00:00Z", id="no-leap-year"),
    pytest.param("2026-01-31T24:00:00Z", id="hour-24"),
    pytest.param("2026-01-31T12:60:00Z", id="minute-60"),
    pytest.param("2026-12-31T23:59:60Z", id="leap-second"),
    pytest.param("0000-01-01T00:00:00Z", id="year-0"),
    pytest.param("0001-01-01T00:00:00+00:01", id="before-the-first-year"),
    pytest.param("9999-12-31T23:59:59-00:01", id="after-the-last-year"),
    pytest.param(1_769_860_800, id="a-number"),
    pytest.param(None, id="null"),
    pytest.param(True, id="bool"),
    pytest.param(NOON.date(), id="a-date"),
    pytest.param(b"2026-01-31T12:00:00Z", id="bytes"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-01-31T12:00:00Z", NOON, id="Z"),
        pytest.param("2026-01-31T12:00:00z", NOON, id="small-z"),
        pytest.param("2026-01-31T12:00:00", NOON, id="V107-naive-is-utc"),
        pytest.param("2026-01-31 12:00:00", NOON, id="blank-between"),
        pytest.param("2026-01-31T12:00", NOON, id="no-seconds"),
        pytest.param("2026-01-31T14:00:00+02:00", NOON, id="V107-east"),
        pytest.param("2026-01-31T07:00:00-0500", NOON, id="V107-west-without-colon"),
        pytest.param("2026-02-01T02:30+14:30", NOON, id="next-day-in-the-east"),
        pytest.param("2026-01-31T12:00:00-00:00", NOON, id="minus-zero"),
        pytest.param("2026-01-31T12:00:00.25Z", NOON.replace(microsecond=250_000), id="V107-.25"),
        pytest.param("2026-01-31T12:00:00.000001", NOON.replace(microsecond=1), id="one-us"),
        pytest.param(
            "2026-01-31T12:00:00.1234569Z", NOON.replace(microsecond=123_456), id="V107-cut-at-7"
        ),
        pytest.param("2026-01-31T12:00:00.000000999999Z", NOON, id="cut-at-12"),
        pytest.param("2024-02-29T00:00Z", datetime(2024, 2, 29, tzinfo=UTC), id="leap-day"),
        pytest.param("0001-01-01T00:00Z", datetime(1, 1, 1, tzinfo=UTC), id="first-year"),
        pytest.param(NOON.replace(tzinfo=None), NOON, id="naive-datetime"),
        pytest.param(NOON.astimezone(timezone(timedelta(hours=9))), NOON, id="aware-datetime"),
    ],
)
@pytest.mark.parametrize("parse", [parse_instant, parse_expiry])
def test_instant_is_read_in_utc(parse: Parse, text: object, expected: datetime) -> None:
    parsed = parse(text)
    assert (parsed, parsed.tzinfo) == (expected, UTC)


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("parse", [parse_instant, parse_expiry])
def test_anything_else_is_refused(parse: Parse, text: object) -> None:
    with pytest.raises(ValueError, match=r"not an instant"):
        parse(text)


def test_refusal_does_not_repeat_the_text() -> None:
    with pytest.raises(ValueError, match=r"^not an instant such as 2026-01-31T12:00:00Z$"):
        parse_instant("canary-4711")


def test_bare_date_is_no_instant() -> None:
    with pytest.raises(ValueError, match=r"not an instant"):
        parse_instant("2026-01-31")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-09-29", datetime(2026, 9, 30, tzinfo=UTC), id="L15-end-of-that-day"),
        pytest.param("2026-12-31", datetime(2027, 1, 1, tzinfo=UTC), id="end-of-the-year"),
        pytest.param("2024-02-28", datetime(2024, 2, 29, tzinfo=UTC), id="before-a-leap-day"),
        pytest.param("9999-12-30", datetime(9999, 12, 31, tzinfo=UTC), id="last-day-with-an-end"),
    ],
)
def test_bare_date_expires_at_the_end_of_that_utc_day(text: str, expected: datetime) -> None:
    assert parse_expiry(text) == expected


@pytest.mark.parametrize("text", ["2026-02-30", "2026-13-01", "0000-01-01", "9999-12-31"])
def test_day_that_the_calendar_lacks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a day of the calendar"):
        parse_expiry(text)


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        (EPOCH, 0),
        (datetime(1970, 1, 1), 0),  # noqa: DTZ001 - naive is UTC
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 253_402_300_799_999_999),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
    ],
)
def test_microseconds_since_the_epoch_are_exact(instant: datetime, expected: int) -> None:
    assert epoch_us(instant) == expected


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (NOON, "2026-01-31T12:00:00.000000Z"),
        (NOON.replace(tzinfo=None, microsecond=1), "2026-01-31T12:00:00.000001Z"),
        (NOON.astimezone(timezone(timedelta(hours=-5))), "2026-01-31T12:00:00.000000Z"),
        (datetime(1, 2, 3, tzinfo=UTC), "0001-02-03T00:00:00.000000Z"),
    ],
)
def test_text_has_six_digits_and_reads_back(instant: datetime, text: str) -> None:
    assert format_instant(instant) == text
    assert parse_instant(text) == to_utc(instant)
