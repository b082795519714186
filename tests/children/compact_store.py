"""Compact the database of a store and kill itself at a step of it.

Says "ready", waits for the end of stdin, then says each step; at the named one the process is gone.
Arguments: the store's directory and the step ("" for none).
"""

import os
import signal
import sys
from datetime import UTC, datetime

from storage import open_store
from storage.compaction import compact_database
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace

directory, kill_at = sys.argv[1:]
CLOCK = datetime(2026, 9, 30, tzinfo=UTC)
store = open_store(directory)


def on_step(name: str) -> None:
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()
    if name == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


with store.write() as writer:
    target = ensure_namespace(writer, DEFAULT_NAMESPACE)
    lease = acquire_lease(writer, target, "janitor", holder="child", clock=CLOCK)
on_step("ready")
sys.stdin.read()
compact_database(store, lease, clock=CLOCK, on_step=on_step)
