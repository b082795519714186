"""The control row of a store: whether runs may start, and what a person has switched off.

The phase of Prefect's schedules is not asked: this one holds whatever the server does. Source:
spec/maintenance.md R30, R40, R41, R44.
"""

import json
from collections.abc import Mapping
from datetime import datetime

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements
from storage.run_errors import Phase

_SQL = read_statements("storage.sql", "control")
_EVERY_JOB = "*"


def read_phase(reader: StoreReader, job: str | None = None) -> Phase:
    """Read the phase of the store, or of one job in it; closing and closed come before paused."""
    phase: Phase = _read_row(reader)[0]
    paused = set(list_paused(reader))
    if phase == "running" and paused & {_EVERY_JOB, job}:
        return "disabled"
    return phase


def list_paused(reader: StoreReader) -> list[str]:
    """List the jobs that are paused; `*` is every job."""
    return [job for (job,) in reader.rows(_SQL["list_paused"])]


def set_pause(writer: StoreWriter, job: str | None, *, is_paused: bool, clock: datetime) -> bool:
    """Pause a job, or let it go on; None is every job. False: it was so already."""
    name = job or _EVERY_JOB
    if (name in list_paused(writer)) == is_paused:
        return False
    params = {"job": name, "is_paused": is_paused, "clock": clock}
    if writer.execute(_SQL["set_pause"], params) == 0:
        writer.execute(_SQL["insert_pause"], params)
    return True


def read_close_report(reader: StoreReader) -> dict[str, int] | None:
    """Read what the close came to that ended and has not been undone since."""
    phase, report = _read_row(reader)
    return dict(json.loads(report)) if phase == "closed" and report else None


def set_closing(writer: StoreWriter, *, clock: datetime) -> None:
    """Let no run start any more."""
    _set_phase(writer, "closing", None, clock)


def set_closed(writer: StoreWriter, report: Mapping[str, int], *, clock: datetime) -> None:
    """Note that the store is closed, and how that went."""
    _set_phase(writer, "closed", json.dumps(report), clock)


def set_running(writer: StoreWriter, *, clock: datetime) -> bool:
    """Open a closed store again; what a person paused stays paused. False: it was open."""
    if _read_row(writer)[0] == "running":
        return False
    _set_phase(writer, "running", None, clock)
    return True


def _read_row(reader: StoreReader) -> tuple[Phase, str | None]:
    rows = reader.rows(_SQL["read_control"])
    return rows[0] if rows else ("running", None)


def _set_phase(writer: StoreWriter, phase: Phase, report: str | None, clock: datetime) -> None:
    params = {"phase": phase, "report": report, "clock": clock}
    if writer.execute(_SQL["set_control"], params) == 0:
        writer.execute(_SQL["insert_control"], params)
