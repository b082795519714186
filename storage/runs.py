"""Runs: one row per attempt of a job on a namespace, with one final outcome."""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from storage.digests import encode_json
from storage.errors import RunNotFoundError
from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "runs")

Mode = Literal["plan", "apply"]
Trigger = Literal["manual", "schedule"]
Outcome = Literal[
    "applied",
    "planned",
    "unchanged",
    "skipped_busy",
    "skipped_missed",
    "refused",
    "abandoned",
    "partial",
    "failed",
]


@dataclass(frozen=True, slots=True)
class RunStart:
    """What is known when a run begins; `now` is the decision clock, `started_at` wall time.

    `slot` is the planned start of a scheduled run, `slot_day` its local date where that is the key.
    """

    run_id: str
    job: str
    namespace_id: int
    mode: Mode
    trigger: Trigger
    now: datetime
    started_at: datetime
    flow_run_id: str | None = None
    slot: datetime | None = None
    slot_day: str | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended; found = applied + skipped + failed."""

    outcome: Outcome
    plan_id: str | None = None
    code: str | None = None
    error: str | None = None
    found: int = 0
    applied: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    figures: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StaleRun:
    """A run that nobody will end any more."""

    run_id: str
    job: str
    started_at: datetime
    flow_run_id: str | None


@dataclass(frozen=True, slots=True)
class FlowRunTrace:
    """Whether a run of a flow run holds a live lease, and when the last of them was seen."""

    is_alive: bool
    last_seen_at: datetime


def begin_run(writer: StoreWriter, start: RunStart, *, lease_fence: int) -> None:
    """Store the row of a run that holds its lease, and settle what a killed run left."""
    writer.execute(_SQL["insert_run"], _start(start) | _open_end() | {"lease_fence": lease_fence})
    owner = {"namespace_id": start.namespace_id, "job": start.job}
    writer.execute(
        _SQL["abandon_runs"], owner | {"run_id": start.run_id, "clock": start.started_at}
    )


def record_skipped(writer: StoreWriter, start: RunStart, end: RunEnd) -> None:
    """Store the row of a run that never got its lease, or never asked for it."""
    params = _start(start) | _end(end) | {"lease_fence": None, "ended_at": start.started_at}
    writer.execute(_SQL["insert_run"], params)


def note_plan(writer: StoreWriter, run_id: str, plan_id: str) -> None:
    """Note the plan of a running run, so that a killed one still says what it worked on."""
    writer.execute(_SQL["set_run_plan"], {"run_id": run_id, "plan_id": plan_id})


def finish_run(writer: StoreWriter, run_id: str, end: RunEnd, *, clock: datetime) -> None:
    """Write the final outcome of a run, once."""
    writer.execute(_SQL["finish_run"], _end(end) | {"run_id": run_id, "ended_at": clock})


def is_running(reader: StoreReader, run_id: str) -> bool:
    """Tell whether a run has no outcome yet."""
    return bool(reader.rows(_SQL["is_running"], {"run_id": run_id})[0][0])


def list_stale(reader: StoreReader, *, clock: datetime) -> list[StaleRun]:
    """List the runs without an outcome whose lease is no longer theirs, or has run out."""
    return [StaleRun(*row) for row in reader.rows(_SQL["list_stale"], {"clock": clock})]


def abandon_run(writer: StoreWriter, run_id: str, *, clock: datetime) -> bool:
    """Settle a run whose process is gone; False: it has an outcome, or holds a live lease."""
    return writer.execute(_SQL["abandon_run"], {"run_id": run_id, "clock": clock}) == 1


def trace_flow_runs(
    reader: StoreReader, flow_run_ids: list[str], *, clock: datetime
) -> dict[str, FlowRunTrace]:
    """Read what flow runs left in the store; those without a row are absent."""
    rows = reader.rows(_SQL["trace_flow_runs"], {"ids": flow_run_ids, "clock": clock})
    return {name: FlowRunTrace(is_alive, seen_at) for name, is_alive, seen_at in rows}


def list_runs(reader: StoreReader, *, limit: int) -> list[dict[str, Any]]:
    """List runs, newest first."""
    return [_decode(row) for row in reader.records(_SQL["list_runs"], {"limit": limit})]


def read_run(reader: StoreReader, run_id: str) -> dict[str, Any]:
    """Read one run.

    Raises:
        RunNotFoundError: There is no such run.
    """
    rows = reader.records(_SQL["read_run"], {"run_id": run_id})
    if not rows:
        raise RunNotFoundError(run_id)
    return _decode(rows[0])


def read_last_code(reader: StoreReader, namespace_id: int, job: str) -> str | None:
    """Read the code of the last run of a job on a namespace that was more than skipped."""
    params = {"namespace_id": namespace_id, "job": job}
    rows = reader.rows(_SQL["read_last_code"], params)
    return rows[0][0] if rows else None


def count_settled(reader: StoreReader, run_id: str) -> int:
    """Count the killed runs that a run found and settled."""
    return int(reader.rows(_SQL["count_settled"], {"run_id": run_id})[0][0])


def _start(start: RunStart) -> dict[str, object]:
    return asdict(start)


def _end(end: RunEnd) -> dict[str, object]:
    names = ("plan_id", "outcome", "code", "error", "found", "applied", "failed")
    figures = encode_json(end.figures) if end.figures else None
    said = {"skipped": encode_json(end.skipped), "figures": figures}
    return {name: getattr(end, name) for name in names} | said


def _open_end() -> dict[str, object]:
    none = dict.fromkeys(("plan_id", "code", "error", "ended_at", "figures"))
    return none | {"outcome": "running", "found": 0, "applied": 0, "failed": 0, "skipped": "{}"}


def _decode(row: dict[str, Any]) -> dict[str, Any]:
    row["skipped"] = json.loads(row["skipped"])
    row["figures"] = json.loads(row["figures"] or "{}")
    row["namespace"] = {part: row.pop(part) for part in ("tenant", "principal", "scope")}
    return row
