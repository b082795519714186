"""The verbs that operate a store: pause, resume, doctor."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.cli import run_here

from storage import open_store
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.runs import RunStart, begin_run


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    run_here("init", "--store", path)
    return path


def leave_dead_run(path: Path) -> None:
    at = datetime.now(UTC) - timedelta(hours=1)
    with open_store(path).write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        lease = acquire_lease(writer, target, "sweep", holder="dead", clock=at)
        start = RunStart("dead", "sweep", target.namespace_id, "apply", "manual", at, at)
        begin_run(writer, start, lease_fence=lease.fence)


def test_pause_keeps_a_job_from_running_until_it_is_resumed(path: Path) -> None:
    paused = run_here("pause", "sweep", "--store", path, "--json")
    assert paused.value == {
        "control": {"phase": "running", "paused": ["sweep"], "running": 0, "cancelled": 0}
    }
    busy = run_here("run", "sweep", "--store", path, "--json")
    assert (busy.exit_code, busy.run["outcome"]) == (3, "skipped_busy")
    assert (busy.error["type"], busy.error["reason"]) == ("not_running", "disabled")
    assert run_here("run", "prune", "--store", path).exit_code == 0
    assert run_here("resume", "sweep", "--store", path, "--json").value["control"]["paused"] == []
    assert run_here("run", "sweep", "--store", path).exit_code == 0


def test_maintain_is_paused_as_any_job(path: Path) -> None:
    assert run_here("pause", "maintain", "--store", path).exit_code == 0
    answer = run_here("run", "maintain", "--store", path, "--json")
    assert (answer.exit_code, answer.error["reason"]) == (3, "disabled")
    assert [step["job"] for step in answer.value["steps"]] == ["maintain"]
    assert run_here("resume", "maintain", "--store", path).exit_code == 0


def test_pause_of_the_whole_store_says_so(path: Path) -> None:
    said = run_here("pause", "--cancel", "--store", path)
    assert said.out == "store disabled; paused: every job\n"
    assert run_here("run", "janitor", "--store", path).exit_code == 3
    assert run_here("resume", "--store", path).out == "store running; paused: none\n"
    assert run_here("run", "janitor", "--store", path).exit_code == 0


def test_pause_tells_how_many_runs_were_asked_to_end(path: Path) -> None:
    at = datetime.now(UTC)
    with open_store(path).write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        acquire_lease(writer, target, "sweep", holder="alive", clock=at)
    assert "1 runs are at work" in run_here("pause", "sweep", "--store", path).out
    assert "asked 1 of 1" in run_here("pause", "sweep", "--cancel", "--store", path).out


def test_closed_store_says_how_its_runs_ended(path: Path) -> None:
    leave_dead_run(path)
    closed = run_here("pause", "--close", 1, "--store", path, "--json")
    report = {"jobs_joined": 0, "jobs_aborted": 0, "join_failures": 1}
    assert (closed.exit_code, closed.value) == (1, {"close": report})
    busy = run_here("run", "sweep", "--store", path, "--json")
    assert (busy.exit_code, busy.error["reason"]) == (3, "closed")
    assert run_here("resume", "--store", path).out == "store running; paused: none\n"
    assert run_here("pause", "--close", 1, "--store", path).exit_code == 0


@pytest.mark.parametrize("words", [("--close", "31"), ("--close", "0"), ("sweep", "--close", "1")])
def test_close_out_of_bounds_is_refused(path: Path, words: tuple[str, ...]) -> None:
    """V79."""
    before = run_here("doctor", "--store", path, "--json").value
    assert run_here("pause", *words, "--store", path).exit_code in {1, 2}
    assert run_here("doctor", "--store", path, "--json").value == before


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_unknown_job_is_refused(path: Path, verb: str) -> None:
    said = run_here(verb, "sleep", "--store", path, "--json")
    assert (said.exit_code, said.error["field"]) == (1, "job")


def read_checks(path: Path, *words: str) -> tuple[int, dict[str, dict[str, object]]]:
    said = run_here("doctor", *words, "--store", path, "--json")
    checks = {one["name"]: one for one in said.value["checks"]}
    return said.exit_code, {name: one for name, one in checks.items() if one["broken"]}


def test_doctor_of_a_healthy_store_says_so_in_one_line(path: Path) -> None:
    said = run_here("doctor", "--store", path)
    assert (said.exit_code, said.out.count("\n")) == (0, 1)
    assert "0 with something to say" in said.out


def test_doctor_lists_first_and_repairs_when_asked(path: Path) -> None:
    leave_dead_run(path)
    exit_code, broken = read_checks(path)
    assert (exit_code, list(broken)) == (1, ["stale_runs"])
    assert broken["stale_runs"]["repaired"] is None
    assert read_checks(path, "--check") == (exit_code, broken)
    shown = run_here("doctor", "--store", path)
    assert "stale_runs: 1 broken (dead)" in shown.out
    assert "memtend doctor --repair would settle them as abandoned" in shown.out

    exit_code, broken = read_checks(path, "--repair")
    assert (exit_code, broken["stale_runs"]["repaired"]) == (0, 1)
    assert read_checks(path) == (0, {})


def test_doctor_works_while_jobs_are_paused(path: Path) -> None:
    run_here("pause", "--store", path)
    said = run_here("doctor", "--store", path)
    assert said.exit_code == 0
    assert "memtend resume [JOB]" in said.out


def test_server_that_does_not_answer_is_only_noted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    said = run_here("doctor", "--store", path, "--json")
    last = said.value["checks"][-1]
    assert said.exit_code == 0
    assert (last["name"], last["due"], last["advice"]) == ("prefect_server", 1, "memtend serve")
