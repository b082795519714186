"""Apply writes each decision once: through restarts, lost leases, bad rows, foreign neighbours."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.changes import fail_writes_of, heal_writes
from helpers.edits import annotate_memory
from helpers.rows import memory_table
from helpers.runs import (
    dump_namespace,
    dump_tables,
    machine_zone,
    plan_id_of,
    read_outcomes_of,
    read_rows,
    request_job,
    run_one,
)
from helpers.vectors import copy_store

from storage import Store
from storage.leases import acquire_lease
from storage.memories import RELATION_SCHEMA, insert_memories, insert_relations
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace, list_namespaces
from storage.plans import read_receipts, store_plan
from storage.runs import list_runs, read_run
from tasks.jobs import find_rule
from tasks.limits import SafetyLimits
from tasks.policies import PrunePolicy, SweepPolicy
from tasks.report import RunResult

LIMITS = SafetyLimits(max_fraction=1.0)
POLICIES = {"prune": PrunePolicy(), "sweep": SweepPolicy()}
OLD = datetime.fromisoformat("2026-01-01T00:00:00Z")
ELSEWHERE = Namespace(tenant="t2", principal="p", scope="s")
# What a run that has nothing to do may still write.
OWN_RECORD = {"runs", "leases", "epochs"}
# One decision fact each, moved past every operation.
CHANGES = {
    "revision": "UPDATE memories SET revision = revision + 1 WHERE id = 'revision'",
    "status": "UPDATE memories SET status = 'superseded' WHERE id = 'status'",
    "pinned": "UPDATE memories SET pinned = true WHERE id = 'pinned'",
    "importance": "UPDATE memories SET importance = 0.25 WHERE id = 'importance'",
    "salience": "UPDATE memories SET salience = 1 WHERE id = 'salience'",
    "access_count": "UPDATE memories SET access_count = 1 WHERE id = 'access_count'",
    "last_accessed_at": "UPDATE memories SET last_accessed_at = $at WHERE id = 'last_accessed_at'",
    "expires_at": "UPDATE memories SET expires_at = $at WHERE id = 'expires_at'",
    "tombstoned_at": "UPDATE memories SET tombstoned_at = $at WHERE id = 'tombstoned_at'",
}
REVIVED = "UPDATE memories SET status = 'active' WHERE id = 'status'"
each_job = pytest.mark.parametrize("job", ["prune", "sweep"])


class Interrupted(Exception):  # noqa: N818 - stands for a killed process
    """Stops a run between two batches."""


def fill(store: Store, count: int, namespace: Namespace = DEFAULT_NAMESPACE) -> None:
    """Insert rows that prune finds stale and sweep finds cold, and one row that both keep."""
    with store.write() as writer:
        owner = {"namespace_id": ensure_namespace(writer, namespace).namespace_id}
        rows = [owner | {"id": f"m{number:03}", "created_at": OLD} for number in range(count)]
        insert_memories(writer, memory_table(*rows, owner | {"id": "young"}))


def run(store: Store, job: str, now: datetime, **asked: object) -> RunResult:
    """Apply a job, with any share allowed."""
    given = {"job": job, "policy": POLICIES[job], "now": now, "mode": "apply", "limits": LIMITS}
    return run_one(request_job(store, **(given | asked)))


def run_in_batches(
    store: Store, plan_id: str, now: datetime, on_batch: Callable[[int], None]
) -> RunResult:
    """Apply a stored prune plan and hear of each batch."""
    given = {"job": "prune", "policy": POLICIES["prune"], "now": now, "mode": "apply"}
    return run_one(request_job(store, **given, limits=LIMITS, plan_id=plan_id), on_batch=on_batch)


def store_small_batches(store: Store, now: datetime, *, batch_size: int) -> str:
    """Store a prune plan that is applied in small batches."""
    with store.write() as writer:
        owner = list_namespaces(writer)[0]
        plan = find_rule("prune").plan(writer, PrunePolicy(), namespace=owner, now=now)
        store_plan(
            writer, replace(plan, header=replace(plan.header, batch_size=batch_size)), clock=now
        )
    return plan.header.plan_id


def statuses(store: Store, namespace: Namespace = DEFAULT_NAMESPACE) -> dict[str, str]:
    """Read the status of each memory."""
    return {memory_id: row["status"] for memory_id, row in read_rows(store, namespace).items()}


@each_job
def test_empty_store_has_nothing_to_apply(store: Store, now: datetime, job: str) -> None:
    before = dump_tables(store, without=OWN_RECORD)
    result = run(store, job, now)
    assert (result.end.outcome, result.end.found, result.end.plan_id) == ("unchanged", 0, None)
    assert dump_tables(store, without=OWN_RECORD) == before


@each_job
def test_second_run_leaves_every_table_as_it_is(store: Store, now: datetime, job: str) -> None:
    fill(store, 5)
    assert run(store, job, now).end.applied == 5
    before = dump_tables(store, without=OWN_RECORD)
    assert run(store, job, now).end.outcome == "unchanged"
    assert dump_tables(store, without=OWN_RECORD) == before


@each_job
def test_plan_that_was_applied_is_unchanged_the_second_time(
    store: Store, now: datetime, job: str
) -> None:
    fill(store, 5)
    plan_id = plan_id_of(run(store, job, now))
    before = dump_tables(store, without=OWN_RECORD)
    again = run(store, job, now, plan_id=plan_id)
    assert (again.end.outcome, again.end.skipped) == ("unchanged", {"already_applied": 5})
    assert dump_tables(store, without=OWN_RECORD) == before


@each_job
def test_foreign_namespace_with_the_same_ids_is_untouched(
    store: Store, now: datetime, job: str
) -> None:
    fill(store, 5)
    fill(store, 5, ELSEWHERE)
    before = dump_namespace(store, ELSEWHERE)
    assert run(store, job, now, namespace=DEFAULT_NAMESPACE).end.applied == 5
    assert dump_namespace(store, ELSEWHERE) == before


@each_job
def test_row_that_changes_after_the_plan_is_left_alone(
    store: Store, now: datetime, job: str
) -> None:
    fill(store, 3)
    plan_id = plan_id_of(run(store, job, now, mode="plan"))
    with store.write() as writer:
        annotate_memory(writer, 1, "m001", at=now, pinned=True)
    before = read_rows(store, DEFAULT_NAMESPACE)["m001"]
    result = run(store, job, now, plan_id=plan_id)
    assert result.end.skipped == {"changed_since_plan": 1}
    assert read_rows(store, DEFAULT_NAMESPACE)["m001"] == before


@pytest.mark.parametrize(
    ("job", "row", "guarded"),
    [
        pytest.param("prune", {}, set(CHANGES) - {"tombstoned_at"}, id="stale"),
        pytest.param("sweep", {}, set(CHANGES) - {"tombstoned_at"}, id="cold"),
        pytest.param("sweep", {"expires_at": OLD}, {"revision", "expires_at"}, id="expired"),
        pytest.param(
            "sweep",
            {"status": "tombstoned", "tombstoned_at": OLD},
            {"revision", "status", "tombstoned_at"},
            id="purge",
        ),
    ],
)
def test_each_fact_of_a_decision_is_compared_for_itself(
    store: Store, now: datetime, job: str, row: dict[str, object], guarded: set[str]
) -> None:
    with store.write() as writer:
        rows = [{"id": name, "created_at": OLD, **row} for name in CHANGES]
        insert_memories(writer, memory_table(*rows))
    plan_id = plan_id_of(run(store, job, now, mode="plan"))
    with store.write() as writer:
        for statement in CHANGES.values():
            given = {"at": OLD + timedelta(days=1)} if "$at" in statement else {}
            writer.execute(statement, given)
    outcomes = read_outcomes_of(store, run(store, job, now, plan_id=plan_id))
    assert outcomes == {
        name: "changed_since_plan" if name in guarded else "applied" for name in sorted(CHANGES)
    }


def test_ancestor_that_changed_stays_when_its_head_goes(store: Store, now: datetime) -> None:
    with store.write() as writer:
        names = ("revision", "status", "same")
        ancestors = [{"id": name, "status": "superseded"} for name in names]
        head = {"id": "head", "status": "tombstoned", "tombstoned_at": OLD}
        insert_memories(writer, memory_table(head, *ancestors))
        edge = {"namespace_id": 1, "memory_id": "head", "kind": "supersedes", "since_revision": 1}
        edges = [edge | {"target_id": name} for name in names]
        insert_relations(writer, pa.Table.from_pylist(edges, schema=RELATION_SCHEMA))
    plan_id = plan_id_of(run(store, "sweep", now, mode="plan"))
    with store.write() as writer:
        writer.execute(CHANGES["revision"])
        writer.execute(REVIVED)
    assert run(store, "sweep", now, plan_id=plan_id).end.applied == 1
    assert statuses(store) == {"revision": "superseded", "status": "active"}
    with store.read() as reader:
        (receipt,) = read_receipts(reader, plan_id)
    assert receipt["carried"] == ["same"]
    assert receipt["ancestors_kept"] == ["revision", "status"]


@each_job
def test_zone_of_the_machine_changes_no_plan_id(tmp_path: Path, now: datetime, job: str) -> None:
    plan_ids = set()
    for zone in ("UTC", "America/New_York", "Asia/Tokyo"):
        store = copy_store(tmp_path / zone.replace("/", "-"))
        with machine_zone(zone):
            fill(store, 3)
            plan_ids.add(plan_id_of(run(store, job, now)))
    assert len(plan_ids) == 1


def test_interrupted_plan_is_resumed_from_its_receipts(store: Store, now: datetime) -> None:
    fill(store, 10)
    plan_id = store_small_batches(store, now, batch_size=3)
    heard: list[int] = []

    def interrupt(done: int) -> None:
        heard.append(done)
        if len(heard) == 2:
            raise Interrupted

    first = run_in_batches(store, plan_id, now, interrupt)
    assert (first.end.outcome, first.end.code) == ("failed", "internal:Interrupted")
    assert list(statuses(store).values()).count("tombstoned") == 6
    second = run_in_batches(store, plan_id, now, heard.append)
    assert heard == [3, 3, 3, 1]
    assert (second.end.outcome, second.end.applied) == ("applied", 4)
    assert second.end.skipped == {"already_applied": 6}
    with store.read() as reader:
        receipts = read_receipts(reader, plan_id)
    assert [receipt["memory_id"] for receipt in receipts] == [f"m{n:03}" for n in range(10)]
    assert [receipt["run_id"] for receipt in receipts].count(first.run_id) == 6


def test_run_that_lost_its_lease_writes_nothing_more(store: Store, now: datetime) -> None:
    fill(store, 10)
    plan_id = store_small_batches(store, now, batch_size=4)
    taken: list[dict[str, list[tuple[object, ...]]]] = []

    def take_over(_done: int) -> None:
        with store.write() as writer:
            owner, later = list_namespaces(writer)[0], now + timedelta(hours=1)
            acquire_lease(writer, owner, "prune", holder="another run", clock=later)
        taken.append(dump_tables(store, without={"runs"}))

    result = run_in_batches(store, plan_id, now, take_over)
    assert (result.end.outcome, result.end.code) == ("failed", "lease_lost")
    assert len(taken) == 1
    assert dump_tables(store, without={"runs"}) == taken[0]
    with store.read() as reader:
        assert read_run(reader, result.run_id)["outcome"] == "failed"
    assert list(statuses(store).values()).count("tombstoned") == 4


@each_job
def test_bad_row_in_a_big_batch_costs_only_itself(store: Store, now: datetime, job: str) -> None:
    fill(store, 500)
    fail_writes_of(store, ["m250"])
    result = run(store, job, now)
    assert (result.end.outcome, result.end.applied, result.end.failed) == ("partial", 499, 1)
    kept = [memory_id for memory_id, status in statuses(store).items() if status == "active"]
    assert kept == ["m250", "young"]
    outcomes = read_outcomes_of(store, result)
    assert [memory_id for memory_id, said in outcomes.items() if said == "failed"] == ["m250"]
    heal_writes(store)
    assert run(store, job, now).end.applied == 1


def test_sweep_is_skipped_while_prune_works_in_the_namespace(store: Store, now: datetime) -> None:
    fill(store, 3)
    before = statuses(store)
    with store.write() as writer:
        owner = list_namespaces(writer)[0]
        acquire_lease(writer, owner, "prune", holder="prune run", clock=now)
    result = run(store, "sweep", now)
    assert (result.end.outcome, result.end.applied) == ("skipped_busy", 0)
    assert result.error is not None
    assert (result.error["reason"], result.error["held_by"]) == ("excluded_job", "prune")
    assert statuses(store) == before
    with store.read() as reader:
        assert read_run(reader, result.run_id)["outcome"] == "skipped_busy"


def test_cancelled_run_gives_its_lease_back_and_the_next_one_does_the_rest(
    store: Store, now: datetime
) -> None:
    fill(store, 5)
    plan_id = store_small_batches(store, now, batch_size=2)

    def cancel(_done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_batches(store, plan_id, now, cancel)
    with store.read() as reader:
        (cancelled,) = list_runs(reader, limit=9)
    assert (cancelled["outcome"], cancelled["code"]) == ("failed", "cancelled")
    assert (cancelled["found"], cancelled["applied"]) == (5, 2)
    assert cancelled["skipped"] == {"not_reached": 3}
    assert run(store, "prune", now).end.applied == 3
