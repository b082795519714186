"""Prune does what its vectors say: plans, relevance, refusals, guard, admission, side effects."""

from datetime import timedelta
from pathlib import Path

import pytest
from helpers.edits import record_use
from helpers.rows import NOW
from helpers.runs import dump_tables, machine_zone, plan_id_of, read_rows, run_case, run_guarded
from helpers.said import assert_equal_decisions, assert_equal_figures, plan_case
from helpers.vectors import (
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
)
from pydantic import ValidationError

from storage.errors import AdmissionError
from storage.memories import read_memory
from storage.models import Namespace
from tasks.jobs import find_job, parse_policy
from tasks.limits import SafetyLimits
from tasks.policies import PrunePolicy
from tasks.prune import plan_prune
from tasks.rules.decide import explain_prune
from tasks.writing import add_memory

UNSEEN = {"inactive", "expired_pending"}


@each_case("prune", "plan")
def test_plan_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    said, expected = plan_case(tmp_path / "store", case), case.expected
    assert_equal_decisions(said.decisions, expected["decisions"])
    assert said.counters == expected["counters"]
    unreachable = expected["counters"]["cap_unreachable"]
    assert said.warnings == ([f"cap_unreachable:{unreachable}"] if unreachable else [])
    if "verdicts" in expected:
        seen = {id_: name for id_, name in expected["verdicts"].items() if name not in UNSEEN}
        assert said.verdicts == seen
        assert said.protections == expected.get("protections", {})
        assert said.figures.keys() == expected.get("figures", {}).keys()
        for memory_id, record in expected.get("figures", {}).items():
            assert_equal_figures(said.figures[memory_id], record)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
@only_cases("prune", "P71")
def test_zone_of_the_machine_changes_no_plan(case: VectorCase, zone: str, tmp_path: Path) -> None:
    with machine_zone(zone):
        there = plan_case(tmp_path / "there", case)
    assert there == plan_case(tmp_path / "here", case)


@each_case("prune", "relevance")
def test_relevance_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    age = timedelta(days=case.inputs["age_days_raw"])
    row = {"id": "m1", "importance": case.inputs["importance"], "created_at": case.now - age}
    pinned = {"id": "full", "pinned": True}
    policy = {"max_items": 1, "min_age_hours": 0, "min_importance_to_keep": 0.0}
    asked = {"rows": [row, pinned], "policy": policy}
    capped = VectorCase(case.case_id, "plan", case.job, asked, {}, case.defaults)
    said = plan_case(tmp_path / "store", capped)
    (decision,) = said.decisions
    assert_equal_figures({name: decision[name] for name in case.expected}, case.expected)
    assert said.figures["m1"]["relevance"] == decision["relevance"]


@each_input("prune", "P72", "policies")
def test_bad_policy_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(AdmissionError, match=f"prune.{next(iter(value))}"):
        parse_policy(find_job("prune"), value)


@each_input("prune", "P73", "limits")
def test_bad_limits_are_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(value))):
        SafetyLimits.model_validate(value)


@each_input("prune", "P32", "namespaces")
def test_namespace_with_a_blank_part_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Namespace.model_validate(value)


@only_cases("prune", "P01")
def test_namespace_that_the_store_lacks_is_refused_before_any_write(
    case: VectorCase, tmp_path: Path
) -> None:
    store = copy_store(tmp_path / "store")
    before = dump_tables(store)
    with pytest.raises(AdmissionError, match="no such namespace"):
        run_case(store, case, mode="apply")
    assert dump_tables(store) == before


@each_input("prune", "P74", "importance")
def test_bad_importance_is_not_admitted(value: object, tmp_path: Path) -> None:
    store = copy_store(tmp_path / "store")
    with pytest.raises(AdmissionError) as refused:
        add_memory(store, {"id": "m1", "content": "text", "importance": value}, clock=NOW)
    assert refused.value.field == "importance"
    assert dump_tables(store)["memories"] == []


@each_case("prune", "guard")
def test_guard_equals_vector(case: VectorCase, tmp_path: Path) -> None:
    store, plan = fill_and_plan(tmp_path / "store", case)
    run_guarded(store, case, plan)
    assert plan.planned == case.expected["planned"]


@only_cases("prune", "P94")
def test_dry_runs_write_their_plan_and_nothing_else(case: VectorCase, tmp_path: Path) -> None:
    store = fill_store(tmp_path / "store", case)
    before = dump_tables(store)
    results = [run_case(store, case, mode="plan") for _ in range(case.inputs["dry_runs"])]
    assert len({result.end.plan_id for result in results}) == 1
    plan = results[0].plan
    assert plan is not None
    assert plan.planned == case.expected["planned"]
    assert [result.end.applied for result in results] == [0, 0, 0]
    after = dump_tables(store)
    written = {name for name in after if after[name] != before[name]}
    assert written == {"plans", "decisions", "runs", "leases", "epochs"}


@only_cases("prune", "P95")
def test_applying_leaves_kept_rows_alone_and_nothing_to_plan(
    case: VectorCase, tmp_path: Path
) -> None:
    case = load_vectors("prune")[case.inputs["case"]]
    store = fill_store(tmp_path / "store", case)
    before = read_rows(store)["r9"]
    first, second = (run_case(store, case, mode="plan") for _ in range(2))
    assert first.plan == second.plan
    applied = run_case(store, case, mode="apply", plan_id=plan_id_of(first))
    assert (applied.end.outcome, applied.end.applied) == ("applied", 5)
    after = run_case(store, case, mode="plan")
    assert after.end.outcome == "unchanged"
    assert after.plan is not None
    assert after.plan.planned == 0
    assert read_rows(store)["r9"] == before


@only_cases("prune", "P96")
def test_access_beyond_32_bits_is_counted_and_protects(case: VectorCase, tmp_path: Path) -> None:
    store = copy_store(tmp_path / "store")
    with store.write() as writer:
        insert_rows(writer, [case.defaults["row"] | case.inputs["row"]])
        owner = find_owner(writer)
        record_use(writer, owner.namespace_id, "m1", event_id="one more", at=case.now)
        assert isinstance(case.policy, PrunePolicy)
        plan = plan_prune(writer, case.policy, namespace=owner, now=case.now)
        row = read_memory(writer, owner.namespace_id, "m1")
        table = explain_prune(writer, case.policy, namespace_id=owner.namespace_id, now=case.now)
    assert row["access_count"] == case.expected["access_count"]
    assert table.column("verdict").to_pylist() == [case.expected["verdict"]]
    assert plan.header.planned == 0
