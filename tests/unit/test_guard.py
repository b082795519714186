"""The guard refuses plans that remove too much, once, before the first write."""

from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from math import floor

import pytest
from helpers.rows import memory_table
from helpers.runs import dump_tables, plan_id_of, request_job, run_one
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Store
from storage.errors import PlanRefusedError
from storage.memories import insert_memories
from storage.plans import PlanHeader
from tasks.apply import guard_plan
from tasks.limits import SafetyLimits
from tasks.policies import PrunePolicy, SweepPolicy

STALE_AT = datetime.fromisoformat("2026-01-01T00:00:00Z")


def make_plan(now: datetime, **figures: int) -> PlanHeader:
    """Make the header of a plan with these figures."""
    return PlanHeader(
        plan_id="plan_1",
        job="sweep",
        namespace_id=1,
        now=now,
        policy={},
        batch_size=1,
        planned=figures.get("planned", 0),
        carried=figures.get("carried", 0),
        judged=figures.get("judged", 0),
        visible=figures.get("visible", 0),
        counters={},
        warnings=[],
    )


def test_carried_rows_count_for_max_rows(now: datetime) -> None:
    plan, limits = make_plan(now, planned=3, carried=3, visible=9), SafetyLimits(max_rows=5)
    with pytest.raises(PlanRefusedError) as refused:
        guard_plan(plan, limits)
    figures = {"limit": "max_rows", "planned": 6, "visible": 9, "allowed": 5}
    assert refused.value.facts == {"plan_id": "plan_1", **figures}
    guard_plan(replace(plan, carried=2), limits)


def test_only_judged_rows_count_for_the_share(now: datetime) -> None:
    plan = make_plan(now, planned=90, carried=9, judged=6, visible=20)
    guard_plan(plan, SafetyLimits())
    with pytest.raises(PlanRefusedError) as refused:
        guard_plan(replace(plan, judged=7), SafetyLimits())
    figures = {"limit": "max_fraction", "planned": 7, "visible": 20, "allowed": 6}
    assert refused.value.facts == {"plan_id": "plan_1", **figures}


def test_max_rows_is_judged_before_the_share(now: datetime) -> None:
    plan = make_plan(now, planned=20, judged=20, visible=20)
    with pytest.raises(PlanRefusedError) as refused:
        guard_plan(plan, SafetyLimits(max_rows=0))
    assert refused.value.facts["limit"] == "max_rows"


def test_empty_plan_passes_every_limit(now: datetime) -> None:
    guard_plan(make_plan(now, visible=1000), SafetyLimits(max_rows=0, max_fraction=1e-9))


def test_confirmation_of_another_plan_is_refused_although_no_limit_is_hit(now: datetime) -> None:
    with pytest.raises(PlanRefusedError) as refused:
        guard_plan(make_plan(now), SafetyLimits(), confirm_plan_id="plan_2")
    assert refused.value.facts == {"plan_id": "plan_1", "limit": "confirm_plan_id"}


@settings(deadline=None, derandomize=True, database=None)
@given(
    percent=st.integers(1, 100),
    visible=st.integers(0, 200_000),
    least=st.integers(0, 50),
)
def test_whole_percentages_allow_their_exact_share(percent: int, visible: int, least: int) -> None:
    limits = SafetyLimits(max_fraction=percent / 100, min_rows_before_fraction=least)
    exact = floor(Fraction(percent, 100) * visible)
    assert limits.allowed(visible) == (exact if visible >= least else None)


@pytest.fixture
def crowded(store: Store, now: datetime) -> Store:
    """Give a store where half of 20 memories is stale and cold, and one row has expired."""
    rows = [{"id": f"old{n}", "created_at": STALE_AT} for n in range(10)]
    rows += [{"id": f"new{n}"} for n in range(10)]
    rows += [{"id": "gone", "created_at": STALE_AT, "expires_at": now}]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
    return store


@pytest.mark.parametrize(
    ("job", "policy", "planned"),
    [
        pytest.param("prune", PrunePolicy(), 10, id="prune"),
        pytest.param("sweep", SweepPolicy(), 11, id="sweep"),
    ],
)
def test_refused_run_stores_its_plan_and_changes_no_memory(
    crowded: Store, now: datetime, job: str, policy: PrunePolicy | SweepPolicy, planned: int
) -> None:
    before = dump_tables(crowded)
    result = run_one(request_job(crowded, job=job, policy=policy, now=now, mode="apply"))
    assert (result.end.outcome, result.end.code) == ("refused", "plan_refused")
    assert result.end.applied == 0
    assert result.plan is not None
    assert result.plan.planned == planned
    after = dump_tables(crowded)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"plans", "decisions", "runs", "leases", "epochs"}


def test_confirmed_plan_is_applied_as_stored_and_not_made_again(
    crowded: Store, now: datetime
) -> None:
    asked = {"job": "prune", "policy": PrunePolicy(), "now": now, "mode": "apply"}
    refused = run_one(request_job(crowded, **asked))
    with crowded.write() as writer:
        insert_memories(writer, memory_table({"id": "late", "created_at": STALE_AT}))
    later = asked | {"now": now.replace(year=2027), "policy": PrunePolicy(max_age_days=0)}
    confirmed = request_job(crowded, **later, confirm_plan_id=plan_id_of(refused))
    result = run_one(confirmed)
    assert result.plan == refused.plan
    assert (result.end.outcome, result.end.applied) == ("applied", 10)


def test_plan_that_was_begun_goes_on_without_a_second_judgement(
    crowded: Store, now: datetime
) -> None:
    asked = {"job": "prune", "policy": PrunePolicy(), "now": now}
    plan_id = plan_id_of(run_one(request_job(crowded, **asked)))
    confirmed = {**asked, "mode": "apply", "confirm_plan_id": plan_id}
    assert run_one(request_job(crowded, **confirmed)).end.applied == 10
    again = run_one(request_job(crowded, **asked, mode="apply", plan_id=plan_id))
    assert (again.end.outcome, again.end.skipped) == ("unchanged", {"already_applied": 10})
    other = request_job(crowded, **asked, mode="apply", plan_id=plan_id, confirm_plan_id="other")
    assert run_one(other).end.outcome == "refused"
