"""Faults that other stores really had, as cases of schedules: slots, zones, restarts, what runs."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import helpers.prefect_home  # noqa: F401 - before prefect
import pytest
from helpers.consolidate_runs import ChosenEmbedder, Keeper, say
from helpers.imports import record
from helpers.rows import NOW
from helpers.runs import new_run_id, request_job, run_one
from helpers.vectors import NAMESPACE
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.deployments.runner import RunnerDeployment
from prefect.server.schemas.schedules import CronSchedule

from deployments.catalogue import CATALOGUE, build_deployments
from storage import Store, open_store
from storage.instants import parse_instant
from storage.namespaces import ensure_namespace
from storage.runs import list_runs
from storage.slots import activate_job
from tasks.jobs import find_job
from tasks.maintaining import GUARDED
from tasks.policies import PrunePolicy
from tasks.report import RunResult
from tasks.requests import JobRequest
from tasks.rules.slots import Interval, find_day
from tasks.schedules import begins_on

BERLIN = "Europe/Berlin"
HOUR = 3_600
# Old and unimportant, and more of them than a plan may remove unconfirmed.
MANY = [record(f"m{n}", importance=0.1) for n in range(30)]
DAYS = """
SELECT CAST(slot_day AS TEXT), count(*)
FROM runs
WHERE sequence IS NOT NULL
GROUP BY ALL
ORDER BY ALL
"""


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def tick(store: Store, slot: datetime, **asked: Any) -> RunResult:  # noqa: ANN401 - of the request
    """Start a scheduled run of prune a second after its slot, or at `now`."""
    at = asked.pop("now", slot + timedelta(seconds=1))
    given = {"policy": PrunePolicy(), "mode": "apply", "namespace": NAMESPACE, "now": at}
    given |= {"trigger": "schedule", "slot": slot, "flow_run_id": f"flow-{slot}-{at}"}
    return run_one(request_job(store, job="prune", **(given | asked)))


def make_namespace(store: Store) -> int:
    with store.write() as writer:
        return ensure_namespace(writer, NAMESPACE).namespace_id


def test_c13_upkeep_is_no_use_of_a_memory(keeper: Keeper) -> None:
    keeper.add(*say("Blue cluster deploys on Tuesdays at noon"))
    for _ in range(2):
        keeper.refresh(ChosenEmbedder())
        keeper.consolidate({"semantic_mode": "merge"})
    memory = keeper.read("m1")
    assert (memory.access_count, memory.last_accessed_at) == (0, None)
    with keeper.store.read() as reader:
        assert reader.rows("SELECT count(*) FROM access_events") == [(0,)]


def list_scheduled(first: str) -> list[datetime]:
    """List the three slots that Prefect gives a schedule of 02:30 in Berlin from a day on."""
    schedule = CronSchedule(cron="30 2 * * *", timezone=BERLIN)
    start = parse_instant(f"{first}T00:00:00Z")
    found = asyncio.run(schedule.get_dates(n=3, start=start))
    return [datetime.fromtimestamp(slot.timestamp(), UTC) for slot in found]


@pytest.mark.parametrize(
    ("days", "slots", "twin"),
    [
        pytest.param(
            ["2026-10-24", "2026-10-25", "2026-10-26"],
            ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
            "2026-10-25T01:30:00Z",
            id="C21-hour-that-comes-twice",
        ),
        pytest.param(
            ["2027-03-27", "2027-03-28", "2027-03-29"],
            ["2027-03-27T01:30:00Z", "2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z"],
            "2027-03-28T00:30:00Z",
            id="C21-hour-that-never-comes",
        ),
    ],
)
def test_c21_local_day_has_one_run(
    store: Store, days: list[str], slots: list[str], twin: str
) -> None:
    """`twin` is the other instant that another scheduler might take for 02:30 of that day."""
    scheduled = list_scheduled(days[0])
    assert scheduled == [parse_instant(slot) for slot in slots]
    make_namespace(store)
    ran = []
    for slot in sorted([*scheduled, parse_instant(twin)]):
        for turn in ("first", "second"):
            result = tick(store, slot, slot_zone=BERLIN, flow_run_id=f"{slot}-{turn}")
            if result.end.outcome == "skipped_missed":
                assert result.end.code == "covered"
            else:
                assert (result.end.outcome, result.error) == ("unchanged", None)
                ran.append(find_day(slot, BERLIN))
    assert ran == days
    with store.read() as reader:
        rows = reader.rows(DAYS)
    assert rows == [(day, 1) for day in days]


def schedules_of(deployment: RunnerDeployment) -> list[DeploymentScheduleCreate]:
    found = deployment.schedules or []
    return [one for one in found if isinstance(one, DeploymentScheduleCreate)]


def test_c40_no_schedule_removes_anything_by_itself(keeper: Keeper) -> None:
    keeper.add(*MANY)
    before = keeper.dump()
    for built, row in zip(build_deployments("test", "plan"), CATALOGUE, strict=True):
        schedules = schedules_of(built)
        assert len(schedules) <= 1
        if not row.is_guarded:
            continue
        modes = [built.parameters["mode"]]
        modes += [(built.parameters | one.parameters)["mode"] for one in schedules]
        assert set(modes) == {"plan"}
        if row.job in GUARDED:
            policy = find_job(row.job).policy_type()
            result = keeper.run(row.job, mode=modes[-1], policy=policy, trigger="schedule")
            assert result.end.applied == 0
    assert keeper.dump() == before
    guarded = [row.job for row in CATALOGUE if row.cron and row.is_guarded]
    on = [job for job in guarded if begins_on(job, {})]
    assert on == ["maintain"]


def test_c40_schedule_that_was_edited_twice_is_one_schedule() -> None:
    """The server knows a schedule by its slug, and there is one for each deployment."""
    first, second, third = (build_deployments("test", mode) for mode in ("plan", "apply", "plan"))
    for built in zip(first, second, third, strict=True):
        slugs = [[one.slug for one in schedules_of(turn)] for turn in built]
        assert slugs[0] == slugs[1] == slugs[2]
        assert len(slugs[0]) <= 1


def test_c40_manual_run_is_one_run_and_a_dry_one_until_its_plan_is_confirmed(
    keeper: Keeper,
) -> None:
    keeper.add(*MANY)
    before = keeper.dump()
    request = JobRequest(
        keeper.store.path,
        "prune",
        PrunePolicy(),
        keeper.now,
        clock=lambda: keeper.now,
        new_run_id=new_run_id,
        namespace=NAMESPACE,
    )
    planned = run_one(request)
    assert (planned.end.outcome, planned.end.skipped) == ("planned", {"dry_run": len(MANY)})
    with keeper.store.read() as reader:
        assert [row["run_id"] for row in list_runs(reader, limit=9)] == [planned.run_id]
    refused = keeper.run("prune", policy=PrunePolicy(), plan_id=planned.end.plan_id)
    assert (refused.end.outcome, refused.end.applied) == ("refused", 0)
    assert keeper.dump() == before
    confirmed = keeper.run("prune", policy=PrunePolicy(), confirm_plan_id=planned.end.plan_id)
    assert (confirmed.end.outcome, confirmed.end.applied) == ("applied", len(MANY))


def test_c59_restarts_neither_delay_a_due_slot_nor_repeat_it(store: Store) -> None:
    """Each ten minutes a new process offers all slots since the first start, as none is known."""
    owner, begin = make_namespace(store), NOW + timedelta(minutes=7)
    every = Interval(HOUR)
    ran: list[tuple[datetime, datetime]] = []
    codes: Counter[str | None] = Counter()
    for restart in range(25):
        clock = begin + timedelta(minutes=10 * restart)
        reopened = open_store(store.path)
        with reopened.write() as writer:
            since = activate_job(writer, owner, "prune", interval_s=HOUR, clock=clock)
        assert since == begin
        for slot in takewhile(clock.__ge__, every.list_slots(begin)):
            result = tick(reopened, slot, now=clock, interval_s=HOUR)
            codes[result.end.code] += 1
            if result.end.outcome != "skipped_missed":
                ran.append((slot, clock))
    hours = [NOW + timedelta(hours=n) for n in (2, 3, 4)]
    assert ran == [(slot, slot + timedelta(minutes=7)) for slot in hours]
    assert codes["first_interval"] == 19
    assert set(codes) <= {"first_interval", "covered", None}
