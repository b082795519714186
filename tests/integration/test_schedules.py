"""When jobs are due: from the shipped schedules, in UTC, and shown by `memtend status`."""

import json
import subprocess
import sys
from datetime import UTC, datetime

import helpers.prefect_home  # noqa: F401 - before prefect
import pytest
from helpers.children import ROOT
from helpers.cli import run_here

from deployments.catalogue import CATALOGUE
from deployments.schedules import find_next, list_crons, list_schedules
from storage import Store
from storage.instants import parse_instant

NIGHT = datetime(2026, 9, 30, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("crons", "after", "expected"),
    [
        pytest.param(["30 1 * * *"], "2026-09-30T01:29:59.999999Z", "2026-09-30T01:30Z", id="day"),
        pytest.param(["30 1 * * *"], "2026-09-30T01:30Z", "2026-10-01T01:30Z", id="strictly-after"),
        pytest.param(["5,35 * * * *"], "2026-09-30T10:05:30Z", "2026-09-30T10:35Z", id="list"),
        pytest.param(["20 * * * *"], "2026-12-31T23:20Z", "2027-01-01T00:20Z", id="year"),
        pytest.param(
            ["20 * * * *", "30 1 * * *"],
            "2026-09-30T01:21Z",
            "2026-09-30T01:30Z",
            id="first-of-two",
        ),
        pytest.param(["0 3 29 2 *"], "2026-03-01T00:00Z", "2028-02-29T03:00Z", id="leap-day"),
    ],
)
def test_next_slot_is_the_first_one_after(crons: list[str], after: str, expected: str) -> None:
    assert find_next(crons, parse_instant(after)) == parse_instant(expected)


def test_schedules_are_those_of_the_catalogue() -> None:
    expected = {row.job: row.cron for row in CATALOGUE if row.cron and row.is_switched_on}
    assert dict(list_crons()) == expected


def test_steps_of_maintain_are_due_with_it() -> None:
    """A schedule that begins switched off tells nothing; a job without one is never due."""
    due = {job: one.next_after(NIGHT) for job, one in list_schedules().items()}
    night = {job: instant.strftime("%H:%M") for job, instant in due.items() if instant is not None}
    assert night == {
        "maintain": "01:30",
        "sweep": "01:30",
        "prune": "01:30",
        "consolidate": "01:30",
        "refresh": "00:20",
        "janitor": "03:50",
        "health": "00:05",
    }


def test_status_does_not_wait_for_prefect(store: Store) -> None:
    run_here("--store", store.path, "init")
    program = (
        "import sys; from deployments.cli import app; "
        f"app(['--store', {str(store.path)!r}, '--json', 'status'], standalone_mode=False); "
        "sys.exit('prefect' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(  # noqa: S603 - our own code
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert json.loads(said.stdout)["jobs"]["sweep"]["next_due"] is not None


def test_status_says_when_jobs_are_due(store: Store) -> None:
    run_here("--store", store.path, "init")
    before = datetime.now(UTC)
    jobs = run_here("--store", store.path, "--json", "status").value["jobs"]
    assert jobs["restore"]["next_due"] is None
    due = {name: parse_instant(job["next_due"]) for name, job in jobs.items() if job["next_due"]}
    assert {"sweep", "prune", "consolidate", "refresh", "janitor", "health"} <= due.keys()
    assert all(before < instant for instant in due.values())
    assert due["sweep"].strftime("%H:%M") == "01:30"


def test_paused_job_is_not_due(store: Store) -> None:
    run_here("--store", store.path, "init")
    run_here("--store", store.path, "pause", "sweep")
    jobs = run_here("--store", store.path, "--json", "status").value["jobs"]
    assert jobs["sweep"]["next_due"] is None
    assert jobs["prune"]["next_due"] is not None
