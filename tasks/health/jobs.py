"""How each job is: from its runs to one record, and from the records to the state of all work.

Unknown values are None, never 0; no ids, digests or paths. Source: spec/maintenance.md R29-R31;
DESIGN 10.24.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from storage.run_errors import Phase

Record = dict[str, Any]

_EVERY_JOB = "*"
_OVERDUE_GRACE = timedelta(seconds=60)
_COUNTS = (
    "successful_runs",
    "failed_runs",
    "skipped_runs",
    "refused_runs",
    "abandoned_runs",
    "total_affected_items",
)
_LAST = ("last_affected_items", "last_state", "last_error", "failed_rows", "last_started_at")
_INDEX_FIGURES = {
    "coverage": "coverage",
    "failed_rows": "retrying",
    "permanent_rows": "permanent",
    "quarantined_rows": "quarantined",
    "deferred_rows": "deferred",
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job runs by itself: `next_after` gives the slot that follows an instant."""

    next_after: Callable[[datetime], datetime | None]
    interval_s: int | None = None


Schedules = Mapping[str, Schedule]


def describe_jobs(
    names: Sequence[str],
    records: Mapping[str, Record],
    *,
    schedules: Schedules,
    paused: frozenset[str],
    clock: datetime,
) -> dict[str, Record]:
    """Describe each job, those that never ran included.

    Args:
        names: The jobs there are, in the order that people read.
        records: What the store knows of jobs.
        schedules: When jobs run by themselves, as far as the caller knows.
        paused: The jobs that a person has switched off; `*` is every job.
        clock: Wall time.
    """
    ordered = [*names, *sorted(set(records) - set(names))]
    return {
        name: _describe(
            records.get(name, {}),
            schedules.get(name),
            is_paused=not paused.isdisjoint({name, _EVERY_JOB}),
            clock=clock,
        )
        for name in ordered
    }


def _describe(
    record: Record, schedule: Schedule | None, *, is_paused: bool, clock: datetime
) -> Record:
    interval_s = record.get("interval_s") or (schedule.interval_s if schedule else None)
    next_due = None if schedule is None or is_paused else schedule.next_after(clock)
    late = not is_paused and _is_overdue(record.get("waited_since"), interval_s, schedule, clock)
    return {
        "last_outcome": record.get("last_outcome"),
        "last_success": record.get("last_success"),
        "next_due": next_due,
        "interval_s": interval_s,
        "is_paused": is_paused,
        "is_overdue": late,
        "worker_alive": not late and not record.get("has_dead_run", False),
        "run_in_progress": bool(record.get("run_in_progress")),
        **{name: record.get(name) or 0 for name in _COUNTS},
        **{name: record.get(name) for name in _LAST},
        **dict.fromkeys(("coverage", "permanent_rows", "quarantined_rows", "deferred_rows")),
        "backlog": None,
    }


def _is_overdue(
    waited_since: datetime | None,
    interval_s: int | None,
    schedule: Schedule | None,
    clock: datetime,
) -> bool:
    """Tell whether two slots have passed without a run; nobody waits for a job without schedule."""
    if waited_since is None:
        return False
    if interval_s is not None:
        return clock > waited_since + timedelta(seconds=2 * interval_s) + _OVERDUE_GRACE
    first = schedule.next_after(waited_since) if schedule is not None else None
    second = schedule.next_after(first) if schedule is not None and first is not None else None
    return second is not None and clock > second + _OVERDUE_GRACE


def add_index(job: Record, index: Mapping[str, Any]) -> Record:
    """Give the record of the refresh what the index says: rows that failed are still retried."""
    return job | {name: index[figure] for name, figure in _INDEX_FIGURES.items()}


def judge_work(jobs: Mapping[str, Record], phase: Phase) -> Record:
    """Judge all jobs together: a running store is degraded by a job that fails or stands still.

    Rows that are given up are shown and degrade nothing.
    """
    enabled = [job for job in jobs.values() if not job["is_paused"]]
    shown: Phase = "disabled" if phase == "running" and not enabled else phase
    failed = sum(job["last_error"] is not None for job in enabled)
    stalled = sum(not job["worker_alive"] for job in enabled)
    retrying = sum(bool(job["failed_rows"]) for job in enabled)
    is_degraded = shown == "running" and bool(failed or stalled or retrying)
    return {
        "phase": shown,
        "is_degraded": is_degraded,
        "is_healthy": shown != "closing" and not is_degraded,
        "failed_jobs": failed,
        "stalled_jobs": stalled,
        "overdue_jobs": sum(job["is_overdue"] for job in enabled),
    }
