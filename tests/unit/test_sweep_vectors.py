"""Sweep does what its vectors say: scores, forecasts, plans, guard, receipts, restore, feedback."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from helpers.edits import restore_memory
from helpers.runs import (
    STATES,
    dump_tables,
    machine_zone,
    plan_id_of,
    read_outcomes_of,
    read_rows,
    request_job,
    run_case,
    run_guarded,
    run_one,
)
from helpers.said import (
    SCORE_TOLERANCE,
    Said,
    assert_equal_decisions,
    assert_equal_figures,
    explain_case,
    plan_case,
    score_figures,
)
from helpers.vectors import (
    NAMESPACE,
    Json,
    VectorCase,
    copy_store,
    each_case,
    each_input,
    fill_and_plan,
    fill_store,
    find_owner,
    insert_rows,
    load_vectors,
    only_cases,
    store_plan_of,
)

from storage import StoreWriter
from storage.errors import AdmissionError
from storage.instants import parse_instant
from storage.memories import list_live
from storage.plans import read_decisions, read_receipts
from storage.terms import insert_terms, term_rows
from tasks.explain import explain_plan
from tasks.feedback import apply_feedback
from tasks.importing import import_file
from tasks.jobs import find_job, parse_policy
from tasks.policies import ConsolidatePolicy, RefreshPolicy
from tasks.providers.hashing import HashingEmbedder
from tasks.requests import EmbedderChoice
from tasks.rules.slots import find_day
from tasks.writing import add_memory

RECEIPT_ROWS = "SELECT r::TEXT FROM apply_receipts AS r"


def assert_equal_plan(said: Said, expected: Json) -> None:
    """Compare all that a vector states; what it leaves out must be empty."""
    assert_equal_decisions(said.decisions, expected["decisions"])
    assert said.counters == expected["counters"]
    assert said.warnings == expected.get("warnings", [])
    if "verdicts" in expected:
        assert said.verdicts == expected["verdicts"]
        assert said.clock_anomaly == expected.get("clock_anomaly", {})
        assert said.figures.keys() == expected.get("figures", {}).keys()
        for memory_id, record in expected.get("figures", {}).items():
            assert_equal_figures(said.figures[memory_id], record)


@each_case("sweep", "plan")
def test_plan_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    assert_equal_plan(plan_case(tmp_path / "store", case), case.expected)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
@only_cases("sweep", "L10")
def test_zone_of_the_machine_changes_no_plan(case: VectorCase, zone: str, tmp_path: Path) -> None:
    with machine_zone(zone):
        there = plan_case(tmp_path / "there", case)
    assert there == plan_case(tmp_path / "here", case)


@each_case("sweep", "score")
def test_score_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    row, expected = explain_case(tmp_path / "store", case), dict(case.expected)
    assert expected.pop("duckdb_bits_equal")
    assert row["verdict"] == expected.pop("verdict")
    assert row["clock_anomaly"] == expected.pop("clock_anomaly", [])
    threshold = case.policy.model_dump()["cold_threshold"]
    assert_equal_figures(score_figures(row, threshold), expected)


@only_cases("sweep", "S54")
def test_explaining_again_and_again_changes_no_figure(case: VectorCase, tmp_path: Path) -> None:
    store = copy_store(tmp_path / "store")
    with store.session():
        plan = store_plan_of(store, case)
        said = [explain_plan(store, plan.plan_id) for _ in range(24)]
    assert all(rows == said[0] for rows in said)


@each_case("sweep", "forecast")
def test_forecast_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    row = explain_case(tmp_path / "store", case)
    forecast = {"days_until_cold": case.expected["days_until_cold"]}
    assert_equal_figures({"days_until_cold": row["days_until_cold"]}, forecast)


@each_case("sweep", "guard")
def test_guard_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    store, plan = fill_and_plan(tmp_path / "store", case)
    run_guarded(store, case, plan)
    assert plan.judged == case.expected["cold"]
    assert plan.planned + plan.carried == case.expected["total"]


@each_input("sweep", "X01", "policies")
def test_bad_policy_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(AdmissionError, match=f"sweep.{next(iter(value))}"):
        parse_policy(find_job("sweep"), value)


@only_cases("sweep", "L13")
def test_expired_rows_never_use_up_the_limit_of_a_read(case: VectorCase, tmp_path: Path) -> None:
    store = fill_store(tmp_path / "store", case)
    with store.write() as writer:
        owner, limit = find_owner(writer).namespace_id, case.inputs["query_limit"]
        live = list_live(writer, owner, now=case.now, limit=limit)
    assert [row["id"] for row in live] == case.expected["returned"]


@only_cases("sweep", "L14")
def test_expiry_that_is_no_instant_is_not_admitted(case: VectorCase, tmp_path: Path) -> None:
    store = copy_store(tmp_path / "store")
    with pytest.raises(AdmissionError) as refused:
        add_memory(store, {"id": "m1", "content": "text", **case.inputs}, clock=case.now)
    assert refused.value.field == "expires_at"
    assert len(dump_tables(store)["memories"]) == case.expected["stored"]


@only_cases("sweep", "K07")
def test_unscorable_row_is_kept_and_makes_the_run_partial(case: VectorCase, tmp_path: Path) -> None:
    said = plan_case(tmp_path / "store", case)
    assert (said.verdicts, said.decisions) == (case.expected["verdicts"], [])
    assert said.warnings == ["unscorable:m1"]
    result = run_case(fill_store(tmp_path / "again", case), case, mode="apply")
    assert STATES[result.end.outcome] == case.expected["state"]
    assert (result.end.found, result.end.failed) == (1, 1)


@only_cases("sweep", "Q01")
def test_dry_runs_preview_all_that_apply_does(case: VectorCase, tmp_path: Path) -> None:
    case, expected = load_vectors("sweep")[case.inputs["case"]], case.expected
    store = fill_store(tmp_path / "store", case)
    before = read_rows(store)
    plan_id, *others = [plan_id_of(run_case(store, case)) for _ in range(3)]
    assert others == [plan_id, plan_id]
    assert read_rows(store) == before
    with store.read() as reader:
        preview = [decision["id"] for decision in read_decisions(reader, plan_id)]
        assert read_receipts(reader, plan_id) == []
    assert preview == expected["dry_run_preview"]
    applied = run_case(store, case, mode="apply", plan_id=plan_id)
    assert list(read_outcomes_of(store, applied)) == preview
    with store.read() as reader:
        receipts = read_receipts(reader, plan_id)
    assert (applied.end.applied, len(receipts)) == (expected["applied"], expected["receipts"])
    assert run_case(store, case).end.outcome == "unchanged"


@only_cases("sweep", "Q02")
def test_receipt_says_nothing_of_the_content(case: VectorCase, tmp_path: Path) -> None:
    store, expected = fill_store(tmp_path / "store", case), case.expected
    plan_id = plan_id_of(run_case(store, case, mode="apply"))
    assert len(read_rows(store)) == expected["rows_left"]
    assert dump_tables(store)["revisions"] == []
    with store.read() as reader:
        (receipt,) = read_receipts(reader, plan_id)
        ((text,),) = reader.rows(RECEIPT_ROWS)
    assert receipt["revisions_deleted"] == expected["revisions_deleted"]
    assert set(expected["receipt_fields"]) - receipt.keys() == {"namespace"}
    assert not [word for word in expected["receipt_contains_none_of"] if word in text]


@only_cases("sweep", "Q03")
def test_planning_twice_moves_nothing(case: VectorCase, tmp_path: Path) -> None:
    store = fill_store(tmp_path / "store", case)
    before = dump_tables(store, without={"plans", "runs", "leases", "epochs"})
    first, second = run_case(store, case), run_case(store, case)
    assert plan_id_of(first) == plan_id_of(second)
    assert dump_tables(store, without={"plans", "runs", "leases", "epochs"}) == before
    row = read_rows(store)["m1"]
    for name in ("access_count", "last_accessed_at"):
        assert row[name] == case.expected[name]


@only_cases("sweep", "Q03")
def test_refreshing_moves_no_memory(case: VectorCase, tmp_path: Path) -> None:
    store = fill_store(tmp_path / "store", case)
    before = dump_tables(store)["memories"]
    with_embedder = EmbedderChoice("hash", HashingEmbedder)
    asked = {"job": "refresh", "policy": RefreshPolicy(), "mode": "apply", "now": case.now}
    result = run_one(request_job(store, **asked, namespace=NAMESPACE, embedder=with_embedder))
    assert result.end.outcome == "applied"
    assert dump_tables(store)["memories"] == before


@only_cases("sweep", "Q03")
def test_consolidating_moves_nothing(case: VectorCase, tmp_path: Path) -> None:
    store = fill_store(tmp_path / "store", case)
    rows = [case.defaults["row"] | {"id": name} for name in ("n1", "n2")]
    with store.write() as writer:
        insert_rows(writer, [row | {"content": "Ask twice before a deploy"} for row in rows])
        insert_terms(writer, term_rows(texts_of(writer), find_owner(writer).namespace_id))
    before = read_rows(store)
    asked = {"job": "consolidate", "policy": ConsolidatePolicy(), "now": case.now}
    for mode in ("plan", "apply"):
        result = run_one(request_job(store, **asked, mode=mode, namespace=NAMESPACE))
        assert result.end.found == 1
        after = read_rows(store)
        assert after["m1"] == before["m1"]
        for name in ("access_count", "last_accessed_at"):
            assert after["m1"][name] == case.expected[name]
    assert after["n2"]["status"] == "superseded"
    assert {name: after["n1"][name] for name in ("access_count", "last_accessed_at")} == {
        name: before["n1"][name] for name in ("access_count", "last_accessed_at")
    }


def texts_of(writer: StoreWriter) -> list[tuple[str, str]]:
    """Give the texts of all memories; rows that were written past admission have no terms."""
    return [(name, text) for name, text in writer.rows("SELECT id, content FROM memories")]


@only_cases("sweep", "Q06")
def test_schedule_runs_once_per_local_date(case: VectorCase, tmp_path: Path) -> None:
    store = fill_store(tmp_path / "store", case)
    with store.write() as writer:
        insert_rows(writer, [case.defaults["row"] | {"id": "m1"}])
    zone, runs = case.inputs["tz"], []
    for key, instant in case.expected["first_instants"].items():
        slot = parse_instant(instant)
        assert find_day(slot, zone) == key
        for number in range(case.inputs["starts_per_key"]):
            start = slot + timedelta(seconds=1 + number)
            asked = {"now": start, "slot": slot, "slot_zone": zone, "trigger": "schedule"}
            runs.append((key, run_case(store, case, mode="apply", **asked).end))
    worked = [key for key, end in runs if end.outcome != "skipped_missed"]
    assert worked == case.expected["keys"]
    assert {end.code for _, end in runs if end.outcome == "skipped_missed"} == {"covered"}


@only_cases("sweep", "Q04")
def test_import_of_an_evicted_memory_is_suppressed(case: VectorCase, tmp_path: Path) -> None:
    store, file = fill_store(tmp_path / "store", case), tmp_path / "again.jsonl"
    run_case(store, case, mode="apply")
    evicted = read_rows(store)
    file.write_text(json.dumps({"id": "m1", "content": "memory m1"}), encoding="utf-8")
    report = import_file(store, file, namespace=NAMESPACE, clock=case.now)
    assert (report.read, report.suppressed) == (1, 1)
    assert read_rows(store) == evicted
    assert evicted["m1"]["status"] == case.expected["status"]


@only_cases("sweep", "Q05")
def test_restored_memory_is_not_taken_again(case: VectorCase, tmp_path: Path) -> None:
    store, wanted = fill_store(tmp_path / "store", case), case.expected["after_restore"]
    created_at = read_rows(store)["m1"]["created_at"]
    plan_id = plan_id_of(run_case(store, case, mode="apply"))
    assert run_case(store, case, mode="apply").end.outcome == "unchanged"
    with store.write() as writer:
        assert len(read_receipts(writer, plan_id)) == case.expected["tombstone_receipts"]
        restore_memory(writer, find_owner(writer).namespace_id, "m1", at=case.now)
    again = run_case(store, case)
    (figures,) = explain_plan(store, plan_id_of(again))
    row = read_rows(store)["m1"]
    assert (row["status"], row["created_at"]) == (wanted["status"], created_at)
    for name in ("age_clock", "age_days", "score", "verdict"):
        assert figures[name] == wanted[name]


@each_case("sweep", "feedback")
def test_feedback_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    store, start = copy_store(tmp_path / "store"), case.inputs["start"]
    row = case.defaults["row"] | {"id": "m1", "salience": start}
    with store.session():
        with store.write() as writer:
            insert_rows(writer, [row])
        for signal in case.inputs["signals"]:
            apply_feedback(store, "m1", signal, at=case.now, namespace=NAMESPACE)
        after = read_rows(store)["m1"]
    assert after["salience"] == pytest.approx(case.expected["salience"], abs=SCORE_TOLERANCE)
    assert after["content_at"] == after["created_at"]
