"""Slots of schedules as figures (spec/maintenance.md 4.1 and 4.5, spec/sweep.md Q06)."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import AdmissionError
from tasks.rules.slots import Interval, find_day, judge_slot
from tasks.signals import check_shutdown_timeout

NOW = datetime(2026, 9, 30, 0, 0, 7, tzinfo=UTC)
START = datetime(2026, 9, 30, tzinfo=UTC)


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


@pytest.mark.parametrize(
    ("interval", "slots"),
    [
        pytest.param(
            Interval(300),
            ["2026-09-30T00:05:00Z", "2026-09-30T00:10:00Z", "2026-09-30T00:15:00Z"],
            id="V1",
        ),
        pytest.param(
            Interval(86_400, 11_700), ["2026-09-30T03:15:00Z", "2026-10-01T03:15:00Z"], id="V2"
        ),
    ],
)
def test_slots_of_an_interval_are_absolute(interval: Interval, slots: list[str]) -> None:
    found = [slot.strftime("%Y-%m-%dT%H:%M:%SZ") for slot in islice(interval.list_slots(NOW), 3)]
    assert found[: len(slots)] == slots


def test_slot_of_this_instant_is_over() -> None:
    assert next(Interval(300).list_slots(START)) == at(300)


@given(st.integers(1, 100_000), st.integers(0, 10**6), st.data())
def test_anchor_and_slots_agree_whenever_somebody_asks(
    interval_s: int, second: int, data: st.DataObject
) -> None:
    """V16: nothing depends on when the asking process started."""
    interval = Interval(interval_s, data.draw(st.integers(0, interval_s - 1)))
    first, second_slot = islice(interval.list_slots(at(second)), 2)
    assert at(second) < first <= at(second) + timedelta(seconds=interval_s)
    assert second_slot - first == timedelta(seconds=interval_s)
    assert (first - interval.anchor) % timedelta(seconds=interval_s) == timedelta(0)


@pytest.mark.parametrize("interval_s", [0, 0.5, 31_536_001])
def test_interval_out_of_bounds_is_refused(interval_s: float) -> None:
    """V78."""
    with pytest.raises(AdmissionError, match="interval_s"):
        Interval(interval_s)  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize("interval_s", [1, 31_536_000])
def test_interval_within_bounds_is_accepted(interval_s: int) -> None:
    """V78."""
    assert Interval(interval_s).interval_s == interval_s


@pytest.mark.parametrize("offset_s", [-1, 300])
def test_offset_out_of_bounds_is_refused(offset_s: int) -> None:
    with pytest.raises(AdmissionError, match="offset_s"):
        Interval(300, offset_s)


@pytest.mark.parametrize("timeout_s", [0, 30.001])
def test_shutdown_timeout_out_of_bounds_is_refused(timeout_s: float) -> None:
    """V79."""
    with pytest.raises(AdmissionError, match="shutdown_timeout_s"):
        check_shutdown_timeout(timeout_s)


def test_longest_shutdown_timeout_is_accepted() -> None:
    """V79."""
    assert check_shutdown_timeout(30) == 30


DAYS = {
    "2026-10-24T00:30:00Z": "2026-10-24",
    "2026-10-25T00:30:00Z": "2026-10-25",
    "2026-10-25T01:30:00Z": "2026-10-25",
    "2026-10-26T01:30:00Z": "2026-10-26",
    "2027-03-27T01:30:00Z": "2027-03-27",
    "2027-03-28T01:30:00Z": "2027-03-28",
    "2027-03-29T00:30:00Z": "2027-03-29",
}


@pytest.mark.parametrize(("slot", "day"), DAYS.items())
def test_local_date_is_the_key_of_a_daily_slot(slot: str, day: str) -> None:
    """V17, V18 and Q06: an hour that occurs twice has one date."""
    assert find_day(datetime.fromisoformat(slot), "Europe/Berlin") == day


@pytest.mark.parametrize("zone", ["Nowhere/City", "../etc/passwd", "", "\0"])
def test_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(AdmissionError, match="slot_zone"):
        find_day(NOW, zone)


@given(st.lists(st.integers(0, 48), min_size=1, max_size=48), st.integers(0, 3600))
def test_late_slots_make_one_run_in_any_order(hours: list[int], delay_s: int) -> None:
    """V6 and V7: all of them start after the last was due."""
    clock, last_settled, runs = at(48 * 3600 + delay_s), None, 0
    for hour in hours:
        if judge_slot(at(hour * 3600), last_settled=last_settled) is None:
            last_settled, runs = clock, runs + 1
    assert runs == 1
