"""Scheduled runs whose slot needs no run any more end as skipped_missed (spec/maintenance.md 4.1).

Instants are seconds after NOW; a case names what ended before and what then asks to run.
"""

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

import pytest
from helpers.rows import NOW
from helpers.runs import dump_tables, request_job, run_one

from storage import Store, open_store
from storage.epochs import enter_epoch
from storage.leases import acquire_lease, release_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.runs import (
    Outcome,
    RunEnd,
    RunStart,
    Trigger,
    begin_run,
    finish_run,
    list_runs,
    record_skipped,
)
from storage.slots import activate_job, read_activation
from tasks.jobs import find_job
from tasks.report import RunResult

JOB = "prune"
RUNS = "unchanged"


class Ended(NamedTuple):
    """A run that ended earlier."""

    at_s: int
    outcome: Outcome = "unchanged"
    trigger: Trigger = "schedule"
    flow_run_id: str | None = "earlier"


class Asked(NamedTuple):
    """A run that starts, and what becomes of it: `runs`, or the code of the skip."""

    slot_s: int
    at_s: int
    answer: str
    flow_run_id: str = "asking"


def store_run(store: Store, number: int, ended: Ended) -> None:
    with store.write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        clock = NOW + timedelta(seconds=ended.at_s)
        start = RunStart(
            run_id=f"ended-{number}",
            job=JOB,
            namespace_id=target.namespace_id,
            mode="apply",
            trigger=ended.trigger,
            now=clock,
            started_at=clock,
            flow_run_id=ended.flow_run_id,
        )
        if ended.outcome.startswith("skipped"):
            record_skipped(writer, start, RunEnd(ended.outcome, code="lease_held"))
            return
        lease = acquire_lease(writer, target, JOB, holder=start.run_id, clock=clock)
        begin_run(writer, start, lease_fence=lease.fence)
        enter_epoch(writer, lease, clock=clock)
        finish_run(writer, start.run_id, RunEnd(ended.outcome), clock=clock)
        release_lease(writer, lease, clock=clock)


def start(store: Store, asked: Asked, **more: Any) -> RunResult:  # noqa: ANN401 - of the request
    clock = NOW + timedelta(seconds=asked.at_s)
    slot = NOW + timedelta(seconds=asked.slot_s)
    given = {"mode": "apply", "trigger": "schedule", "flow_run_id": asked.flow_run_id} | more
    policy = find_job(JOB).policy_type()
    return run_one(request_job(store, job=JOB, policy=policy, now=clock, slot=slot, **given))


def answer_of(result: RunResult) -> str:
    if result.end.outcome == "skipped_missed":
        return str(result.end.code)
    assert result.end.outcome == RUNS
    return "runs"


LATE = (600, 900, 1200, 1500)
V6 = [Asked(600, 1600, "runs"), *(Asked(slot, 1601, "covered", "b") for slot in LATE[1:])]
V7 = [
    Asked(1500, 1600, "runs"),
    *(Asked(slot, 1601, "covered", "b") for slot in (600, 900, 1200)),
]


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        pytest.param([], [Asked(300, 301, "runs")], id="V3"),
        pytest.param([Ended(301)], V6, id="V6"),
        pytest.param([Ended(301)], V7, id="V7"),
        pytest.param([Ended(301)], [*V6, Asked(1800, 1801, "runs", "c")], id="V8"),
        pytest.param([Ended(1190, trigger="manual")], [Asked(1200, 1201, "runs")], id="V9"),
        pytest.param([Ended(1205, trigger="manual")], [Asked(1200, 1300, "covered")], id="V10"),
        pytest.param(
            [Ended(1201, "failed")],
            [Asked(900, 1210, "covered"), Asked(1500, 1501, "runs")],
            id="V11",
        ),
        pytest.param([Ended(1201, "skipped_busy")], [Asked(900, 1250, "runs")], id="V12"),
        pytest.param([Ended(1201, "skipped_missed")], [Asked(900, 1250, "runs")], id="missed"),
        pytest.param([Ended(1201, "refused")], [Asked(900, 1250, "runs")], id="refused"),
        pytest.param([Ended(1201, "abandoned")], [Asked(900, 1250, "runs")], id="abandoned"),
        pytest.param([Ended(1201, "applied")], [Asked(1200, 1202, "covered")], id="V13"),
        pytest.param(
            [Ended(1201, "failed", flow_run_id="asking")], [Asked(1200, 1202, "runs")], id="V14"
        ),
        pytest.param(
            [Ended(1200, flow_run_id=None)], [Asked(1200, 1202, "covered")], id="at-the-slot"
        ),
    ],
)
def test_slot_is_run_or_covered(
    store: Store, before: Sequence[Ended], asked: Sequence[Asked]
) -> None:
    for number, ended in enumerate(before):
        store_run(store, number, ended)
    assert [answer_of(start(store, one)) for one in asked] == [one.answer for one in asked]


def test_manual_run_has_no_slot(store: Store) -> None:
    """V15, even if somebody passes one."""
    store_run(store, 1, Ended(1201))
    assert answer_of(start(store, Asked(900, 1202, "runs"), trigger="manual")) == "runs"


def test_run_that_was_skipped_leaves_one_row_without_sequence(store: Store) -> None:
    store_run(store, 1, Ended(1201))
    result = start(store, Asked(1200, 1300, "covered"))
    assert result.error is not None
    assert result.error["reason"] == "covered"
    with store.read() as reader:
        row = list_runs(reader, limit=9)[0]
        statement = "SELECT sequence, lease_fence, slot FROM runs WHERE run_id = $run_id"
        stored = reader.rows(statement, {"run_id": row["run_id"]})
    assert (row["outcome"], row["code"]) == ("skipped_missed", "covered")
    assert stored == [(None, None, NOW + timedelta(seconds=1200))]


def test_other_namespace_covers_nothing(store: Store) -> None:
    store_run(store, 1, Ended(1201))
    other = DEFAULT_NAMESPACE.model_copy(update={"scope": "other"})
    with store.write() as writer:
        ensure_namespace(writer, other)
    assert answer_of(start(store, Asked(1200, 1300, "runs"), namespace=other)) == "runs"


def test_stored_plan_is_applied_whatever_ran_since(store: Store) -> None:
    """A plan that a person chose, such as after an approval, is no tick of a schedule."""
    asked = Asked(1200, 1201, "runs")
    planned = start(store, asked, mode="plan", flow_run_id="first")
    store_run(store, 1, Ended(1300))
    result = start(store, Asked(1200, 1400, "runs"), plan_id=planned.end.plan_id)
    assert answer_of(result) == "runs"


def activate(store: Store, interval_s: int, at_s: int) -> int:
    with store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE).namespace_id
        clock = NOW + timedelta(seconds=at_s)
        found = activate_job(writer, owner, JOB, interval_s=interval_s, clock=clock)
        assert read_activation(writer, owner, JOB, interval_s=interval_s) == found
    return int((found - NOW).total_seconds())


@pytest.mark.parametrize(
    ("asked", "interval_s"),
    [
        pytest.param(Asked(300, 301, "first_interval"), 300, id="V4"),
        pytest.param(Asked(600, 601, "runs"), 300, id="V5"),
        pytest.param(Asked(307, 308, "runs"), 300, id="one-full-interval"),
        pytest.param(Asked(300, 301, "runs"), None, id="cron-waits-for-nothing"),
        pytest.param(Asked(300, 301, "runs"), 200, id="another-interval"),
    ],
)
def test_first_run_comes_after_a_full_interval(
    store: Store, asked: Asked, interval_s: int | None
) -> None:
    assert activate(store, 300, 7) == 7
    assert answer_of(start(store, asked, interval_s=interval_s)) == asked.answer


def test_restart_keeps_the_activation_and_another_interval_begins_anew(store: Store) -> None:
    assert [activate(store, 300, at_s) for at_s in (7, 100, 1000)] == [7, 7, 7]
    assert activate(open_store(store.path), 300, 2000) == 7
    assert activate(store, 600, 3000) == 3000
    assert activate(store, 300, 4000) == 4000


def test_local_date_runs_once_although_its_hour_comes_twice(store: Store) -> None:
    """V17 and Q06: 02:30 in Berlin on the night that has it twice, and each start repeated."""
    hours = [0, 24, 25, 49]
    first = (NOW.replace(month=10, day=24, hour=0, minute=30) - NOW).total_seconds()
    answers = [
        answer_of(
            start(
                store,
                Asked(int(first) + hour * 3600, int(first) + hour * 3600 + 1, "", f"{hour}-{turn}"),
                slot_zone="Europe/Berlin",
            )
        )
        for hour in hours
        for turn in (1, 2)
    ]
    assert answers == [
        "runs",
        "covered",
        "runs",
        "covered",
        "covered",
        "covered",
        "runs",
        "covered",
    ]


def test_eight_hours_of_missed_ticks_end_in_one_run(store: Store) -> None:
    """C39: hourly slots, all started late and in any order, and the next tick in time."""
    store_run(store, 0, Ended(1))
    late = [hour * 3600 for hour in range(1, 9)]
    Random(39).shuffle(late)  # noqa: S311 - a seed
    after = 8 * 3600 + 900
    asked = [Asked(slot, after + n, "", f"late-{n}") for n, slot in enumerate(late)]
    outcomes = [start(store, one).end.outcome for one in asked]
    assert sorted(outcomes) == ["skipped_missed"] * 7 + [RUNS]
    assert start(store, Asked(9 * 3600, 9 * 3600 + 1, "", "in-time")).end.outcome == RUNS


def test_open_store_starts_nothing(store: Store) -> None:
    """V20."""
    before = dump_tables(store)
    open_store(store.path)
    assert dump_tables(store) == before
    with store.read() as reader:
        assert list_runs(reader, limit=1) == []
