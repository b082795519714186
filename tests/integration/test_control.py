"""What keeps runs from starting or ends them early: spec/maintenance.md 2.7."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Thread

import pytest
from helpers.big_plans import BigPlan, make_big_plan
from helpers.invariants import assert_nothing_is_half_done, take_snapshot
from helpers.rows import NOW
from helpers.runs import dump_tables, request_job, run_one

from storage import Store
from storage.control import list_paused, read_phase
from storage.leases import Lease, acquire_lease, keep_lease, release_lease, request_cancel
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.run_errors import RunCancelledError
from storage.runs import RunEnd, RunStart, begin_run, finish_run, read_run
from tasks.control import CloseReport, close_store, pause, resume
from tasks.jobs import find_job
from tasks.limits import SafetyLimits
from tasks.report import RunResult


def clock() -> datetime:
    return NOW


def wall() -> datetime:
    return datetime.now(UTC)


def run(store: Store, job: str = "prune", **asked: object) -> RunResult:
    given = {"job": job, "policy": find_job(job).policy_type(), "now": NOW, "mode": "apply"}
    return run_one(request_job(store, **(given | asked)))


def begin(store: Store, run_id: str, job: str, *, at: datetime) -> Lease:
    with store.write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        lease = acquire_lease(writer, target, job, holder=run_id, clock=at)
        start = RunStart(run_id, job, target.namespace_id, "apply", "manual", at, at)
        begin_run(writer, start, lease_fence=lease.fence)
    return lease


def test_paused_job_asks_for_no_lease_and_others_run(store: Store) -> None:
    state = pause(store, "prune", clock=clock)
    assert (state.phase, state.paused) == ("running", ["prune"])
    before = dump_tables(store, without=["runs"])
    result = run(store)
    assert (result.end.outcome, result.end.code) == ("skipped_busy", "disabled")
    assert dump_tables(store, without=["runs"]) == before
    with store.read() as reader:
        stored = read_run(reader, result.run_id)
        sequences = reader.rows("SELECT sequence, lease_fence FROM runs")
    assert (stored["outcome"], stored["code"]) == ("skipped_busy", "disabled")
    assert sequences == [(None, None)]
    assert run(store, "sweep").end.outcome == "unchanged"
    resume(store, "prune", clock=clock)
    assert run(store).end.outcome == "unchanged"


def test_pause_of_every_job_is_not_lifted_by_one_name(store: Store) -> None:
    assert pause(store, None, clock=clock).phase == "disabled"
    resume(store, "prune", clock=clock)
    assert run(store).end.code == "disabled"
    assert resume(store, None, clock=clock).phase == "running"
    assert run(store).end.outcome == "unchanged"


def test_pausing_twice_changes_nothing(store: Store) -> None:
    pause(store, "prune", clock=clock)
    before = dump_tables(store)
    pause(store, "prune", clock=lambda: NOW + timedelta(hours=1))
    assert dump_tables(store) == before


def test_pause_survives_close_and_opening(store: Store) -> None:
    pause(store, "prune", clock=clock)
    close_store(store, timeout_s=1, clock=wall)
    resume(store, None, clock=clock)
    with store.read() as reader:
        assert (read_phase(reader), list_paused(reader)) == ("running", ["prune"])
    assert run(store).end.code == "disabled"


def test_closed_store_runs_nothing_until_it_is_opened(store: Store) -> None:
    """V91."""
    close_store(store, timeout_s=1, clock=wall)
    result = run(store, trigger="schedule", slot=NOW)
    assert (result.end.outcome, result.end.code) == ("skipped_busy", "closed")
    resume(store, None, clock=clock)
    assert run(store, trigger="schedule", slot=NOW).end.outcome == "unchanged"


@pytest.fixture
def plan(tmp_path: Path) -> BigPlan:
    return make_big_plan(tmp_path / "store", "sweep", batch_size=50)


def apply(plan: BigPlan, on_batch: Callable[[int], None] = lambda _: None) -> RunResult:
    ticks = count()
    request = request_job(
        plan.store,
        job="sweep",
        policy=find_job("sweep").policy_type(),
        now=NOW,
        mode="apply",
        clock=lambda: NOW + timedelta(milliseconds=next(ticks)),
        limits=SafetyLimits(max_fraction=1.0),
        plan_id=plan.header.plan_id,
    )
    return run_one(request, on_batch=on_batch)


def cancel(store: Store, job: str | None = None, *, at: datetime = NOW) -> int:
    with store.write() as writer:
        return request_cancel(writer, job=job, clock=at)


def test_cancelled_apply_ends_between_two_batches_and_the_next_run_goes_on(plan: BigPlan) -> None:
    before, done = take_snapshot(plan.store, plan.header.plan_id), []

    def ask_to_end(batch: int) -> None:
        done.append(batch)
        if len(done) == 2:
            assert cancel(plan.store) == 1

    result = apply(plan, ask_to_end)
    assert (result.end.outcome, result.end.code) == ("failed", "cancelled")
    assert len(done) == 2
    rest = plan.header.planned - sum(done)
    assert (result.end.applied, result.end.skipped) == (sum(done), {"not_reached": rest})
    after = take_snapshot(plan.store, plan.header.plan_id)
    assert_nothing_is_half_done(before, after, NOW)
    assert len(after.receipts) == sum(done)
    second = apply(plan)
    assert second.end.outcome == "applied"
    assert second.end.skipped == {"already_applied": sum(done)}


def test_cancel_names_a_job_or_all_and_spares_expired_leases(store: Store) -> None:
    prune, refresh = begin(store, "A", "prune", at=NOW), begin(store, "B", "refresh", at=NOW)
    assert cancel(store, "sweep") == 0
    assert cancel(store, "prune") == 1
    with store.write() as writer:
        keep_lease(writer, refresh, clock=NOW)
    with pytest.raises(RunCancelledError), store.write() as writer:
        keep_lease(writer, prune, clock=NOW)
    assert cancel(store, at=NOW + timedelta(hours=1)) == 0


def test_run_past_its_commit_point_is_not_cancelled(store: Store) -> None:
    lease = begin(store, "A", "prune", at=NOW)
    cancel(store)
    with store.write() as writer:
        keep_lease(writer, lease, clock=NOW, is_committed=True)


def test_next_grant_forgets_the_cancellation(store: Store) -> None:
    lease = begin(store, "A", "prune", at=NOW)
    cancel(store)
    with store.write() as writer:
        release_lease(writer, lease, clock=NOW)
    assert run(store).end.outcome == "unchanged"


def test_pause_can_cancel_what_is_at_work(store: Store) -> None:
    begin(store, "A", "prune", at=NOW)
    begin(store, "B", "refresh", at=NOW)
    state = pause(store, "prune", clock=clock, is_cancelling=True)
    assert (state.running, state.cancelled) == (2, 1)


@contextmanager
def runs_that_end(store: Store, *delays: float) -> Iterator[None]:
    """Hold a lease for each delay in seconds; the run ends and gives it back then."""
    jobs = ("prune", "refresh", "health")

    def work(lease: Lease, delay: float) -> None:
        time.sleep(delay)
        with store.write() as writer:
            finish_run(writer, lease.holder, RunEnd("failed", code="cancelled"), clock=wall())
            release_lease(writer, lease, clock=wall())

    leases = [begin(store, job, job, at=wall()) for job, _ in zip(jobs, delays, strict=False)]
    threads = [
        Thread(target=work, args=(lease, delay))
        for lease, delay in zip(leases, delays, strict=True)
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("delays", "timeout_s", "report"),
    [
        pytest.param([0.2], 2.0, CloseReport(jobs_joined=1), id="V83"),
        pytest.param([1.0], 0.4, CloseReport(jobs_aborted=1), id="V84"),
        pytest.param([0.6, 0.8], 1.5, CloseReport(jobs_joined=2), id="V85"),
        pytest.param([], 1.0, CloseReport(), id="nothing-at-work"),
    ],
)
def test_close_waits_for_all_runs_until_one_deadline(
    store: Store, delays: list[float], timeout_s: float, report: CloseReport
) -> None:
    with runs_that_end(store, *delays):
        started = time.monotonic()
        found = close_store(store, timeout_s=timeout_s, clock=wall)
        took_s = time.monotonic() - started
    assert found == report
    assert found.is_clean == (not report.jobs_aborted)
    assert min([*delays, timeout_s], default=0.0) * bool(delays) <= took_s < timeout_s + 0.5
    with store.read() as reader:
        assert read_phase(reader) == "closed"


def test_close_settles_a_run_whose_process_is_gone(store: Store) -> None:
    """V86; nobody can tell before its lease has run out."""
    begin(store, "dead", "prune", at=wall() - timedelta(hours=1))
    report = close_store(store, timeout_s=1, clock=wall)
    assert (report, report.is_clean) == (CloseReport(join_failures=1), False)
    with store.read() as reader:
        assert read_run(reader, "dead")["outcome"] == "abandoned"


def test_second_close_gives_the_first_report_until_the_store_is_opened(store: Store) -> None:
    """V87."""
    begin(store, "dead", "prune", at=wall() - timedelta(hours=1))
    first = close_store(store, timeout_s=1, clock=wall)
    before = dump_tables(store)
    assert close_store(store, timeout_s=1, clock=wall) == first
    assert dump_tables(store) == before
    resume(store, None, clock=wall)
    assert close_store(store, timeout_s=1, clock=wall) == CloseReport()


def test_close_asks_runs_to_end(store: Store) -> None:
    lease = begin(store, "A", "prune", at=wall())
    close_store(store, timeout_s=0.1, clock=wall)
    with pytest.raises(RunCancelledError), store.write() as writer:
        keep_lease(writer, lease, clock=wall())


def test_history_is_readable_and_epochs_stay_after_close(store: Store) -> None:
    """V70 and R44."""
    first = run(store)
    close_store(store, timeout_s=1, clock=wall)
    resume(store, None, clock=wall)
    run(store)
    with store.read() as reader:
        assert read_run(reader, first.run_id)["outcome"] == "unchanged"
        assert reader.rows("SELECT epoch, sequence FROM runs ORDER BY sequence") == [(1, 1), (1, 2)]
