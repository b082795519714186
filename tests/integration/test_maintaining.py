"""maintain: the steps in their order, each under its own lease, and none stops the next one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from itertools import count
from pathlib import Path
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
from tasks.fleet import read_fleet
from tasks.importing import import_file
from tasks.limits import SafetyLimits
from tasks.maintaining import (
    STEPS,
    MaintainPolicy,
    Step,
    attempt_job,
    find_step,
    judge_results,
    list_results,
    run_maintain,
)
from tasks.report import RunResult
from tasks.requests import JobRequest

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
        assert [run["job"] for run in reversed(list_runs(reader, limit=9))] == list(STEPS)
        assert [row[0] for row in reader.rows(LEASES)] == sorted(STEPS)


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


def test_error_before_the_first_run_is_that_steps_outcome(filled: Store) -> None:
    steps = run_maintain(ask(filled, namespace=Namespace(tenant="n", principal="o", scope="ne")))
    outcomes = list_outcomes(steps)
    assert outcomes.pop("health") == "applied"
    assert set(outcomes.values()) == {"refused"}


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
    def refresh_before_sweep(step: JobRequest) -> list[RunResult]:
        if step.job == "sweep":
            attempt_job(find_step(scheduled(filled, 0), "refresh"))
        return attempt_job(step)

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


def write_fleet(folder: Path, *stores: str) -> Path:
    file = folder / "fleet.toml"
    file.write_text("".join(f"[[stores]]\n{lines}\n" for lines in stores), encoding="utf-8")
    return file


def test_store_that_is_missing_does_not_stop_the_rest_of_a_fleet(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    file = write_fleet(filled.path.parent, 'path = "nowhere"', f'path = "{filled.path.name}"')
    answer = run_here("--json", "run", "maintain", "--fleet", file, "--now", NOW.isoformat())
    assert (answer.exit_code, answer.error["type"]) == (1, "store_not_found")
    nowhere, here = answer.value["stores"]
    assert {step["outcome"] for step in nowhere["steps"]} == {"failed"}
    assert {step["outcome"] for step in here["steps"]} <= {"applied", "unchanged", "refused"}
    said = run_here("run", "maintain", "--fleet", file)
    assert said.out.count("there is no store") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[[stores]]\npath = a b\n", "line 2", id="no-toml"),
        pytest.param("", "fleet.stores: ", id="no-stores"),
        pytest.param("stores = []", "fleet.stores: ", id="empty"),
        pytest.param('[[stores]]\npath = ""', "fleet.stores[1].path: ", id="blank"),
        pytest.param('[[stores]]\npath = "a"\nname = "b"', "fleet.stores[1].name: ", id="unknown"),
        pytest.param(
            '[[stores]]\npath = "a"\n[[stores]]\npath = "b"\nnamespace = "x"',
            "fleet.stores[2].namespace: ",
            id="no-namespace",
        ),
        pytest.param(
            '[[stores]]\npath = "a"\n[[stores]]\npath = "b/../a"\nnamespace = "x/y/z"',
            "fleet.stores[2].path: is listed already",
            id="twice",
        ),
    ],
)
def test_fault_in_a_fleets_file_is_named(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(text, encoding="utf-8")
    answer = run_here("--json", "run", "maintain", "--fleet", file)
    assert answer.exit_code == 1
    assert said in answer.error["message"]


def test_namespaces_of_one_store_may_be_maintained_apart(tmp_path: Path) -> None:
    spaces = [f'path = "a"\nnamespace = "t/p/s{number}"' for number in (1, 2)]
    stores = read_fleet(write_fleet(tmp_path, *spaces)).stores
    assert [one.path for one in stores] == [tmp_path / "a"] * 2
