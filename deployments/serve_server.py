"""A local Prefect server for one store: found or started, waited for, and stopped by its pid.

Nothing of Prefect is imported before the environment is set. What the environment says already
wins: with PREFECT_API_URL that server is used, and left alone at the end.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from deployments.serve_state import KnownServer, ServeState
from storage.errors import AdmissionError, StorageError

_START_S = 120.0
_STOP_S = 15.0
_POLL_S = 0.2
# PLATFORM 13: names, values and reasons.
SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "60",
    "PREFECT_RUNNER_POLL_FREQUENCY": "2",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(90 * 86_400),
}


def set_environment(environ: MutableMapping[str, str], store: Path, state: ServeState) -> None:
    """Set what this process, the server and every run need; a given value stays."""
    environ["MEMTEND_STORE"] = str(store)
    for name, value in {"PREFECT_HOME": str(state.folder.absolute()), **SETTINGS}.items():
        environ.setdefault(name, value)


@contextmanager
def run_server(state: ServeState, *, host: str, port: int) -> Iterator[str]:
    """Give the address of a Prefect server that is ready; end it if this store started it.

    Raises:
        AdmissionError: The port is taken.
        StorageError: The server did not become ready.
    """
    given = os.environ.get("PREFECT_API_URL")
    if given:
        _wait_until_ready(given, None)
        yield given.removesuffix("/api")
        return
    server = state.find_server() or _start(state, host, port)
    try:
        os.environ["PREFECT_API_URL"] = f"{server.url}/api"
        _wait_until_ready(f"{server.url}/api", state)
        yield server.url
    finally:
        _stop(state)


def _start(state: ServeState, host: str, port: int) -> KnownServer:
    port = _check_port(host, port)
    lock = state.lock_server()
    command = [sys.executable, "-m", "prefect", "server", "start"]
    is_open = host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    url = f"http://{'127.0.0.1' if is_open else host}:{port}"
    environ = os.environ | {"PREFECT_API_URL": f"{url}/api"}
    if is_open:  # a browser on another machine asks the host that it got the page from
        environ.setdefault("PREFECT_SERVER_UI_API_URL", "/api")
    try:
        with (state.folder / "server.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [*command, "--host", host, "--port", str(port)],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
            )
    finally:
        os.close(lock)
    server = KnownServer(process.pid, url)
    state.note_server(server)
    return server


def _check_port(host: str, port: int) -> int:
    """Give a port that is free: the wanted one, or any for 0."""
    try:
        with socket.create_server((host, port)) as listening:
            found: int = listening.getsockname()[1]
    except OSError as error:
        raise AdmissionError("--port", f"{host}:{port}: {error.strerror}") from None
    return found


def _wait_until_ready(api_url: str, state: ServeState | None) -> None:
    deadline = time.monotonic() + _START_S
    while not _is_ready(api_url):
        has_ended = state is not None and state.find_server() is None
        if has_ended or time.monotonic() > deadline:
            place = "" if state is None else f"; see {state.folder / 'server.log'}"
            raise StorageError(f"no Prefect server answers at {api_url}{place}")
        time.sleep(_POLL_S)


def _is_ready(api_url: str) -> bool:
    try:
        with urlopen(f"{api_url}/ready", timeout=5) as answer:  # noqa: S310 - an http address
            return bool(answer.status == 200)  # noqa: PLR2004
    except (URLError, OSError):
        return False


def _stop(state: ServeState) -> None:
    """End the server that this store started, by its pid, which its lock vouches for."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _STOP_S
        server = state.find_server()
        if server is None:
            return
        os.kill(server.pid, number)
        while time.monotonic() < deadline and state.find_server() is not None:
            time.sleep(_POLL_S)
