"""Erase memories of the default namespace and kill itself at a step of it.

Says "ready", waits for the end of stdin, then says each step; at the named one the process is gone.
At last it says the outcome. Arguments: the store's directory, the step ("" for none) and the ids.
"""

import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from storage import open_store
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from tasks.erasing.job import perform_erase
from tasks.erasing.selection import ErasePolicy
from tasks.requests import JobRequest

directory, kill_at, *ids = sys.argv[1:]
NOW = datetime(2026, 9, 30, tzinfo=UTC)
ticks = count()
store = open_store(directory)


def say(name: str) -> None:
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()


def on_step(name: str) -> None:
    say(name.partition(" ")[0])
    if kill_at and name.startswith(kill_at):
        os.kill(os.getpid(), signal.SIGKILL)


request = JobRequest(
    store=Path(directory),
    job="erase",
    policy=ErasePolicy(ids=tuple(ids)),
    now=NOW,
    clock=lambda: NOW + timedelta(milliseconds=next(ticks)),
    new_run_id=lambda: "run-child",
    mode="apply",
    namespace=DEFAULT_NAMESPACE,
)
with store.write() as writer:
    target = ensure_namespace(writer, DEFAULT_NAMESPACE)
    lease = acquire_lease(writer, target, "erase", holder="run-child", clock=NOW)
say("ready")
sys.stdin.read()
done = perform_erase(request, target, lease, on_step=on_step)
say(str(done.end.outcome))
