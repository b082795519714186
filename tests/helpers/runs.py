"""Runs of jobs in tests: the inline runner with fixed clocks, and the tables before and after."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from helpers.vectors import NAMESPACE, Json, VectorCase

from storage import Store
from storage.memories import read_memories
from storage.models import Namespace
from storage.namespaces import find_namespace
from storage.plans import PlanHeader, read_outcomes
from tasks.inline import run_job
from tasks.report import RunResult
from tasks.requests import JobRequest

_RUN_NUMBERS = count(1)
# What a spec calls the state of a run, by outcome (DESIGN 4).
STATES = {
    "applied": "completed",
    "unchanged": "completed",
    "partial": "completed_with_failures",
}
_ALL_TABLES = """
SELECT table_name
FROM information_schema.tables
WHERE table_type = 'BASE TABLE'
ORDER BY table_name
"""
_ROWS = "FROM query_table($name)"
_OWN_ROWS = "FROM query_table($name) WHERE namespace_id = $namespace_id"
_OWN_IDS = "SELECT id FROM memories WHERE namespace_id = $namespace_id"
_MEMORY_TABLES = ("memories", "revisions", "evidence", "relations", "access_events", "namespaces")

Rows = dict[str, list[tuple[object, ...]]]


def new_run_id() -> str:
    """Give a run id that no other run of this process has."""
    return f"run-{next(_RUN_NUMBERS):06}"


def request_job(store: Store, **asked: Any) -> JobRequest:  # noqa: ANN401 - fields of JobRequest
    """Build a request; wall time stands still at `now` unless a clock is given."""
    now = asked["now"]
    given = {"store": store.path, "clock": lambda: now, "new_run_id": new_run_id, **asked}
    return JobRequest(**given)


def run_one(request: JobRequest, **how: Any) -> RunResult:  # noqa: ANN401 - arguments of run_job
    """Run a job that has one target; its counters must add up."""
    (result,) = run_job(request, **how)
    end = result.end
    assert end.found == end.applied + sum(end.skipped.values()) + end.failed
    return result


def run_case(store: Store, case: VectorCase, **asked: object) -> RunResult:
    """Run the job of a vector case."""
    given = {"job": case.job.name, "policy": case.policy, "now": case.now, "namespace": NAMESPACE}
    return run_one(request_job(store, **(given | asked)))


def run_guarded(store: Store, case: VectorCase, plan: PlanHeader) -> None:
    """Apply a plan with the limits and the confirmation of a guard vector, and judge the guard."""
    expected, confirmed = case.expected, case.inputs["confirm_plan_id"]
    if confirmed == "the plan id":
        confirmed = plan.plan_id
        unconfirmed = run_case(store, case, mode="apply", limits=case.limits)
        assert unconfirmed.error is not None
        assert unconfirmed.error["limit"] == expected["limit"]
    given = {"plan_id": plan.plan_id, "limits": case.limits, "confirm_plan_id": confirmed}
    result = run_case(store, case, mode="apply", **given)
    assert plan.visible == expected["visible"]
    assert case.limits.allowed(plan.visible) == expected["allowed"]
    assert (result.end.outcome == "refused") is expected["refused"]
    assert result.end.applied == expected["applied"]
    if result.error is not None:
        assert result.error["limit"] == expected["limit"]
        assert result.error["plan_id"] == plan.plan_id


def plan_id_of(result: RunResult) -> str:
    """Give the id of the plan that a run made or applied."""
    assert result.plan is not None
    return result.plan.plan_id


def read_outcomes_of(store: Store, result: RunResult) -> dict[str, str]:
    """Read what a run made of each decision of its plan, in the order of apply."""
    with store.read() as reader:
        return read_outcomes(reader, plan_id_of(result), result.run_id)


def read_rows(store: Store, namespace: Namespace = NAMESPACE) -> dict[str, Json]:
    """Read all memories of a namespace by id, in the order of their ids."""
    with store.read() as reader:
        owner = find_namespace(reader, namespace)
        assert owner is not None
        own = {"namespace_id": owner.namespace_id}
        ids = [row[0] for row in reader.rows(_OWN_IDS, own)]
        return {row["id"]: row for row in read_memories(reader, owner.namespace_id, ids)}


def dump_tables(store: Store, *, without: Iterable[str] = ()) -> Rows:
    """Read all tables of a store but some, each as sorted rows."""
    with store.read() as reader:
        names = {row[0] for row in reader.rows(_ALL_TABLES)} - set(without)
        return {
            name: sorted(reader.rows(_ROWS, {"name": name}), key=repr) for name in sorted(names)
        }


def dump_namespace(store: Store, namespace: Namespace) -> Rows:
    """Read the rows of one namespace in all tables of memories, each as sorted rows."""
    with store.read() as reader:
        owner = find_namespace(reader, namespace)
        assert owner is not None
        own = {"namespace_id": owner.namespace_id}
        return {
            name: sorted(reader.rows(_OWN_ROWS, own | {"name": name}), key=repr)
            for name in _MEMORY_TABLES
        }


@contextmanager
def machine_zone(zone: str) -> Iterator[None]:
    """Let the machine be in another time zone, as far as this process can tell."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()
