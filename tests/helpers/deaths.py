"""Processes of a served store that are killed at their work, and what the server keeps of it."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from helpers.serving import Served

from deployments.serve_state import ServeState
from storage import Store, open_store
from storage.runs import list_runs

_LONGEST_WAIT_S = 240.0
_RECEIPTS = "SELECT count(*) FROM apply_receipts"


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, is_so
        time.sleep(0.2)


def kill_server(store: Store) -> None:
    """Kill the Prefect server that a store started."""
    found = ServeState(store.path).find_server()
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)


def kill_serve(served: Served) -> None:
    """Kill the process that starts runs; its server and its runs live on."""
    served.process.kill()
    served.process.wait()


def kill_run(flow_run_id: str) -> None:
    """Kill the process of a flow run."""
    found = find_run(flow_run_id)
    assert found is not None
    os.kill(found, signal.SIGKILL)


def find_run(flow_run_id: str) -> int | None:
    """Find the process of a flow run by its environment."""
    wanted = f"PREFECT__FLOW_RUN_ID={flow_run_id}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in environ.read_bytes().split(b"\0"):
                return int(environ.parent.name)
    return None


def count_receipts(store: Store) -> int:
    """Count the decisions that were applied so far."""
    # As a writer: a reader hardly gets a turn between the transactions of an apply.
    with open_store(store.path, lock_wait_s=_LONGEST_WAIT_S).write() as writer:
        return int(writer.rows(_RECEIPTS)[0][0])


def wait_for_apply(store: Store, receipts: int) -> None:
    """Wait until the apply of a plan is at work."""
    wait_until(lambda: count_receipts(store) >= receipts)


def count_slots(served: Served, job: str) -> int:
    """Count the slots that the server thinks are taken by runs of a job."""
    slots: int = served.deployments()[job]["global_concurrency_limit"]["active_slots"]
    return slots


def read_outcomes(store: Store, job: str) -> list[str]:
    """Read how the runs of a job ended, the oldest first."""
    with store.read() as reader:
        runs = [run for run in list_runs(reader, limit=99) if run["job"] == job]
    return [run["outcome"] for run in reversed(runs)]
