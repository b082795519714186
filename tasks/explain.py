"""The one reader that shows plans and runs: the stored rows, or the same rule on demand."""

from collections.abc import Mapping
from typing import Any

from storage import Store, StoreReader
from storage.errors import PlanNotFoundError
from storage.namespaces import read_namespace
from storage.plans import (
    EVERYTHING,
    PlanHeader,
    count_reasons,
    diff_plan,
    read_decisions,
    read_pairs,
    read_plan,
)
from storage.runs import list_runs, read_run
from tasks.jobs import find_job, parse_policy

_DECISION_FACTS = ("id", "reason", "action", "expected_revision")


def show_plan(store: Store, plan_id: str, *, limit: int = EVERYTHING) -> dict[str, Any]:
    """Show a stored plan: its figures and its decisions with the reasons behind them.

    Raises:
        PlanNotFoundError: There is no such plan.
    """
    with store.read() as reader:
        return _describe(reader, read_plan(reader, plan_id), limit)


def _describe(reader: StoreReader, plan: PlanHeader, limit: int) -> dict[str, Any]:
    owner = read_namespace(reader, plan.namespace_id)
    shown = {
        "plan_id": plan.plan_id,
        "job": plan.job,
        "namespace": owner.namespace.model_dump(),
        "now": plan.now,
        "found": plan.planned,
        "carried": plan.carried,
        "visible": plan.visible,
        "reasons": count_reasons(reader, plan.plan_id),
        "warnings": plan.warnings,
        "counters": plan.counters,
        "policy": plan.policy,
        "decisions": [
            _flatten(record) for record in read_decisions(reader, plan.plan_id, limit=limit)
        ],
    }
    if plan.profile is not None:
        shown |= {"profile": plan.profile, "pairs": read_pairs(reader, plan.plan_id, limit=limit)}
    return shown


def _flatten(record: Mapping[str, Any]) -> dict[str, Any]:
    decision = {name: record[name] for name in _DECISION_FACTS}
    decision |= record["figures"]
    for name in ("carries", "outcome", "error"):
        if record[name] is not None:
            decision[name] = record[name]
    return decision


def explain_plan(store: Store, plan_id: str) -> list[dict[str, Any]]:
    """Explain a plan whole: every memory with its verdict on today's facts, kept ones included.

    For a job that compares memories: every pair that the plan reports.
    """
    with store.read() as reader:
        plan = read_plan(reader, plan_id)
    return find_job(plan.job).explain_plan(store, plan)


def diff_since(store: Store, plan_id: str) -> dict[str, Any]:
    """Compare a stored plan with the store as it is now.

    Returns:
        Per decision whether its memory is the same, changed (which facts), gone or dealt with, and
        the ids that the same policy and now would newly select (`added`) or no more (`dropped`).
    """
    with store.read() as reader:
        plan = read_plan(reader, plan_id)
        rows = diff_plan(reader, plan_id)
        owner = read_namespace(reader, plan.namespace_id)
    job = find_job(plan.job)
    policy = parse_policy(job, plan.policy)
    today = job.make_plan(store, policy, namespace=owner, now=plan.now).decisions
    picked = {
        memory_id
        for memory_id, reason in zip(
            today.column("memory_id").to_pylist(), today.column("reason").to_pylist(), strict=True
        )
        if reason != "carried"
    }
    planned = {row["id"] for row in rows}
    open_rows = {row["id"] for row in rows if row["state"] != "applied"}
    states: dict[str, int] = {}
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + 1
    return {
        "plan_id": plan_id,
        "job": plan.job,
        "namespace": owner.namespace.model_dump(),
        "states": states,
        "changes": [row for row in rows if row["state"] != "same"],
        "added": sorted(picked - planned),
        "dropped": sorted(open_rows - picked),
    }


def show_plan_or_run(store: Store, name: str) -> tuple[str, dict[str, Any]]:
    """Show what an id names: ("plan", its plan) or ("run", its run).

    Raises:
        RunNotFoundError: It names neither.
    """
    try:
        return "plan", show_plan(store, name)
    except PlanNotFoundError:
        pass
    with store.read() as reader:
        run = read_run(reader, name)
    return "run", run


def show_runs(store: Store, *, limit: int) -> list[dict[str, Any]]:
    """Show the latest runs, newest first."""
    with store.read() as reader:
        return list_runs(reader, limit=limit)
