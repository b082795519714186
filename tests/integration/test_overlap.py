"""Runs that start together: one works, the others end as skipped_busy and no run as failed.

The ids of the cases are those of spec/maintenance.md 4.2 and spec/cases.md.
"""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from threading import Barrier
from typing import ParamSpec, TypeVar

import pytest
from helpers.big_plans import BigPlan, make_big_plan
from helpers.children import Child, start_child
from helpers.rows import NOW
from helpers.runs import request_job, run_one

from storage import Store
from storage.errors import LeaseHeldError
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.runs import list_runs
from tasks.inline import Call, call_directly
from tasks.jobs import find_job
from tasks.report import RunResult
from tasks.stages import begin_stage

P = ParamSpec("P")
R = TypeVar("R")
CHANGING = ("prune", "sweep", "consolidate", "restore")
JOBS = (*CHANGING, "erase", "refresh", "health", "maintain")


def excludes(held: str, asked: str) -> bool:
    """Say what table 3.2 says."""
    both = {held, asked}
    return held == asked or both <= {*CHANGING, "erase"} or both == {"erase", "refresh"}


@pytest.mark.parametrize(("held", "asked"), [*product(JOBS, JOBS)])
def test_jobs_exclude_each_other_as_the_table_says(store: Store, held: str, asked: str) -> None:
    """V29, V30."""
    with store.session():
        assert ask(store, held, "A") == "granted"
        reason = "lease_held" if held == asked else "excluded_job"
        assert ask(store, asked, "B") == (reason if excludes(held, asked) else "granted")


def ask(store: Store, job: str, holder: str) -> str:
    try:
        with store.write() as writer:
            owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
            acquire_lease(writer, owner, job, holder=holder, clock=NOW)
    except LeaseHeldError as error:
        return str(error.facts["reason"])
    return "granted"


class AskTogether:
    """Calls stages; whoever got its lease goes on only when all have asked."""

    def __init__(self, runs: int) -> None:
        self._asked = Barrier(runs, timeout=30)

    def __call__(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        result = stage(*args, **kwargs)
        if stage is begin_stage:
            self._asked.wait()
        return result


def run(store: Store, job: str, now: datetime, call: Call = call_directly) -> RunResult:
    policy = find_job(job).policy_type()
    return run_one(request_job(store, job=job, policy=policy, now=now, mode="apply"), call=call)


def test_prune_twice_and_a_manual_consolidate_at_once(store: Store, now: datetime) -> None:
    """V32 and C39: one runs, two are skipped, none fails; then each of them runs."""
    call, jobs = AskTogether(3), ["prune", "prune", "consolidate"]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda job: run(store, job, now, call), jobs))
    outcomes = sorted(result.end.outcome for result in results)
    assert outcomes == ["skipped_busy", "skipped_busy", "unchanged"]
    with store.read() as reader:
        stored = {row["run_id"]: row for row in list_runs(reader, limit=9)}
    worked = next(result for result in results if result.end.outcome == "unchanged")
    for result in results:
        row = stored.pop(result.run_id)
        assert row["outcome"] == result.end.outcome
        expected = "lease_held" if result.job == worked.job else "excluded_job"
        assert row["code"] == (None if result is worked else expected)
    assert not stored
    assert [run(store, job, now).end.outcome for job in jobs] == ["unchanged"] * 3


@pytest.fixture
def plan(tmp_path: Path) -> BigPlan:
    return make_big_plan(tmp_path / "store", "sweep", batch_size=100)


def start(stack: ExitStack, plan: BigPlan, run_id: str, *, stop_after: int = 0) -> Child:
    header = plan.header
    arguments = (plan.store.path, header.job, header.plan_id, run_id, 1, stop_after)
    child = stack.enter_context(start_child("run_job", *arguments))
    assert child.hear() == "ready"
    child.signal()
    return child


def test_two_processes_never_work_at_once(plan: BigPlan) -> None:
    """V38: nothing but the lease keeps them apart."""
    with ExitStack() as stack:
        first = start(stack, plan, "first", stop_after=1)
        os.waitid(os.P_PID, first.process.pid, os.WSTOPPED)
        assert start(stack, plan, "second").hear_all() == ["skipped_busy lease_held"]
        first.process.send_signal(signal.SIGCONT)
        assert first.hear_all()[-1] == "applied None"
    with plan.store.read() as reader:
        stored = {row["run_id"]: row["outcome"] for row in list_runs(reader, limit=9)}
    assert stored == {"first": "applied", "second": "skipped_busy"}


def test_run_that_cannot_open_the_store_in_time_is_busy_and_leaves_no_row(
    store: Store, now: datetime
) -> None:
    """V39: the store was free when the run looked for its namespaces, and is held then."""

    def hold(stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with start_child("hold_store", store.path, "write") as holder:
            assert holder.hear() == "held"
            return stage(*args, **kwargs)

    policy = find_job("prune").policy_type()
    given = {"job": "prune", "policy": policy, "mode": "apply", "lock_wait_s": 0.3}
    result = run_one(request_job(store, now=now, **given), call=hold)
    assert (result.end.outcome, result.end.code) == ("skipped_busy", "store_locked")
    with store.read() as reader:
        assert list_runs(reader, limit=1) == []


def test_lease_that_ran_out_lets_the_next_run_in(plan: BigPlan) -> None:
    """V36 at 300 seconds sharp, across processes."""
    with plan.store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        clock = NOW - timedelta(seconds=299)
        acquire_lease(writer, owner, "sweep", holder="dead", clock=clock)
    with ExitStack() as stack:
        assert start(stack, plan, "next").hear_all()[-1] == "applied None"
