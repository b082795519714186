"""Rows about what once happened go when they are old; what still proves something stays."""

from datetime import datetime, timedelta

import pytest
from helpers.janitor import found_in
from helpers.rows import NOW

from storage import Store
from storage.leases import Lease, acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.retention import BATCH_ROWS, Kind, count_old, delete_old
from tasks.janitor import JanitorPolicy, JanitorReport, plan_janitor, sweep_up

INSERT_RUN = """
INSERT INTO runs BY NAME
SELECT
    $id AS run_id, $job AS job, 1 AS namespace_id, 'apply' AS mode, 'manual' AS trigger,
    $plan AS plan_id, $at AS now, $outcome AS outcome, 0 AS found, 0 AS applied, '{}' AS skipped,
    0 AS failed, $at AS started_at
"""
INSERT_PLAN = """
INSERT INTO plans SELECT $id, 'prune', 1, $at, '{}', 1, 1, 0, 1, 1, '{}', '[]', $at, NULL
"""
INSERT_DECISION = """
INSERT INTO decisions BY NAME
SELECT
    $id AS plan_id, 1 AS position, 'm1' AS memory_id, 'stale' AS reason, 'tombstone' AS action,
    1 AS expected_revision, 1 AS current_revision, 'active' AS status, false AS pinned,
    0 AS importance, 0 AS access_count, '{}' AS figures
"""
INSERT_PAIR = "INSERT INTO plan_pairs VALUES ($id, 0, 'similar', 'm1', 'm2', '[]', '{}')"
INSERT_APPLY_RECEIPT = """
INSERT INTO apply_receipts BY NAME
SELECT
    $id AS receipt_key, $plan AS plan_id, $run AS run_id, 1 AS namespace_id, 'm1' AS memory_id,
    'stale' AS reason, 'tombstone' AS action, 1 AS revision, 0 AS revisions_deleted,
    '{}' AS figures, $at AS applied_at
"""
INSERT_RECEIPT = """
INSERT INTO refresh_receipts
SELECT
    $id, '', 1, 'P', '', '', '', 1, 1, '', '', '', '', '', NULL, 0, 0, 0, 0, 0, 0, '', '', 0, 0, 0,
    0, $at
"""
INSERT_POINTER = """
INSERT INTO partitions SELECT 'P', 1, '', '{}', '', '', 1, 'verified', NULL, $id, 0, 0
"""
INSERT_MANY = """
INSERT INTO apply_receipts BY NAME
SELECT
    i::TEXT AS receipt_key, 'p' AS plan_id, 'r' AS run_id, 1 AS namespace_id, 'm' AS memory_id,
    'stale' AS reason, 'tombstone' AS action, 1 AS revision, 0 AS revisions_deleted,
    '{}' AS figures, $at AS applied_at
FROM range($count) AS r(i)
"""
INSERT_DEAD_TERMS = "INSERT INTO memory_terms SELECT 1, i, -i FROM range($count) AS r(i)"
IDS = {
    "runs": "SELECT run_id FROM runs ORDER BY 1",
    "plans": "SELECT plan_id FROM plans ORDER BY 1",
    "decisions": "SELECT DISTINCT plan_id FROM decisions ORDER BY 1",
    "pairs": "SELECT DISTINCT plan_id FROM plan_pairs ORDER BY 1",
    "apply_receipts": "SELECT receipt_key FROM apply_receipts ORDER BY 1",
    "receipts": "SELECT receipt_id FROM refresh_receipts ORDER BY 1",
}


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def add_run(store: Store, name: str, days: float, **said: object) -> None:
    params = {"id": name, "at": ago(days), "job": "prune", "outcome": "applied", "plan": None}
    with store.write() as writer:
        writer.execute(INSERT_RUN, params | said)


def add_plan(store: Store, name: str, days: float) -> None:
    with store.write() as writer:
        writer.execute(INSERT_PLAN, {"id": name, "at": ago(days)})
        writer.execute(INSERT_DECISION, {"id": name})
        writer.execute(INSERT_PAIR, {"id": name})


def add_apply_receipt(store: Store, name: str, days: float, plan: str, run: str = "r") -> None:
    with store.write() as writer:
        params = {"id": name, "plan": plan, "run": run, "at": ago(days)}
        writer.execute(INSERT_APPLY_RECEIPT, params)


def add_receipt(store: Store, name: str, days: float) -> None:
    with store.write() as writer:
        writer.execute(INSERT_RECEIPT, {"id": name, "at": ago(days)})


@pytest.fixture
def lease(store: Store) -> Lease:
    with store.write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        return acquire_lease(writer, target, "janitor", holder="j", clock=NOW)


def sweep_here(store: Store, lease: Lease, **policy: object) -> JanitorReport:
    chosen = JanitorPolicy.model_validate(policy)
    report = sweep_up(store, chosen, clock=lambda: NOW, lease=lease)
    assert report.error is None
    assert found_in(plan_janitor(store, chosen, clock=lambda: NOW)) == {}
    return report


def ids_of(store: Store, table: str) -> list[str]:
    with store.read() as reader:
        return [name for (name,) in reader.rows(IDS[table])]


def test_runs_are_kept_400_days(store: Store, lease: Lease) -> None:
    for name, days in (("newest", 1), ("edge", 400), ("old", 400.001), ("older", 500)):
        add_run(store, name, days)
    sweep_here(store, lease)
    assert ids_of(store, "runs") == ["edge", "newest"]


def test_newest_run_and_newest_success_of_a_job_stay(store: Store, lease: Lease) -> None:
    add_run(store, "prune-failed", 500, outcome="failed")
    add_run(store, "prune-done", 600)
    add_run(store, "prune-older", 700)
    add_run(store, "sweep-done", 900, job="sweep")
    sweep_here(store, lease)
    assert ids_of(store, "runs") == ["prune-done", "prune-failed", "sweep-done"]


def test_running_run_stays_with_its_plan_and_receipts(store: Store, lease: Lease) -> None:
    add_run(store, "running", 500, outcome="running", plan="its-plan")
    add_run(store, "newer", 1)
    add_plan(store, "its-plan", 500)
    add_apply_receipt(store, "its-receipt", 500, "its-plan", "running")
    sweep_here(store, lease)
    assert ids_of(store, "runs") == ["newer", "running"]
    assert (
        ids_of(store, "plans")
        == ids_of(store, "decisions")
        == ids_of(store, "pairs")
        == ["its-plan"]
    )
    assert ids_of(store, "apply_receipts") == ["its-receipt"]


def test_unapplied_plan_goes_after_90_days_with_its_decisions(store: Store, lease: Lease) -> None:
    add_plan(store, "edge", 90)
    add_plan(store, "old", 90.001)
    sweep_here(store, lease)
    assert (
        ids_of(store, "plans") == ids_of(store, "decisions") == ids_of(store, "pairs") == ["edge"]
    )


def test_applied_plan_stays_as_long_as_its_receipts(store: Store, lease: Lease) -> None:
    for name, days in (("young", 399), ("old", 401)):
        add_plan(store, name, days)
        add_apply_receipt(store, f"of-{name}", days, name)
    sweep_here(store, lease)
    assert ids_of(store, "apply_receipts") == ["of-young"]
    assert (
        ids_of(store, "plans") == ids_of(store, "decisions") == ids_of(store, "pairs") == ["young"]
    )


def test_receipt_that_a_pointer_names_is_never_purged(store: Store, lease: Lease) -> None:
    for name, days in (("edge", 400), ("old", 401), ("named", 900)):
        add_receipt(store, name, days)
    with store.write() as writer:
        writer.execute(INSERT_POINTER, {"id": "named"})
    sweep_here(store, lease)
    assert ids_of(store, "receipts") == ["edge", "named"]


def test_policy_says_how_long(store: Store, lease: Lease) -> None:
    add_run(store, "newest", 1)
    add_run(store, "ten-days", 10)
    add_plan(store, "plan", 10)
    add_receipt(store, "receipt", 10)
    add_apply_receipt(store, "applied", 10, "gone")
    report = sweep_here(store, lease, run_days=9, plan_days=9, receipt_days=9)
    assert {step.name: step.done for step in report.steps if step.done} == {
        "receipts": 1,
        "apply_receipts": 1,
        "plans": 1,
        "runs": 1,
    }
    assert report.end.applied == 4


def test_plan_of_the_janitor_writes_nothing(store: Store) -> None:
    add_plan(store, "old", 500)
    report = plan_janitor(store, JanitorPolicy(), clock=lambda: NOW)
    assert (report.end.outcome, report.end.found, report.end.skipped) == (
        "planned",
        1,
        {"dry_run": 1},
    )
    assert ids_of(store, "plans") == ["old"]


def test_many_rows_go_in_batches(store: Store) -> None:
    kind: Kind = "apply_receipts"
    with store.write() as writer:
        writer.execute(INSERT_MANY, {"count": BATCH_ROWS + 1, "at": ago(1)})
        assert count_old(writer, kind, before=NOW) == BATCH_ROWS + 1
    counts = []
    for _ in range(3):
        with store.write() as writer:
            counts.append(delete_old(writer, kind, before=NOW))
    assert counts == [BATCH_ROWS, 1, 0]


def test_term_index_is_sorted_anew_once_enough_of_it_is_dead(store: Store, lease: Lease) -> None:
    with store.write() as writer:
        writer.execute(INSERT_DEAD_TERMS, {"count": 9_999})
    assert found_in(sweep_here(store, lease)) == {}
    with store.write() as writer:
        writer.execute(INSERT_DEAD_TERMS, {"count": 1})
    assert found_in(sweep_here(store, lease)) == {"terms": 1}
    with store.read() as reader:
        assert reader.rows("SELECT count(*) FROM memory_terms") == [(0,)]
