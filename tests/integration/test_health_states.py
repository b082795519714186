"""How jobs and the store are, by their runs alone (spec/maintenance.md 4.3, V55-V64)."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from helpers.health import Timeline, instant
from helpers.runs import dump_tables

from storage import Store
from storage.control import set_closing, set_pause
from storage.gateway import DATABASE_FILE
from tasks.health.jobs import Schedule

pytestmark = pytest.mark.slow


@pytest.fixture
def prune(store: Store) -> Timeline:
    return Timeline(store)


def judge(timeline: Timeline, at: int, **asked: object) -> tuple[str, bool, bool]:
    status = timeline.read(at, **asked)
    return status["phase"], status["is_degraded"], status["is_healthy"]


def test_v55_failed_run_degrades_and_its_error_is_kept(prune: Timeline) -> None:
    prune.settle(0, "failed", code="internal:ValueError", error="a stranger's text")
    assert judge(prune, 10) == ("running", True, False)
    job = prune.read_job(10)
    assert (job["failed_runs"], job["last_error"]) == (1, "internal:ValueError")
    assert "stranger" not in repr(prune.read(10))


def test_v56_success_after_it_clears_the_error(prune: Timeline) -> None:
    prune.settle(0, "failed", code="internal:ValueError")
    prune.settle(5, "applied", found=2, applied=2)
    assert judge(prune, 10) == ("running", False, True)
    job = prune.read_job(10)
    assert (job["last_error"], job["total_affected_items"]) == (None, 2)
    assert (job["last_affected_items"], job["successful_runs"], job["failed_runs"]) == (2, 1, 1)


def test_v57_skipped_run_clears_nothing(prune: Timeline) -> None:
    prune.settle(0, "failed", code="lease_lost")
    prune.skip(5)
    assert judge(prune, 10)[1]
    job = prune.read_job(10)
    assert (job["last_error"], job["last_state"], job["skipped_runs"]) == (
        "lease_lost",
        "skipped_busy",
        1,
    )


@pytest.mark.parametrize("outcome", ["refused", "abandoned"])
def test_refused_and_abandoned_runs_degrade_too(prune: Timeline, outcome: str) -> None:
    prune.settle(0, outcome, code=f"was_{outcome}")  # type: ignore[arg-type] # both are outcomes
    job = prune.read_job(10)
    assert (job["last_error"], job[f"{outcome}_runs"]) == (f"was_{outcome}", 1)
    assert judge(prune, 10)[1]


def test_v58_failed_rows_degrade(prune: Timeline) -> None:
    """The second half, rows that became permanent, is case C57."""
    prune.settle(0, "partial", found=2, applied=1, failed=1)
    assert prune.read_job(10)["failed_rows"] == 1
    assert judge(prune, 10)[1]
    prune.settle(20, "unchanged")
    assert judge(prune, 30) == ("running", False, True)


def test_v59_store_without_an_enabled_job_is_disabled_and_healthy(prune: Timeline) -> None:
    prune.settle(0, "failed", code="lease_lost")
    with prune.store.write() as writer:
        set_pause(writer, None, is_paused=True, clock=instant(5))
    assert judge(prune, 10) == ("disabled", False, True)


def test_paused_job_is_shown_and_degrades_nothing(prune: Timeline) -> None:
    prune.activate(300)
    prune.settle(0, "failed", code="lease_lost")
    with prune.store.write() as writer:
        set_pause(writer, "prune", is_paused=True, clock=instant(5))
    assert judge(prune, 10_000) == ("running", False, True)
    job = prune.read_job(10_000)
    assert (job["is_paused"], job["is_overdue"], job["last_error"]) == (True, False, "lease_lost")


@pytest.mark.parametrize(
    ("settled", "at", "is_alive"),
    [
        pytest.param(None, 660, True, id="V60-no-run-in-time"),
        pytest.param(None, 661, False, id="V60-no-run-overdue"),
        pytest.param(1600, 2260, True, id="V61-last-run-in-time"),
        pytest.param(1600, 2261, False, id="V61-last-run-overdue"),
    ],
)
def test_job_at_an_interval_is_overdue_after_two_of_them(
    prune: Timeline, settled: int | None, at: int, is_alive: bool
) -> None:
    prune.activate(300)
    if settled is not None:
        prune.settle(settled, "unchanged")
    job = prune.read_job(at)
    assert (job["worker_alive"], job["is_overdue"], job["interval_s"]) == (
        is_alive,
        not is_alive,
        300,
    )
    assert judge(prune, at)[1] is not is_alive


def hourly(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def never(_moment: datetime) -> None:
    return None


def test_job_on_a_cron_is_overdue_a_minute_after_its_second_next_slot(prune: Timeline) -> None:
    prune.settle(600, "unchanged", trigger="schedule")
    schedules = {"prune": Schedule(hourly)}
    in_time, late = 7_260, 7_261
    assert prune.read_job(in_time, schedules=schedules)["worker_alive"]
    assert not prune.read_job(late, schedules=schedules)["worker_alive"]
    assert prune.read_job(late, schedules=schedules)["next_due"] == instant(10_800)


@pytest.mark.parametrize("next_after", [hourly, never])
def test_nobody_waits_for_a_job_that_no_schedule_has_started(
    prune: Timeline, next_after: Callable[[datetime], datetime | None]
) -> None:
    prune.settle(0, "unchanged")
    job = prune.read_job(1_000_000, schedules={"prune": Schedule(next_after)})
    assert (job["worker_alive"], job["is_overdue"]) == (True, False)


def test_v62_run_whose_lease_ran_out_has_no_worker(prune: Timeline) -> None:
    prune.start(0)
    at_work = prune.read_job(299)
    assert (at_work["worker_alive"], at_work["run_in_progress"]) == (True, True)
    gone = prune.read_job(300)
    assert (gone["worker_alive"], gone["run_in_progress"]) == (False, False)
    prune.settle(400, "unchanged")
    assert prune.read_job(500)["worker_alive"]


def test_v63_closing_store_is_not_degraded(prune: Timeline) -> None:
    prune.settle(0, "failed", code="lease_lost")
    with prune.store.write() as writer:
        set_closing(writer, clock=instant(5))
    assert judge(prune, 10) == ("closing", False, False)


@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_v64_reading_changes_nothing(prune: Timeline, times: int) -> None:
    prune.settle(0, "applied", found=1, applied=1)
    file = prune.store.path / DATABASE_FILE
    before = dump_tables(prune.store), file.read_bytes(), sorted(prune.store.path.rglob("*"))
    for _ in range(times):
        prune.read(10)
    after = dump_tables(prune.store), file.read_bytes(), sorted(prune.store.path.rglob("*"))
    assert after == before


def test_job_that_never_ran_has_no_figures_of_runs(prune: Timeline) -> None:
    job = prune.read_job(0)
    unknown = ("last_outcome", "last_success", "last_state", "last_error", "last_affected_items")
    assert [job[name] for name in unknown] == [None] * len(unknown)
    assert (job["failed_rows"], job["coverage"], job["next_due"]) == (None, None, None)
    assert (job["successful_runs"], job["worker_alive"]) == (0, True)
