"""Kill -9 of a run, of `memtend serve` and of its Prefect server in the middle of an apply.

Whatever dies, the plan is worked through once, no deployment keeps a slot, and the rows of the runs
say what happened.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import helpers.prefect_home  # noqa: F401 - before prefect
import pytest
from helpers.big_plans import BigPlan, make_big_plan
from helpers.deaths import (
    count_slots,
    find_run,
    kill_run,
    kill_serve,
    kill_server,
    read_outcomes,
    wait_for_apply,
    wait_until,
)
from helpers.invariants import assert_nothing_is_half_done, take_snapshot
from helpers.serving import Served, serve, start_serve

from deployments.doctor_prefect import PrefectDoctor
from storage import Store
from tasks.doctor import examine, repair

# The shortest that there is.
TTL = {"MEMTEND_LEASE_TTL_S": "30"}
BEGUN = 10
LATER = timedelta(hours=1)

pytestmark = pytest.mark.slow


@pytest.fixture
def plan(tmp_path: Path) -> BigPlan:
    """Make a plan that is applied row by row, which takes long enough to be killed in."""
    return make_big_plan(tmp_path / "store", "sweep", batch_size=1)


def order_apply(served: Served, plan: BigPlan) -> str:
    limits = {"max_fraction": 1.0}
    return served.order("sweep", mode="apply", plan_id=plan.header.plan_id, limits=limits)


def begin_apply(served: Served, plan: BigPlan) -> str:
    run = order_apply(served, plan)
    wait_for_apply(plan.store, BEGUN)
    assert count_slots(served, "sweep") == 1
    return run


def finish_apply(served: Served, plan: BigPlan) -> None:
    """Order runs until one finds the lease and the slot free, as schedules do."""
    wait_until(lambda: count_slots(served, "sweep") == 0)
    ends = {"applied", "unchanged"}
    wait_until(lambda: served.end(order_apply(served, plan)) in ends)


def assert_work_is_done_once(served: Served, plan: BigPlan) -> None:
    after = take_snapshot(plan.store, plan.header.plan_id)
    ids = Counter(receipt["memory_id"] for receipt in after.receipts)
    assert len(after.receipts) == plan.header.planned
    assert set(ids.values()) == {1}
    wait_until(lambda: count_slots(served, "sweep") == 0)


def assert_history_tells(plan: BigPlan) -> None:
    """Check the rows: one run was cut short, some perhaps found its lease, one did the rest."""
    cut_short, *skipped, last = read_outcomes(plan.store, "sweep")
    assert cut_short in {"abandoned", "failed"}
    assert {*skipped} <= {"skipped_busy"}
    assert last in {"applied", "unchanged"}


def test_killed_run_is_finished_by_the_next_and_keeps_no_slot(plan: BigPlan) -> None:
    before = take_snapshot(plan.store, plan.header.plan_id)
    with serve(plan.store.path, **TTL) as served:
        run = begin_apply(served, plan)
        kill_run(run)
        served.wait(run, "Crashed")
        killed = take_snapshot(plan.store, plan.header.plan_id)
        assert_nothing_is_half_done(before, killed, plan.header.now)
        assert BEGUN <= len(killed.receipts) < plan.header.planned
        finish_apply(served, plan)
        assert_work_is_done_once(served, plan)
    assert_history_tells(plan)


@pytest.mark.parametrize("with_run", [False, True], ids=["serve", "serve-and-run"])
def test_killed_serve_keeps_no_slot_and_its_run_is_finished(with_run: bool, plan: BigPlan) -> None:
    """A run ends by itself when its serve is gone; if it cannot, its missing heartbeat tells."""
    with serve(plan.store.path, **TTL) as killed:
        run = begin_apply(killed, plan)
        if with_run:
            kill_run(run)
        kill_serve(killed)
        with serve(plan.store.path, **TTL) as served:
            assert served.url == killed.url
            served.wait(run, "Crashed")
            finish_apply(served, plan)
            assert_work_is_done_once(served, plan)
    assert_history_tells(plan)


def repair_later(served: Served, store: Store) -> None:
    """Let the doctor look an hour from now: a run that its server never heard of again is over."""
    doctor = PrefectDoctor(store, f"{served.url}/api", lambda: datetime.now(UTC) + LATER)
    repaired = repair(examine(doctor.list_checks()))
    assert not any(one.left for one in repaired)
    assert not any(one.broken for one in examine(doctor.list_checks()))


def test_serve_ends_without_its_server_and_the_next_one_finishes(plan: BigPlan) -> None:
    with serve(plan.store.path, **TTL) as orphan:
        run = begin_apply(orphan, plan)
        kill_server(plan.store)
        assert orphan.process.wait(timeout=60) == 1
        assert orphan.process.stdout is not None
        said = json.loads(orphan.process.stdout.read())
        assert "does not answer" in said["error"]["message"]
        wait_until(lambda: find_run(run) is None)
    with serve(plan.store.path, **TTL) as served:
        finish_apply(served, plan)
        assert_work_is_done_once(served, plan)
        repair_later(served, plan.store)
        assert served.end(run) != "Running"
    assert read_outcomes(plan.store, "sweep")[-1] in {"applied", "unchanged"}


def test_two_serves_of_one_store_start_each_run_once(store: Store) -> None:
    """Both are started at once; the one that comes too late ends at once."""
    with start_serve(store.path) as one, start_serve(store.path) as other:
        told = [json.loads(process.stdout.readline()) for process in (one, other)]  # type: ignore[union-attr]
        try:
            assert sorted("url" in line for line in told) == [False, True]
            (won,) = [
                Served(process, line["url"], line)
                for process, line in zip((one, other), told, strict=True)
                if "url" in line
            ]
            assert won.end(won.order("health")) in {"applied", "unchanged"}
        finally:
            one.terminate()
            other.terminate()
            codes = [one.wait(60), other.wait(60)]
    assert sorted(codes) == [0, 3]
    assert len(read_outcomes(store, "health")) == 1


def test_eight_hours_of_missed_ticks_end_in_one_run(store: Store) -> None:
    """Late runs are all started once serve is back: one works, the rest is skipped or cancelled."""
    with serve(store.path) as killed:
        kill_serve(killed)
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        slots = [hour - timedelta(hours=hours) for hours in range(8)]
        late = [killed.order_for(slot, "health", trigger="schedule") for slot in slots]
        with serve(store.path) as served:
            names = Counter(served.end(run) for run in late)
            after = served.end(served.order_for(slots[0], "health", trigger="schedule"))
    worked = names["applied"] + names["unchanged"]
    assert worked == 1
    assert worked + names["skipped_missed"] + names["Cancelled"] == len(slots)
    assert after == "skipped_missed"
    outcomes = read_outcomes(store, "health")
    assert len([one for one in outcomes if one != "skipped_missed"]) == 1
