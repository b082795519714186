"""Merges and their undo survive kill -9: each change set is whole or was never begun.

The next run goes on from the receipts: nothing is merged twice, nothing that somebody else wrote
meanwhile is lost.
"""

import os
import signal
import time
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest
from helpers.children import Child, kill_at_work, start_ahead, start_child
from helpers.edits import revise_memory
from helpers.merge_plans import MergePlan, make_merge_plan
from helpers.merge_spaces import kept_fields
from helpers.rows import NOW
from helpers.runs import dump_tables, request_job, run_one

from storage import open_store
from storage.errors import MaintenanceError
from storage.instants import format_instant
from storage.invariants import check_invariants
from storage.models import MemoryRecord, Status
from tasks.doctor import examine
from tasks.doctor_store import StoreDoctor
from tasks.limits import SafetyLimits
from tasks.policies import ConsolidatePolicy
from tasks.report import RunResult
from tasks.restoring import RestorePolicy

pytestmark = pytest.mark.slow

KILLS = 8
SMALL, LARGE = 9, 60
TTL_S = 300
LONGEST_S = 0.06


def start_apply(
    stack: ExitStack, plan: MergePlan, run_id: str, *, at_s: int, stop_after: int = 0
) -> Child:
    """Start a process that applies the plan when told to; its clock starts `at_s` after NOW."""
    said = (plan.store.path, "consolidate", plan.header.plan_id, run_id, at_s, stop_after)
    return stack.enter_context(start_child("run_job", *said))


def start_undo(stack: ExitStack, plan: MergePlan, run_id: str, *, at_s: int) -> Child:
    """Start a process that takes all merges back when told to."""
    start = format_instant(NOW + timedelta(seconds=at_s))
    said = (plan.store.path, format_instant(NOW), run_id, start)
    return stack.enter_context(start_child("undo_run", *said))


def run_here(plan: MergePlan, *, at_s: int, **asked: Any) -> RunResult:  # noqa: ANN401 - of JobRequest
    """Apply the plan in this process, or what else is asked for; its clock ticks."""
    ticks = count()

    def clock() -> datetime:
        return NOW + timedelta(seconds=at_s, milliseconds=next(ticks))

    given = {
        "job": "consolidate",
        "policy": ConsolidatePolicy(),
        "now": NOW,
        "mode": "apply",
        "limits": SafetyLimits(max_fraction=1.0),
        "clock": clock,
    }
    if "job" not in asked:
        given["plan_id"] = plan.header.plan_id
    return run_one(request_job(plan.store, **(given | asked)))


def undo_here(plan: MergePlan, *, at_s: int) -> RunResult:
    """Take all merges back in this process."""
    now = NOW + timedelta(seconds=at_s)
    return run_here(plan, at_s=at_s, job="restore", policy=RestorePolicy(since=NOW), now=now)


def assert_sound(plan: MergePlan) -> None:
    """Check a store that is opened anew."""
    with open_store(plan.store.path).read() as reader:
        assert not [check for check in check_invariants(reader) if check.broken]


def assert_doctor_is_content(plan: MergePlan, *, at_s: int) -> None:
    """Check that the doctor finds nothing broken."""
    doctor = StoreDoctor(plan.store, lambda: NOW + timedelta(seconds=at_s))
    assert [one for one in examine(doctor.list_checks()) if one.broken] == []


def assert_each_is_whole(
    plan: MergePlan, before: dict[str, MemoryRecord], *, is_applied: bool
) -> int:
    """Check that each loser is merged, in every table, or in none; count the merged ones."""
    assert_sound(plan)
    after = plan.read()
    assert after.keys() == before.keys()
    merged = sorted(name for name in plan.losers if after[name].status == Status.SUPERSEDED)
    by_merge, by_plan, by_source = plan.list_merged()
    assert by_merge == by_source == merged
    assert not is_applied or by_plan == merged
    for name, canonical in plan.losers.items():
        one = after[name]
        assert one.content == before[name].content
        assert one.tags == before[name].tags
        if name in merged:
            ((kind, target),) = [(edge.kind, edge.target_id) for edge in one.relations]
            assert (kind, target) == ("superseded_by", canonical)
        else:
            assert one.status == Status.ACTIVE
    return len(merged)


def apply_a_copy(plan: MergePlan) -> dict[str, MemoryRecord]:
    """Apply the plan undisturbed in a copy of the store, and give its memories."""
    other = plan.store.path.with_name("undisturbed")
    copytree(plan.store.path, other)
    copied = MergePlan(open_store(other), plan.header, plan.losers)
    assert run_here(copied, at_s=0).end.outcome == "applied"
    return copied.read()


def test_killed_apply_is_finished_by_the_next_run(tmp_path: Path) -> None:
    plan = make_merge_plan(tmp_path / "store", batch_size=SMALL)
    moments = Random("apply")  # noqa: S311 - a seed
    before, expected = plan.read(), apply_a_copy(plan)
    done = 0
    with ExitStack() as stack:
        children = (
            start_apply(stack, plan, f"killed-{number}", at_s=number * (TTL_S + 1))
            for number in range(KILLS)
        )
        for child in start_ahead(children):
            kill_at_work(child, moments, longest_s=LONGEST_S)
            now_done = assert_each_is_whole(plan, before, is_applied=True)
            assert now_done >= done
            done = now_done
    later = TTL_S * (KILLS + 2)
    end = run_here(plan, at_s=later).end
    assert (end.outcome, end.skipped) == ("applied", {"already_applied": done})
    assert 0 < end.applied == plan.header.planned - done
    assert assert_each_is_whole(plan, before, is_applied=True) == plan.header.planned
    assert _without_times(plan.read()) == _without_times(expected)
    assert run_here(plan, at_s=later).end.outcome == "unchanged"
    assert_doctor_is_content(plan, at_s=later)


def test_killed_undo_is_finished_by_the_next_run(tmp_path: Path) -> None:
    plan = make_merge_plan(tmp_path / "store", batch_size=LARGE)
    moments = Random("undo")  # noqa: S311 - a seed
    before = plan.read()
    assert run_here(plan, at_s=0).end.applied == plan.header.planned
    left = plan.header.planned
    with ExitStack() as stack:
        children = (
            start_undo(stack, plan, f"killed-{number}", at_s=number * (TTL_S + 1))
            for number in range(1, KILLS + 1)
        )
        for child in start_ahead(children):
            kill_at_work(child, moments, longest_s=LONGEST_S)
            now_left = assert_each_is_whole(plan, before, is_applied=False)
            assert now_left <= left
            left = now_left
    later = TTL_S * (KILLS + 3)
    end = undo_here(plan, at_s=later).end
    assert 0 < end.applied == left
    assert assert_each_is_whole(plan, before, is_applied=False) == 0
    assert kept_fields(plan.read()) == kept_fields(before)
    assert undo_here(plan, at_s=later).end.outcome == "unchanged"
    assert_doctor_is_content(plan, at_s=later)


def test_run_that_lost_its_lease_merges_nothing_more(tmp_path: Path) -> None:
    plan = make_merge_plan(tmp_path / "store", batch_size=LARGE)
    with ExitStack() as stack:
        child = start_apply(stack, plan, "stopped", at_s=50, stop_after=1)
        assert child.hear() == "ready"
        child.signal()
        os.waitid(os.P_PID, child.process.pid, os.WSTOPPED)
        busy = run_here(plan, at_s=60)
        assert (busy.end.outcome, busy.error and busy.error["reason"]) == (
            "skipped_busy",
            "lease_held",
        )
        end = run_here(plan, at_s=50 + TTL_S + 1).end
        assert end.outcome == "applied"
        assert end.skipped["already_applied"] + end.applied == plan.header.planned
        before = dump_tables(plan.store)
        child.process.send_signal(signal.SIGCONT)
        assert child.hear_all() == ["batch", "failed lease_lost"]
    assert dump_tables(plan.store) == before


def test_of_two_runs_at_once_one_merges(tmp_path: Path) -> None:
    plan = make_merge_plan(tmp_path / "store", batch_size=SMALL)
    with ExitStack() as stack:
        children = [start_apply(stack, plan, f"run-{number}", at_s=number) for number in (1, 2)]
        assert [child.hear() for child in children] == ["ready", "ready"]
        for child in children:
            child.signal()
        said = sorted(child.hear_all()[-1] for child in children)
    # The second one may begin when the first is done.
    assert said in (["applied None", "skipped_busy lease_held"], ["applied None", "unchanged None"])
    assert len(set(plan.list_merged()[1])) == len(plan.list_merged()[1]) == plan.header.planned
    assert_sound(plan)


def test_an_edit_that_races_with_merges_is_never_lost(tmp_path: Path) -> None:
    plan = make_merge_plan(tmp_path / "store", batch_size=SMALL)
    moments = Random("edits")  # noqa: S311 - a seed
    names = sorted({*plan.losers, *plan.losers.values()})
    edited: dict[str, str] = {}
    with ExitStack() as stack:
        child = start_apply(stack, plan, "raced", at_s=0)
        assert child.hear() == "ready"
        child.signal()
        for number in count():
            name, text = moments.choice(names), f"edit number {number} of a person"
            with suppress(MaintenanceError), plan.store.write() as writer:
                revise_memory(writer, 1, name, content=text, at=NOW + timedelta(days=1))
                edited[name] = text
            # Nobody edits without a break; else the child would wait for the lock for long.
            time.sleep(moments.uniform(0.02, 0.1))
            if child.process.poll() is not None:
                break
        outcome = child.hear_all()[-1]
    assert outcome.split()[0] in {"applied", "partial"}
    after = plan.read()
    assert len(edited) > 10
    for name, text in edited.items():
        assert (after[name].content, after[name].status) == (text, Status.ACTIVE)
    assert_sound(plan)
    merged, _, _ = plan.list_merged()
    assert 0 < len(merged) < plan.header.planned


def _without_times(records: dict[str, MemoryRecord]) -> dict[str, dict[str, Any]]:
    """Give what a merge makes of memories, without when it did so."""
    kept = kept_fields(records)
    for one in kept.values():
        one["metadata"].pop("last_duplicate_at", None)
    return kept
