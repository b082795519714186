"""The health job: what it keeps, exports and tells, and that it changes nothing else."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from helpers.children import start_child
from helpers.cli import Answer, run_here
from helpers.health import run_health
from helpers.rows import NOW, memory_table
from helpers.runs import dump_namespace, dump_tables, request_job, run_one

from storage import Store
from storage.errors import StoreBusyError
from storage.exports import read_export
from storage.instants import format_instant
from storage.leases import acquire_lease
from storage.memories import insert_memories
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace, list_namespaces
from tasks.health.job import describe_event, find_breaches
from tasks.health.policy import HealthPolicy
from tasks.inline import run_job
from tasks.status import show_status

CANARY = "canary-7f3e"
DAY = timedelta(days=1)
AT = ("--now", format_instant(NOW))
EXPORTS = {
    *("memories", "runs", "decisions", "pairs", "index_coverage", "forecast", "health", "status"),
}
OTHER = Namespace(tenant="t", principal="p", scope="s")


def fill(store: Store) -> None:
    """Add memories that go cold on different days, one that expires, one whose clock is ahead."""
    rows: list[dict[str, object]] = [
        {"id": f"m{n:02}", "created_at": NOW - n * 6 * DAY, "tags": [CANARY], "content": CANARY}
        for n in range(20)
    ]
    rows += [
        {"id": "expires", "expires_at": NOW + 10 * DAY, "pinned": True},
        {"id": "expired", "expires_at": NOW - DAY, "pinned": True},
        {"id": "ahead", "created_at": NOW + DAY},
        {"id": "purge", "status": "tombstoned", "tombstoned_at": NOW - 170 * DAY},
    ]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))


@pytest.fixture
def filled(store: Store) -> Store:
    fill(store)
    return store


def read_table(store: Store, name: str) -> pa.Table:
    table = read_export(store.path, name)
    assert table is not None
    return table


def test_snapshot_is_kept_and_exported(filled: Store) -> None:
    result = run_health(filled)
    assert (result.end.outcome, result.end.found, result.end.applied) == ("applied", 1, 1)
    assert {file.stem for file in (filled.path / "exports").iterdir()} == EXPORTS
    for name in EXPORTS:
        about = read_table(filled, name).schema.metadata
        assert about[b"run_id"].decode() == result.run_id
        assert about[b"taken_at"].decode() == format_instant(NOW)
    with filled.read() as reader:
        kept = reader.rows("SELECT DISTINCT run_id, taken_at FROM health")
    assert kept == [(result.run_id, NOW)]
    assert read_table(filled, "health").num_rows == len(dump_tables(filled)["health"])


def test_exports_that_cannot_be_written_are_told(filled: Store) -> None:
    (filled.path / "exports").write_text("in the way", encoding="utf-8")
    result = run_health(filled)
    assert (result.end.outcome, result.end.code) == ("failed", "storage_failure")
    assert result.end.error == "the exports could not be written: File exists"


def test_exported_status_is_what_the_command_line_prints(filled: Store) -> None:
    shown = run_here("status", *AT, "--store", filled.path, "--json").value
    run_health(filled)
    told = json.loads(read_table(filled, "status").column("status")[0].as_py())
    same = ("memories", "index", "duplicates", "anomalies", "forecast", "cost", "breaches", "work")
    assert {name: told[name] for name in same} == {name: shown[name] for name in same}
    assert told["jobs"].keys() == shown["jobs"].keys()
    assert told.keys() == shown.keys() - {"age_s"}


def test_health_changes_no_memory_and_shows_none(filled: Store) -> None:
    before = dump_namespace(filled, DEFAULT_NAMESPACE)
    run_health(filled)
    assert dump_namespace(filled, DEFAULT_NAMESPACE) == before
    assert CANARY in repr(before)
    told = "".join(repr(read_table(filled, name).to_pylist()) for name in EXPORTS)
    assert "m07" in told
    assert CANARY not in told
    rest = dump_tables(filled, without=["memories", "revisions"])
    assert CANARY not in repr(rest)


def test_forecast_counts_what_each_memory_says_of_itself(filled: Store) -> None:
    """The days until a memory is cold are found in closed form, the forecast by a later sweep."""
    run_health(filled)
    memories = read_table(filled, "memories").to_pylist()
    scored = [row for row in memories if row["verdict"] in {"cold", "kept_hot"}]
    told = {row["days"]: row for row in read_table(filled, "forecast").to_pylist()}
    for days in (7, 30, 90):
        limit = NOW + days * DAY
        cold = sum(row["days_until_cold"] < days for row in scored)
        expired = sum(bool(row["expires_at"] and row["expires_at"] <= limit) for row in memories)
        assert (told[days]["cold"], told[days]["expired"]) == (cold, expired)
    assert [told[days]["purge"] for days in (7, 30, 90)] == [0, 1, 1]
    assert told[7]["cold"] < told[30]["cold"] < told[90]["cold"]


def test_backlog_is_what_the_jobs_would_find(filled: Store) -> None:
    jobs = show_status(filled, now=NOW)["jobs"]
    for name in ("sweep", "prune"):
        planned = run_here("plan", name, *AT, "--store", filled.path, "--json").plan
        assert jobs[name]["backlog"] == planned["found"] > 0
    assert jobs["refresh"]["backlog"] == jobs["consolidate"]["backlog"] == 23


def test_anomalies_are_counted(filled: Store) -> None:
    with filled.write() as writer:
        writer.execute("UPDATE memories SET salience = 'nan' WHERE id = 'm01'")
    status = show_status(filled, now=NOW)
    assert status["anomalies"] == {"clock": 1, "pinned_expired": 1, "unscorable": 1}
    names = {one["name"] for one in status["breaches"]}
    assert {"max_clock_anomalies", "max_pinned_expired", "max_unscorable"} <= names


def test_namespaces_add_up_and_one_can_be_asked_for(filled: Store) -> None:
    with filled.write() as writer:
        other = ensure_namespace(writer, OTHER)
        row = {"id": "one", "namespace_id": other.namespace_id}
        insert_memories(writer, memory_table(row))
    whole = show_status(filled, now=NOW)
    parts = [show_status(filled, now=NOW, namespace=one) for one in (DEFAULT_NAMESPACE, OTHER)]
    assert (whole["namespaces"], parts[1]["namespaces"]) == (2, 1)
    assert parts[1]["memories"]["total"] == 1
    for subject in ("memories", "anomalies"):
        for name, count in whole[subject].items():
            assert count == sum(part[subject][name] for part in parts)
    run_health(filled)
    series = read_table(filled, "health")
    own = series.filter((pc.field("scope") == "s") & (pc.field("metric") == "total"))
    assert own.column("value").to_pylist() == [1.0]


def test_broken_thresholds_are_data_of_the_run(filled: Store) -> None:
    request = request_job(
        filled,
        job="health",
        policy=HealthPolicy(max_sweep_backlog=1),
        now=NOW,
        mode="apply",
    )
    results = run_job(request)
    found = {one.name: one for one in find_breaches(request, results)}
    backlog = show_status(filled, now=NOW)["jobs"]["sweep"]["backlog"]
    broken = found["max_sweep_backlog"]
    assert (broken.value, broken.threshold) == (backlog, 1)
    assert results[0].end.figures["breaches"] == len(found)
    name, payload = describe_event(broken)
    assert name == "memtend.health.breached"
    assert payload == {
        "name": "max_sweep_backlog",
        "value": backlog,
        "threshold": 1,
        "run_id": results[0].run_id,
    }


def test_plan_mode_tells_and_writes_nothing(filled: Store) -> None:
    before = dump_tables(filled)
    plan = run_here("plan", "health", *AT, "--store", filled.path, "--json").plan
    assert plan["reasons"]["max_clock_anomalies"] == 1
    assert dump_tables(filled) == before
    assert not (filled.path / "exports").exists()


def test_history_grows_and_old_snapshots_go(filled: Store) -> None:
    for days in (0, 1, 11):
        run_health(filled, NOW + days * DAY, keep_days=10)
    with filled.read() as reader:
        kept = reader.rows("SELECT DISTINCT taken_at FROM health ORDER BY taken_at")
    assert kept == [(NOW + DAY,), (NOW + 11 * DAY,)]
    assert read_table(filled, "health").column("taken_at").unique().to_pylist() == [
        NOW + DAY,
        NOW + 11 * DAY,
    ]


def test_growth_is_told_once_there_is_an_old_snapshot(filled: Store) -> None:
    run_health(filled)
    assert show_status(filled, now=NOW + 6 * DAY)["files"]["database_growth_mib"] is None
    with filled.write() as writer:
        rows = [{"id": f"more-{n}", "content": f"{n} " * 2_000} for n in range(2_000)]
        insert_memories(writer, memory_table(*rows))
    files = show_status(filled, now=NOW + 8 * DAY)["files"]
    assert files["database_growth_mib"] > 0
    assert files["vector_growth_mib"] == 0


def test_second_run_at_the_same_time_keeps_nothing(filled: Store) -> None:
    request = request_job(filled, job="health", policy=HealthPolicy(), now=NOW, mode="apply")
    with filled.read() as reader:
        target = list_namespaces(reader)[0]
    with filled.write() as writer:
        acquire_lease(writer, target, "health", holder="another", clock=NOW)
    assert run_one(request).end.outcome == "skipped_busy"
    assert dump_tables(filled)["health"] == []
    assert not (filled.path / "exports").exists()


def test_duplicates_are_those_that_the_last_consolidation_left(tmp_path: Path) -> None:
    def type_(*words: object) -> Answer:
        return run_here(*words, "--store", tmp_path / "store", "--json")

    def read() -> object:
        told = type_("status").value
        return told["duplicates"], told["jobs"]["consolidate"]["backlog"]

    type_("init")
    for text in ("Deploys happen on Mondays at noon.", "Lunch is served on the terrace."):
        for _ in range(2):
            type_("add", text)
    assert read() == ({"found": None, "remaining": None, "ratio": None}, 4)
    type_("plan", "consolidate")
    assert read() == ({"found": 2, "remaining": 2, "ratio": 0.5}, 2)
    type_("run", "consolidate", "--limit", "max_fraction=1.0")
    assert read() == ({"found": 2, "remaining": 0, "ratio": 0.0}, 0)


def test_cost_is_what_refreshes_embedded_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")

    def type_(*words: object) -> dict[str, Any]:
        return run_here(*words, "--store", tmp_path / "store", "--json").value

    type_("init")
    for number in range(3):
        type_("add", f"memory {number}")
    type_("run", "refresh")
    type_("add", "a fourth one")
    type_("run", "refresh")
    type_("run", "refresh")
    status = type_("status")
    cost = {name: status["cost"][name] for name in ("runs", "embedded", "reused", "skipped")}
    assert cost == {"runs": 3, "embedded": 4, "reused": 3, "skipped": 4}
    assert status["files"]["vector_rows"] == 7
    assert status["files"]["vector_versions"] > 1
    assert status["index"]["served_coverage"] == 1.0


def test_reader_gets_the_last_snapshot_while_a_writer_holds_the_store(filled: Store) -> None:
    hurried = Store(filled.path, lock_wait_s=0.2)
    run_health(filled)
    with start_child("hold_store", filled.path, "write") as child:
        assert child.hear() == "held"
        status = show_status(hurried, now=NOW + DAY)
        assert (status["age_s"], status["taken_at"]) == (DAY.total_seconds(), NOW)
        assert status["memories"]["total"] == 24
        assert run_here("status", "--store", filled.path).exit_code == 0
        with pytest.raises(StoreBusyError):
            show_status(hurried, now=NOW, namespace=DEFAULT_NAMESPACE)
    assert show_status(filled, now=NOW + DAY)["age_s"] == 0


def test_without_a_snapshot_a_held_store_is_busy(filled: Store) -> None:
    with start_child("hold_store", filled.path, "write") as child:
        assert child.hear() == "held"
        with pytest.raises(StoreBusyError):
            show_status(Store(filled.path, lock_wait_s=0.2), now=NOW)
