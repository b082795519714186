"""A process that is killed or stopped while it applies a plan leaves no memory half done.

The next run, once the lease has run out, does the rest and nothing twice.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest
from helpers.big_plans import BigPlan, make_big_plan
from helpers.children import Child, kill_at_work, start_ahead, start_child
from helpers.invariants import Snapshot, assert_nothing_is_half_done, take_snapshot
from helpers.runs import dump_tables, request_job, run_one

from storage.runs import list_runs, read_run
from tasks.jobs import find_rule
from tasks.limits import SafetyLimits
from tasks.report import RunResult

pytestmark = pytest.mark.slow

# Together 20 kills.
KILLS = {"prune-tombstone": 6, "prune-delete": 7, "sweep": 7}
SMALL, LARGE = 9, 100
TTL_S = 300
LONGEST_S = 0.04


def start_apply(
    stack: ExitStack, plan: BigPlan, run_id: str, *, at_s: int, stop_after: int = 0
) -> Child:
    """Start a process that applies the plan when told to; its clock starts `at_s` after NOW."""
    header = plan.header
    arguments = (plan.store.path, header.job, header.plan_id, run_id, at_s, stop_after)
    return stack.enter_context(start_child("run_job", *arguments))


def start_applies(stack: ExitStack, plan: BigPlan, runs: int) -> Iterator[Child]:
    """Start the processes of several runs, some ahead; each may take over the one before."""
    return start_ahead(
        start_apply(stack, plan, f"killed-{number}", at_s=number * (TTL_S + 1))
        for number in range(runs)
    )


def stop_in_apply(stack: ExitStack, plan: BigPlan, *, at_s: int) -> Child:
    """Start a process that stands still after its second batch, holding its lease."""
    child = start_apply(stack, plan, "stopped", at_s=at_s, stop_after=2)
    assert child.hear() == "ready"
    child.signal()
    os.waitid(os.P_PID, child.process.pid, os.WSTOPPED)
    return child


def apply_here(plan: BigPlan, *, at_s: int) -> RunResult:
    """Apply the plan in this process; its clock starts `at_s` after NOW and ticks."""
    header, job, ticks = plan.header, find_rule(plan.header.job), count()
    request = request_job(
        plan.store,
        job=job.name,
        policy=job.policy_type(),
        now=header.now,
        mode="apply",
        clock=lambda: header.now + timedelta(seconds=at_s, milliseconds=next(ticks)),
        limits=SafetyLimits(max_fraction=1.0),
        plan_id=header.plan_id,
    )
    return run_one(request)


def assert_killed_runs_are_abandoned(plan: BigPlan, after: Snapshot) -> None:
    """Check the rows of killed runs; one that was killed before its first commit has none."""
    receipts = Counter(receipt["run_id"] for receipt in after.receipts)
    with plan.store.read() as reader:
        runs = [run for run in list_runs(reader, limit=99) if run["run_id"].startswith("killed")]
    for run in runs:
        assert (run["outcome"], run["found"], run["failed"]) == ("abandoned", run["applied"], 0)
        assert run["applied"] == receipts.pop(run["run_id"], 0)
        assert run["plan_id"] == plan.header.plan_id or not run["applied"]
    assert len(receipts) == 1


@pytest.mark.parametrize("name", KILLS)
def test_killed_apply_is_finished_by_the_next_run(name: str, tmp_path: Path) -> None:
    plan = make_big_plan(tmp_path / "store", name, batch_size=SMALL)
    moments = Random(name)  # noqa: S311 - a seed
    header, later = plan.header, TTL_S * (KILLS[name] + 2)
    before = take_snapshot(plan.store, header.plan_id)
    with ExitStack() as stack:
        for child in start_applies(stack, plan, KILLS[name]):
            kill_at_work(child, moments, longest_s=LONGEST_S)
            killed = take_snapshot(plan.store, header.plan_id)
            assert_nothing_is_half_done(before, killed, header.now)
    end, done = apply_here(plan, at_s=later).end, len(killed.receipts)
    assert (end.outcome, end.skipped) == ("applied", {"already_applied": done})
    assert 0 < end.applied == header.planned - done
    after = take_snapshot(plan.store, header.plan_id)
    assert_nothing_is_half_done(before, after, header.now)
    assert_killed_runs_are_abandoned(plan, after)
    assert apply_here(plan, at_s=later).end.outcome == "unchanged"
    assert take_snapshot(plan.store, header.plan_id) == after


def test_killed_run_keeps_its_lease_until_it_runs_out(tmp_path: Path) -> None:
    """V36: killed at 50, asked again at 60 and at 351."""
    plan = make_big_plan(tmp_path / "store", "prune-tombstone", batch_size=LARGE)
    with ExitStack() as stack:
        stop_in_apply(stack, plan, at_s=50).process.kill()
    busy = apply_here(plan, at_s=60)
    assert (busy.end.outcome, busy.error and busy.error["reason"]) == ("skipped_busy", "lease_held")
    assert apply_here(plan, at_s=351).end.outcome == "applied"
    with plan.store.read() as reader:
        assert read_run(reader, "stopped")["outcome"] == "abandoned"


def test_run_that_lost_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    """V37: stopped at 50, another run at 351, then the first goes on."""
    plan = make_big_plan(tmp_path / "store", "sweep", batch_size=LARGE)
    with ExitStack() as stack:
        child = stop_in_apply(stack, plan, at_s=50)
        end = apply_here(plan, at_s=351).end
        assert (end.outcome, end.skipped) == ("applied", {"already_applied": 130})
        before = dump_tables(plan.store)
        child.process.send_signal(signal.SIGCONT)
        assert child.hear_all() == ["batch", "batch", "failed lease_lost"]
    assert dump_tables(plan.store) == before
