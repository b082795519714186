"""maintain: the steps in their order, each under its own lease, and none stops the next one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from itertools import count
from typing import Any

import pytest
from helpers.children import start_child
from helpers.cli import run_here
from helpers.runs import dump_tables, request_job

from flows.edge import choose_embedder
from storage import Store
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace
from storage.runs import list_runs
from tasks.control import pause
from tasks.importing import import_file
from tasks.limits import SafetyLimits
from tasks.maintaining import (
    STEPS,
    MaintainPolicy,
    Step,
    attempt_job,
    attempt_jobs,
    find_step,
    judge_results,
    list_results,
    run_maintain,
)
from tasks.report import RunResult
from tasks.requests import JobRequest, OnBatch
from tasks.writing import add_memory

pytestmark = pytest.mark.slow

ALL = SafetyLimits(max_fraction=1.0)
NOW = datetime(2026, 9, 30, tzinfo=UTC)
LEASES = "SELECT job FROM leases ORDER BY job"
# History, and what a consolidation remembers once there is an index to search in.
MOVED = ("runs", "leases", "health", "epochs", "semantic_searches", "semantic_states")


@pytest.fixture
def filled(store: Store) -> Store:
    """Give a store with the sample memories: the sweep expires, cools and purges some."""
    with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
        import_file(store, sample, clock=NOW)
    return store


def ask(store: Store, **asked: Any) -> JobRequest:  # noqa: ANN401 - fields of JobRequest
    ticks = count()
    given = {
        "job": "maintain",
        "clock": lambda: NOW + timedelta(milliseconds=next(ticks)),
        "policy": MaintainPolicy(),
        "mode": "apply",
        "now": NOW,
        "limits": ALL,
        "embedder": choose_embedder("hash"),
    }
    return request_job(store, **(given | asked))


def list_outcomes(steps: Sequence[Step]) -> dict[str, str]:
    return {step.job: step.outcome for step in steps}


def hold(store: Store, job: str) -> None:
    with store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        assert acquire_lease(writer, owner, job, holder="other", clock=NOW)


def test_steps_run_in_order_under_their_own_leases(filled: Store) -> None:
    outcomes = list_outcomes(run_maintain(ask(filled)))
    assert list(outcomes) == list(STEPS)
    assert outcomes["sweep"] == outcomes["refresh"] == outcomes["health"] == "applied"
    with filled.read() as reader:
        assert [run["job"] for run in reversed(list_runs(reader, limit=9))] == ["maintain", *STEPS]
        assert [row[0] for row in reader.rows(LEASES)] == sorted(["maintain", *STEPS])


def test_second_run_changes_no_memory_and_no_index(filled: Store) -> None:
    run_maintain(ask(filled))
    before = dump_tables(filled, without=MOVED)
    steps = run_maintain(ask(filled))
    assert judge_results(list_results(steps)) == "unchanged"
    assert dump_tables(filled, without=MOVED) == before


def test_mode_is_that_of_the_guarded_steps(filled: Store) -> None:
    with filled.read() as reader:
        before = reader.rows("SELECT id, status, revision FROM memories ORDER BY id")
    outcomes = list_outcomes(run_maintain(ask(filled, mode="plan")))
    assert outcomes == {
        "sweep": "planned",
        "prune": "planned",
        "consolidate": "unchanged",
        "refresh": "applied",
        "health": "applied",
    }
    with filled.read() as reader:
        assert reader.rows("SELECT id, status, revision FROM memories ORDER BY id") == before


def test_each_step_has_its_own_policy(filled: Store) -> None:
    policy = MaintainPolicy.model_validate({"sweep": {"cold_threshold": 0.1, "ttl": False}})
    with_policy = ask(filled, policy=policy)
    assert find_step(with_policy, "sweep").policy == policy.sweep
    assert find_step(with_policy, "refresh").policy == policy.refresh


@pytest.mark.parametrize(
    ("asked", "failing", "outcome"),
    [
        pytest.param({"limits": SafetyLimits(max_rows=0)}, "sweep", "refused", id="over-a-limit"),
        pytest.param({"embedder": None}, "refresh", "refused", id="no-embedder"),
    ],
)
def test_step_that_fails_does_not_stop_the_next_one(
    asked: dict[str, object], failing: str, outcome: str, filled: Store
) -> None:
    steps = run_maintain(ask(filled, **asked))
    outcomes = list_outcomes(steps)
    assert outcomes[failing] == outcome
    assert outcomes["health"] == "applied"
    assert len(steps) == len(STEPS)


def test_error_before_the_first_run_ends_all(filled: Store) -> None:
    steps = run_maintain(ask(filled, namespace=Namespace(tenant="n", principal="o", scope="ne")))
    assert list_outcomes(steps) == {"maintain": "refused"}


def test_held_lease_skips_its_step_only(filled: Store) -> None:
    hold(filled, "refresh")
    outcomes = list_outcomes(run_maintain(ask(filled)))
    assert outcomes["refresh"] == "skipped_busy"
    assert (outcomes["sweep"], outcomes["health"]) == ("applied", "applied")


def test_locked_store_is_a_busy_step(filled: Store) -> None:
    """V39."""
    request = ask(filled, job="sweep", policy=MaintainPolicy().sweep, lock_wait_s=0.05)
    with start_child("hold_store", filled.path, "write") as other:
        assert other.hear() == "held"
        (result,) = attempt_job(request)
    assert (result.end.outcome, result.end.code) == ("skipped_busy", "store_locked")
    with filled.read() as reader:
        assert list_runs(reader, limit=1) == []


def other_space(store: Store, scope: str) -> Namespace:
    """Make another namespace with one memory."""
    place = DEFAULT_NAMESPACE.model_copy(update={"scope": scope})
    add_memory(store, {"id": "m1", "content": "A note."}, namespace=place, clock=NOW)
    return place


def read_maintain(store: Store) -> list[dict[str, Any]]:
    """Read the rows of maintain itself."""
    with store.read() as reader:
        return [run for run in list_runs(reader, limit=99) if run["job"] == "maintain"]


def test_row_of_maintain_adds_up_its_steps(filled: Store) -> None:
    steps = run_maintain(ask(filled))
    (row,) = read_maintain(filled)
    changing = [one.end for one in list_results(steps) if one.job != "health"]
    assert (row["outcome"], row["code"]) == ("applied", None)
    assert row["applied"] == sum(end.applied for end in changing) > 0
    assert row["found"] == row["applied"] + sum(row["skipped"].values()) + row["failed"]
    run_maintain(ask(filled))
    (again,) = (one for one in read_maintain(filled) if one["run_id"] != row["run_id"])
    assert (again["outcome"], again["applied"]) == ("unchanged", 0)


def test_second_maintain_is_skipped_and_interleaves_nothing(filled: Store) -> None:
    """Spec 3.2: the second one starts while the first is at its second step."""
    second: list[Step] = []

    def run_step(requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
        if requests[0].job == "prune":
            second.extend(run_maintain(ask(filled)))
        return attempt_jobs(requests, keep)

    first = run_maintain(ask(filled), run_step)
    assert list_outcomes(second) == {"maintain": "skipped_busy"}
    assert list(list_outcomes(first)) == list(STEPS)
    assert {(row["outcome"], row["code"]) for row in read_maintain(filled)} == {
        ("skipped_busy", "lease_held"),
        ("applied", None),
    }
    with filled.read() as reader:
        assert len(list_runs(reader, limit=99)) == len(STEPS) + 2


def test_namespace_that_is_being_maintained_is_left_out(filled: Store) -> None:
    other = other_space(filled, "other")
    hold(filled, "maintain")
    steps = run_maintain(ask(filled))
    assert list_outcomes(steps).pop("maintain") == "skipped_busy"
    worked = {one.namespace for one in list_results(steps[1:]) if one.job != "health"}
    assert (list(list_outcomes(steps))[1:], worked) == (list(STEPS), {other})
    assert {row["outcome"] for row in read_maintain(filled)} == {"skipped_busy", "applied"}


def test_asked_to_end_maintain_does_no_further_step(filled: Store) -> None:
    def run_step(requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
        results = attempt_jobs(requests, keep)
        if requests[0].job == "prune":
            pause(filled, "maintain", clock=lambda: NOW, is_cancelling=True)
        return results

    steps = run_maintain(ask(filled), run_step)
    assert list(list_outcomes(steps)) == ["sweep", "prune", "maintain"]
    assert judge_results(list_results(steps)) == "failed"
    (row,) = read_maintain(filled)
    assert (row["outcome"], row["code"]) == ("failed", "cancelled")
    assert row["applied"] == steps[0].results[0].end.applied
    assert list_outcomes(run_maintain(ask(filled))) == {"maintain": "skipped_busy"}


def test_lost_lease_ends_maintain_before_its_next_step(filled: Store) -> None:
    def run_step(requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
        with filled.write() as writer:
            owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
            late = NOW + timedelta(seconds=301)
            acquire_lease(writer, owner, "maintain", holder="other", clock=late)
        return attempt_jobs(requests, keep)

    steps = run_maintain(ask(filled), run_step)
    assert [step.outcome for step in steps] == ["applied", "failed"]
    assert steps[-1].results[0].end.code == "lease_lost"


def test_long_step_keeps_the_lease_of_maintain(filled: Store) -> None:
    """R12: a batch that ends 150 seconds after the last sign of life is one."""
    seconds = [0]

    def run_step(_requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
        for second in (150, 300, 450):
            seconds[0] = second
            keep(1)
        (live,) = run_maintain(ask(filled, clock=clock))
        return list(live.results)

    def clock() -> datetime:
        return NOW + timedelta(seconds=seconds[0])

    steps = run_maintain(ask(filled, clock=clock), run_step)
    assert {step.outcome for step in steps} == {"skipped_busy"}


def test_store_that_is_locked_between_two_steps_ends_nothing(filled: Store) -> None:
    """R19: the step that finds it locked is skipped, and maintain goes on."""

    def run_step(requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
        if requests[0].job != "prune":
            return attempt_jobs(requests, keep)
        with start_child("hold_store", filled.path, "write") as other:
            assert other.hear() == "held"
            keep(1)
            return attempt_jobs(requests, keep)

    ticks = count(0, 120)
    asked = ask(filled, lock_wait_s=0.5, clock=lambda: NOW + timedelta(seconds=next(ticks)))
    outcomes = list_outcomes(run_maintain(asked, run_step))
    assert outcomes["prune"] == "skipped_busy"
    assert (list(outcomes), outcomes["health"]) == (list(STEPS), "applied")


def test_killed_maintain_does_not_cover_its_slot(filled: Store) -> None:
    class Killed(BaseException):
        pass

    def run_step(_requests: Sequence[JobRequest], _keep: OnBatch) -> list[RunResult]:
        raise Killed

    with pytest.raises(Killed):
        run_maintain(ask(filled), run_step)
    (row,) = read_maintain(filled)
    assert (row["outcome"], row["code"]) == ("failed", "cancelled")
    assert "skipped_busy" not in list_outcomes(run_maintain(ask(filled))).values()


def scheduled(store: Store, hour: int, **asked: Any) -> JobRequest:  # noqa: ANN401 - likewise
    """Ask for the run of a slot, eight hours late at the latest."""
    clock = NOW + timedelta(hours=8)
    slot = {"trigger": "schedule", "slot": NOW + timedelta(hours=hour), "clock": lambda: clock}
    return ask(store, **slot, **asked)


def test_missed_slots_end_in_one_run(filled: Store) -> None:
    first = list_outcomes(run_maintain(scheduled(filled, 3)))
    assert "skipped_missed" not in first.values()
    for hour in (0, 1, 2, 4, 5, 6, 7):
        outcomes = list_outcomes(run_maintain(scheduled(filled, hour)))
        assert set(outcomes.values()) == {"skipped_missed"}


def test_refresh_in_between_does_not_stand_for_the_one_after_the_sweep(filled: Store) -> None:
    def refresh_before_sweep(requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
        if requests[0].job == "sweep":
            attempt_job(find_step(scheduled(filled, 0), "refresh"))
        return attempt_jobs(requests, keep)

    outcomes = list_outcomes(run_maintain(scheduled(filled, 0), refresh_before_sweep))
    assert (outcomes["sweep"], outcomes["refresh"]) == ("applied", "applied")


def test_command_line_runs_and_plans_all_steps(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    words = ("--json", "--store", filled.path)
    at = ("--now", NOW.isoformat())
    planned = run_here(*words, "plan", "maintain", *at)
    assert [plan["job"] for plan in planned.value["plans"]] == list(STEPS)
    refused = run_here(*words, "run", "maintain", *at, "--limit", "max_rows=0")
    assert (refused.exit_code, refused.error["type"]) == (1, "plan_refused")
    done = run_here(*words, "run", "maintain", *at, "--limit", "max_fraction=1.0")
    assert (done.exit_code, done.value["outcome"]) == (0, "applied")
    assert [step["job"] for step in done.value["steps"]] == list(STEPS)
    assert [run["job"] for run in done.value["runs"]] == list(STEPS)
    assert done.value["steps"][0]["applied"] == done.value["runs"][0]["applied"] > 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--plan", "plan_0"), id="a-plan-is-of-one-job"),
        pytest.param(("--set", "sweep.cold=1"), id="unknown-field"),
        pytest.param(("--set", "sweeps.ttl=false"), id="unknown-step"),
    ],
)
def test_command_line_refuses_what_maintain_has_not(words: Sequence[str], filled: Store) -> None:
    answer = run_here("--json", "--store", filled.path, "run", "maintain", *words)
    assert answer.exit_code in {1, 2}
    assert answer.error["message"]
