"""`memtend serve` as a real process, and its API as a browser or a script sees it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from helpers.children import ROOT

# Ctrl-C works in it, too, where the tests run in the background and ignore it.
_PROGRAM = """
import signal
from deployments.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
_LONGEST_WAIT_S = 120.0
_UNAVAILABLE = 503
_ENDS = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}


@dataclass(frozen=True, slots=True)
class Served:
    """A process that serves a store."""

    process: subprocess.Popen[str]
    url: str
    told: dict[str, Any]

    def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """Ask the API; a busy server (503) is asked again."""
        data = None if method == "GET" else json.dumps({} if body is None else body).encode()
        headers = {"content-type": "application/json"}
        request = Request(f"{self.url}/api{path}", data, headers, method=method)  # noqa: S310
        deadline = time.monotonic() + _LONGEST_WAIT_S
        while True:
            try:
                with urlopen(request, timeout=30) as answer:  # noqa: S310
                    return json.loads(answer.read() or "null")
            except HTTPError as error:
                if error.code != _UNAVAILABLE or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def deployments(self) -> dict[str, dict[str, Any]]:
        """Give the deployments by job."""
        found = self.call("POST", "/deployments/filter")
        return {one["entrypoint"].rpartition(".")[2]: one for one in found}

    def order(self, job: str, **parameters: object) -> str:
        """Start a run as the form does."""
        return self._create(job, parameters, {})

    def order_for(self, slot: datetime, job: str, **parameters: object) -> str:
        """Schedule a run for an instant, as the scheduler does; it may be long ago."""
        return self._create(job, parameters, {"scheduled_time": slot.isoformat()})

    def _create(self, job: str, parameters: dict[str, object], details: dict[str, str]) -> str:
        state = {"type": "SCHEDULED", "state_details": details}
        made = self.call(
            "POST",
            f"/deployments/{self.deployments()[job]['id']}/create_flow_run",
            {"parameters": parameters, "state": state},
        )
        return str(made["id"])

    def wait(self, flow_run_id: str, *names: str) -> dict[str, Any]:
        """Wait until a run is in one of these states."""
        deadline = time.monotonic() + _LONGEST_WAIT_S
        while True:
            run: dict[str, Any] = self.call("GET", f"/flow_runs/{flow_run_id}")
            if run["state"]["name"] in names:
                return run
            assert time.monotonic() < deadline, run["state"]
            time.sleep(0.3)

    def end(self, flow_run_id: str) -> str:
        """Wait until a run has ended; give the name of its state."""
        deadline = time.monotonic() + _LONGEST_WAIT_S
        while True:
            state = self.call("GET", f"/flow_runs/{flow_run_id}")["state"]
            if state["type"] in _ENDS:
                return str(state["name"])
            assert time.monotonic() < deadline, state
            time.sleep(0.3)

    def stop(self, number: int) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=120)


@contextmanager
def serve(store: Path, **environ: str) -> Iterator[Served]:
    """Serve a store on a free port; it is ended at the end of the block at the latest."""
    with start_serve(store, **environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            told = json.loads(line)
            assert "url" in told, told
            yield Served(process, told["url"], told)
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=60)


def run_serve(store: Path, *, port: int = 0) -> tuple[int, dict[str, Any]]:
    """Serve a store where that is expected to end at once."""
    with start_serve(store, port) as process:
        out, _ = process.communicate(timeout=60)
    return process.returncode, json.loads(out)


def start_serve(store: Path, port: int = 0, /, **environ: str) -> subprocess.Popen[str]:
    """Start to serve a store; the first line that it says is JSON."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")
    }
    words = ["--json", "--store", str(store), "serve", "--port", str(port)]
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM, *words],
        env=inherited | {"PYTHONPATH": str(ROOT), "MEMTEND_EMBEDDER": "hash"} | environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
