"""Runs of prune and sweep as people make them: plan, look, apply, and count what is left."""

from datetime import datetime, timedelta
from typing import Any

from helpers.consolidate_runs import Keeper
from helpers.imports import record
from helpers.rows import NOW
from helpers.runs import dump_namespace, plan_id_of
from helpers.vectors import Json

from storage.instants import format_instant
from storage.plans import read_decisions, read_receipts
from storage.runs import read_run
from tasks.explain import explain_plan
from tasks.memory_store import DuckMemoryStore
from tasks.policies import ConsolidatePolicy, PrunePolicy, SweepPolicy
from tasks.report import RunResult

POLICIES = {"prune": PrunePolicy, "sweep": SweepPolicy, "consolidate": ConsolidatePolicy}


def aged(memory_id: str, age: timedelta | float, **changes: Any) -> Json:  # noqa: ANN401 - fields of a record
    """Give a record of an age, in days unless it is a time difference, as of the test instant."""
    step = age if isinstance(age, timedelta) else timedelta(days=age)
    created_at = format_instant(NOW - step)
    return record(memory_id, **{"importance": 0.2, "created_at": created_at, **changes})


def serve(keeper: Keeper, *, at: datetime | None = None) -> DuckMemoryStore:
    """Bind the store API to the namespace, with wall time standing still."""
    moment = keeper.now if at is None else at
    return DuckMemoryStore(
        keeper.store, keeper.namespace, clock=lambda: moment, new_id=lambda: "new"
    )


def plan(keeper: Keeper, job: str, **policy: Any) -> RunResult:  # noqa: ANN401 - of the policy
    """Plan a job; nothing is applied, and no memory changes."""
    before = dump_namespace(keeper.store, keeper.namespace)
    result = keeper.run(job, policy=POLICIES[job](**policy), mode="plan")
    assert result.end.applied == 0
    assert dump_namespace(keeper.store, keeper.namespace) == before
    return result


def apply(keeper: Keeper, planned: RunResult, **asked: Any) -> RunResult:  # noqa: ANN401
    """Apply a stored plan."""
    assert planned.plan is not None
    policy = POLICIES[planned.job](**planned.plan.policy)
    return keeper.run(planned.job, policy=policy, plan_id=planned.plan.plan_id, **asked)


def explain(keeper: Keeper, planned: RunResult) -> dict[str, Json]:
    """Give the verdict of every memory with its figures, by id."""
    return {row["id"]: row for row in explain_plan(keeper.store, plan_id_of(planned))}


def verdicts(keeper: Keeper, planned: RunResult) -> dict[str, str]:
    """Give the verdict of every memory, by id."""
    return {name: row["verdict"] for name, row in explain(keeper, planned).items()}


def list_planned(keeper: Keeper, planned: RunResult) -> dict[str, str]:
    """Give the reason of every decision, by id."""
    with keeper.store.read() as reader:
        decisions = read_decisions(reader, plan_id_of(planned))
    assert planned.plan is not None
    assert (planned.end.found, planned.plan.planned) == (len(decisions), len(decisions))
    return {row["id"]: row["reason"] for row in decisions}


def list_live(keeper: Keeper) -> set[str]:
    """Give the ids that a fresh query finds active; the store API counts as many."""
    statuses = keeper.list_statuses()
    live = {name for name, status in statuses.items() if status == "active"}
    assert serve(keeper).count() == len(live)
    return live


def assert_applied(
    keeper: Keeper, done: RunResult, reasons: dict[str, str], kept: set[str]
) -> None:
    """Exactly these memories went, say the run, its row, its receipts and the memories alike."""
    count = len(reasons)
    with keeper.store.read() as reader:
        row = read_run(reader, done.run_id)
        receipts = read_receipts(reader, plan_id_of(done))
    assert (done.end.found, done.end.applied, done.end.failed) == (count, count, 0)
    assert (row["outcome"], row["found"], row["applied"]) == (done.end.outcome, count, count)
    assert done.end.outcome == ("applied" if reasons else "unchanged")
    assert {one["memory_id"]: one["reason"] for one in receipts} == reasons
    assert {one["run_id"] for one in receipts} <= {done.run_id}
    assert list_planned(keeper, done) == reasons
    assert list_live(keeper) == kept
    again = plan(keeper, done.job, **(done.plan.policy if done.plan is not None else {}))
    assert again.end.found == 0


def run_both(
    keeper: Keeper, job: str, reasons: dict[str, str], kept: set[str], **policy: object
) -> RunResult:
    """Plan, see that the plan names these memories, apply it, and count; give the plan."""
    planned = plan(keeper, job, **policy)
    assert list_planned(keeper, planned) == reasons
    assert_applied(keeper, apply(keeper, planned), reasons, kept)
    return planned
