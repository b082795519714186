"""Imports as processes: a killed one leaves nothing, and the zone of the machine is no matter."""

import fcntl
import os
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest
from helpers.cli import run_here, run_process, start_process
from helpers.imports import record, write_lines
from helpers.runs import dump_tables

from storage import Store, create_store
from storage.lock import LOCK_FILE
from storage.memories import count_memories
from tasks.importing import import_file

LINES = 30_000
ZONE = {"TZ": "America/New_York"}
TIMED = (
    record("naive", created_at="2026-01-01 19:00:47"),
    record("offset", created_at="2026-01-01T19:00:47-05:00"),
    record("old", created_at="2025-01-01 00:00"),
)


def wait_for_writer(store: Store, process: subprocess.Popen[str]) -> None:
    """Wait until a process holds the store's lock exclusively, or has ended."""
    descriptor = os.open(store.path / LOCK_FILE, os.O_RDWR)
    try:
        while process.poll() is None:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(0.01)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)


def count(store: Store, now: datetime) -> Mapping[str, int]:
    with store.read() as reader:
        return count_memories(reader, now=now)


@pytest.mark.slow
def test_killed_import_leaves_nothing_and_the_next_brings_all(
    store: Store, tmp_path: Path, now: datetime
) -> None:
    path = write_lines(tmp_path / "many.jsonl", *(record(f"m{n}") for n in range(LINES)))
    before = dump_tables(store)
    with start_process("import", path, "--store", store.path) as process:
        wait_for_writer(store, process)
        time.sleep(0.2)
        process.kill()
    assert process.returncode == -9
    assert dump_tables(store) == before
    report = import_file(store, path, clock=now)
    assert (report.imported, report.rejects) == (LINES, [])
    assert count(store, now)["active"] == LINES


def test_zone_of_the_machine_changes_no_instant_and_no_plan(
    store: Store, tmp_path: Path, now: datetime
) -> None:
    """C19."""
    path = write_lines(tmp_path / "timed.jsonl", *TIMED)
    there, _ = create_store(tmp_path / "there", clock=now)
    plan = ("plan", "sweep", "--now", "2026-09-30 00:00", "--json", "--store")
    assert (
        run_process("import", path, "--json", "--store", there.path, **ZONE).value["imported"] == 3
    )
    away = run_process(*plan, there.path, **ZONE).value
    run_here("import", path, "--store", store.path)
    assert away == run_here(*plan, store.path).value
    assert dump_tables(there)["memories"] == dump_tables(store)["memories"]
