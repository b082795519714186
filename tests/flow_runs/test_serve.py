"""`memtend serve` as people use it: server, schedules and forms of one store, until a signal."""

import signal
import socket
from contextlib import suppress
from datetime import datetime
from importlib.resources import as_file, files
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from helpers.cli import run_here
from helpers.serving import Served, run_serve, serve

from deployments.catalogue import CATALOGUE
from deployments.serve_state import ServeState
from storage import Store
from storage.runs import list_runs
from tasks.importing import import_file
from tasks.schedules import begins_on

pytestmark = [pytest.mark.slow, pytest.mark.prefect]


@pytest.fixture
def filled(store: Store, now: datetime) -> Store:
    with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
        import_file(store, sample, clock=now)
    return store


def order_sweep(served: Served, now: datetime) -> str:
    limits = {"max_rows": 5}
    flow_run_id = served.order("sweep", mode="apply", limits=limits, now=now.isoformat())
    served.wait(flow_run_id, "Suspended")
    return flow_run_id


def answer(served: Served, flow_run_id: str, decision: str) -> None:
    said = {"run_input": {"decision": decision, "approver": "pat"}}
    assert served.call("POST", f"/flow_runs/{flow_run_id}/resume", said)["status"] == "ACCEPT"


def test_store_is_served_until_a_signal_and_nothing_is_left(filled: Store) -> None:
    with serve(filled.path) as served:
        assert {one["deployment"] for one in served.told["deployments"]} >= {"sweep/local"}
        found = served.deployments()
        assert {one["name"] for one in found.values()} == {"local"}
        on = {job for job, one in found.items() if any(s["active"] for s in one["schedules"])}
        assert on == {row.job for row in CATALOGUE if row.cron and begins_on(row.job, {})}
        with urlopen(served.url, timeout=30) as page:  # noqa: S310 - our own server
            assert b"<html" in page.read().lower()
        exit_code, said = run_serve(filled.path)
        assert (exit_code, said["error"]["type"]) == (3, "already_served")
        assert served.url in said["error"]["message"]
        with pytest.raises(HTTPError, match="409"):
            served.order("sweep", limits={"max_fraction": 7})
        assert served.stop(signal.SIGTERM) == 0
    assert ServeState(filled.path).find_server() is None
    with pytest.raises(URLError):
        urlopen(f"{served.url}/api/health", timeout=5)  # noqa: S310 - our own server
    assert run_here("--store", filled.path, "init").exit_code == 0
    assert run_here("--store", filled.path, "doctor").exit_code == 0


def test_port_that_is_taken_is_told_at_once(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        exit_code, said = run_serve(store.path, port=port)
    assert exit_code == 2
    assert f"127.0.0.1:{port}" in said["error"]["message"]
    assert ServeState(store.path).find_server() is None


def test_operators_choices_and_waiting_runs_survive_restarts(filled: Store, now: datetime) -> None:
    with serve(filled.path) as served:
        for job, is_on in (("maintain", False), ("prune", True)):
            one = served.deployments()[job]
            path = f"/deployments/{one['id']}/schedules/{one['schedules'][0]['id']}"
            with suppress(ValueError):  # it answers with nothing
                served.call("PATCH", path, {"active": is_on})
        waiting = order_sweep(served, now)
        assert served.stop(signal.SIGINT) == 0
    with serve(filled.path, MEMTEND_SCHEDULED_MODE="apply") as served:
        found = served.deployments()
        told = {one["deployment"].split("/")[0]: one["is_on"] for one in served.told["deployments"]}
        assert (told["maintain"], told["prune"], told["sweep"]) == (False, True, False)
        scheduled = {job: one["schedules"][0] for job, one in found.items() if one["schedules"]}
        assert all(one["active"] == told[job] for job, one in scheduled.items())
        assert found["sweep"]["schedules"][0]["parameters"]["mode"] == "apply"
        assert found["sweep"]["parameters"]["mode"] == "plan"
        answer(served, waiting, "approve")
        served.wait(waiting, "applied")
    with filled.read() as reader:
        assert [run["outcome"] for run in list_runs(reader, limit=9)] == ["applied", "refused"]


def test_killed_serve_leaves_a_server_that_the_next_one_finds(filled: Store) -> None:
    with serve(filled.path) as killed:
        killed.process.kill()
        killed.process.wait()
    with serve(filled.path) as served:
        assert served.url == killed.url
        assert served.stop(signal.SIGTERM) == 0
    assert ServeState(filled.path).find_server() is None


def test_plan_that_nobody_decides_about_ends_refused(filled: Store, now: datetime) -> None:
    with serve(filled.path, MEMTEND_APPROVAL_TIMEOUT_S="10") as served:
        waiting = order_sweep(served, now)
        state = served.wait(waiting, "refused", "Failed")["state"]
        assert (state["type"], state["name"]) == ("FAILED", "refused")
        events = served.call(
            "POST", "/events/filter", {"filter": {"event": {"prefix": ["memtend."]}}}
        )["events"]
    assert [one["event"] for one in events] == ["memtend.sweep.refused"]
    assert events[0]["payload"]["found"] == 13
    with filled.read() as reader:
        assert [run["outcome"] for run in list_runs(reader, limit=9)] == ["refused"]
