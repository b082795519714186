"""The maintain flow: a task run a step, with the outcome as its state; approval after the last."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from importlib.resources import as_file, files
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from helpers.children import start_child
from helpers.deployed_runs import execute, order_run, resume
from helpers.prefect_runs import read_kept
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import StateType
from prefect.exceptions import PrefectHTTPStatusError
from prefect.states import Scheduled

from storage import Store
from storage.runs import list_runs
from tasks.importing import import_file
from tasks.maintaining import STEPS
from tasks.rules.slots import Interval
from tasks.schedules import activate_intervals

CONTENTS = "SELECT content FROM memories"
pytestmark = [pytest.mark.slow, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def filled(store: Store, now: datetime, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
        import_file(store, sample, clock=now)
    return store


def read_steps(flow_run_id: UUID) -> dict[str, str]:
    """Read the names of the task runs and of their states."""
    one = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    with get_client(sync_client=True) as client:
        found = client.read_task_runs(flow_run_filter=one)
    return {run.name.rpartition("-")[0]: str(run.state and run.state.name) for run in found}


def test_each_step_is_a_task_run_with_its_outcome(filled: Store, now: datetime) -> None:
    limits = {"max_rows": 5}
    ordered = order_run(
        "maintain",
        filled.path,
        mode="apply",
        approval="refuse",
        limits=limits,
        now=now.isoformat(),
    )
    state = execute(ordered.id)
    assert (state.type, state.name) == (StateType.FAILED, "refused")
    kept = read_kept(state)
    assert len(kept.task_runs) == len(STEPS)
    steps = read_steps(ordered.id)
    assert (steps["sweep"], steps["refresh"], steps["health"]) == ("refused", "applied", "applied")
    (summary,) = (text for text in kept.artifacts if text.startswith("## maintain, apply, manual"))
    assert [line.split(" | ")[0] for line in summary.splitlines()[4:]] == [f"| {s}" for s in STEPS]
    with filled.read() as reader:
        contents = [row[0] for row in reader.rows(CONTENTS)]
        runs = list_runs(reader, limit=9)
    assert Counter(run["job"] for run in runs) == Counter(["maintain", *STEPS])
    assert not [text for text in contents if text in kept.texts()]


def test_plans_over_a_limit_are_asked_about_after_the_last_step(
    filled: Store, now: datetime
) -> None:
    form = {"mode": "apply", "limits": {"max_rows": 5}, "now": now.isoformat()}
    ordered = order_run("maintain", filled.path, **form)
    assert execute(ordered.id).name == "Suspended"
    assert read_steps(ordered.id)["health"] == "applied"
    state_name = "Suspended"
    while state_name == "Suspended":
        resume(ordered.id, decision="approve", approver="pat")
        state_name = str(execute(ordered.id).name)
    assert state_name == "applied"
    with filled.read() as reader:
        runs = list_runs(reader, limit=20)
    outcomes = Counter((run["job"], run["outcome"]) for run in runs)
    assert outcomes["sweep", "refused"] == outcomes["sweep", "applied"] == 1
    assert outcomes["refresh", "applied"] == 1
    assert runs[0]["job"] == "maintain"
    assert outcomes["maintain", "refused"] == outcomes["maintain", "applied"] == 1


def test_run_that_was_killed_between_two_steps_does_all_of_them_again(
    filled: Store, now: datetime
) -> None:
    """R17: what its first steps had done is no reason to leave the others out."""
    form = {"mode": "apply", "limits": {"max_rows": 5}, "now": now.isoformat()}
    ordered = order_run("maintain", filled.path, **form)
    assert execute(ordered.id).name == "Suspended"
    with filled.write() as writer:
        writer.execute("UPDATE runs SET outcome = 'abandoned' WHERE job = 'maintain'")
        writer.execute("DELETE FROM runs WHERE job = 'health'")
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(ordered.id, Scheduled(), force=True)
    assert execute(ordered.id).name == "Suspended"
    with filled.read() as reader:
        counts = Counter(run["job"] for run in list_runs(reader, limit=20))
    assert (counts["health"], counts["maintain"], counts["refresh"]) == (1, 2, 2)


def test_scheduled_run_whose_slot_is_covered_ends_skipped(filled: Store, now: datetime) -> None:
    ordered = order_run("maintain_store", filled.path, now=now.isoformat())
    assert execute(ordered.id).name == "applied"
    again = order_run("maintain_store", filled.path, now=now.isoformat())
    assert execute(again.id).name == "planned"
    slot = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    late = order_run("maintain_store", filled.path, trigger="schedule", slot=slot)
    assert execute(late.id).name == "skipped_missed"


def test_scheduled_run_is_judged_by_the_chosen_schedule(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5 and R6: before the first full interval, and the second of one local date."""
    slot = datetime.now(UTC) - timedelta(hours=1)
    timings = {"prune": Interval(86_400)}
    activate_intervals(filled, timings, clock=slot - timedelta(seconds=1))
    monkeypatch.setenv("MEMTEND_SCHEDULES", '{"prune": {"interval_s": 86400}}')
    form = {"trigger": "schedule", "mode": "plan"}
    assert execute(order_run("prune", filled.path, **form).id).name == "skipped_missed"
    berlin = '{"prune": {"cron": "30 2 * * *", "zone": "Europe/Berlin"}}'
    monkeypatch.setenv("MEMTEND_SCHEDULES", berlin)
    assert execute(order_run("prune", filled.path, **form).id).name != "skipped_missed"
    with filled.read() as reader:
        codes = [run["code"] for run in list_runs(reader, limit=2)]
        days = reader.rows("SELECT slot_day FROM runs WHERE code IS NULL")
    assert codes == [None, "first_interval"]
    assert days == [(datetime.now(ZoneInfo("Europe/Berlin")).date().isoformat(),)]


def test_wrong_setting_is_refused_by_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """E2."""
    monkeypatch.setenv("MEMTEND_LEASE_TTL_S", "5-secret")
    state = execute(order_run("sweep", store.path).id)
    assert state.name == "refused"
    assert str(state.message).startswith("MEMTEND_LEASE_TTL_S: ")
    assert "secret" not in str(state.message)


def test_locked_store_ends_skipped_and_not_failed(
    filled: Store, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V39."""
    monkeypatch.setenv("MEMTEND_LOCK_WAIT_S", "0.05")
    ordered = order_run("sweep", filled.path, now=now.isoformat())
    with start_child("hold_store", filled.path, "write") as other:
        assert other.hear() == "held"
        state = execute(ordered.id)
    assert (state.type, state.name) == (StateType.COMPLETED, "skipped_busy")


@pytest.mark.parametrize("job", ["sweep", "maintain"])
def test_outcome_stands_where_prefect_takes_no_artifact(
    filled: Store, now: datetime, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V77."""

    def refuse(**_given: object) -> None:
        raise OSError

    monkeypatch.setattr("tasks.artifacts.create_markdown_artifact", refuse)
    form = {"mode": "apply", "limits": {"max_fraction": 1.0}, "now": now.isoformat()}
    assert execute(order_run(job, filled.path, **form).id).name == "applied"


def test_restore_gives_back_what_a_run_took(filled: Store, now: datetime) -> None:
    form = {"mode": "apply", "limits": {"max_fraction": 1.0}, "now": now.isoformat()}
    assert execute(order_run("sweep", filled.path, **form).id).name == "applied"
    with filled.read() as reader:
        run_id = list_runs(reader, limit=1)[0]["run_id"]
    policy = {"run_id": run_id}
    preview = order_run("restore", filled.path, policy=policy, now=now.isoformat())
    assert execute(preview.id).name == "planned"
    done = order_run("restore", filled.path, policy=policy, mode="apply", now=now.isoformat())
    assert execute(done.id).name == "applied"


def test_restore_of_nothing_is_refused_before_there_is_a_run(filled: Store) -> None:
    with pytest.raises(PrefectHTTPStatusError, match="409"):
        order_run("restore", filled.path)


def test_consolidation_is_planned(filled: Store, now: datetime) -> None:
    ordered = order_run("consolidate", filled.path, now=now.isoformat())
    assert execute(ordered.id).name in {"planned", "unchanged"}
