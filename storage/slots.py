"""What is known about the slot of a scheduled run: activation, and the runs that cover it.

Only facts; whether the run is needed is decided elsewhere. Source: spec/maintenance.md R5, R6.
"""

from collections.abc import Sequence
from datetime import datetime

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements
from storage.runs import RunStart

_SQL = read_statements("storage.sql", "slots")


def activate_job(
    writer: StoreWriter, namespace_id: int, job: str, *, interval_s: int, clock: datetime
) -> datetime:
    """Note since when a job runs at an interval, once; another interval begins anew.

    Returns:
        The instant of the activation.
    """
    owner = {"namespace_id": namespace_id, "job": job}
    known = read_activation(writer, namespace_id, job, interval_s=interval_s)
    if known is not None:
        return known
    params = owner | {"interval_s": interval_s, "clock": clock}
    if writer.execute(_SQL["set_activation"], params) == 0:
        writer.execute(_SQL["insert_activation"], params)
    return clock


def end_activations(writer: StoreWriter, *, keep: Sequence[str]) -> int:
    """Forget the activations of all jobs but some; count them."""
    return writer.execute(_SQL["end_activations"], {"jobs": list(keep)})


def read_activation(
    reader: StoreReader, namespace_id: int, job: str, *, interval_s: int
) -> datetime | None:
    """Read since when a job runs at this interval; None: nobody has said."""
    params = {"namespace_id": namespace_id, "job": job, "interval_s": interval_s}
    rows = reader.rows(_SQL["read_activation"], params)
    return rows[0][0] if rows else None


def read_last_settled(reader: StoreReader, start: RunStart) -> datetime | None:
    """Read when the latest settled run began, whoever started it; a retry is not its own rival."""
    rows = reader.rows(_SQL["read_last_settled"], _others(start))
    found: datetime | None = rows[0][0]
    return found


def has_settled_day(reader: StoreReader, start: RunStart) -> bool:
    """Tell whether a scheduled run of the same local date has settled."""
    params = _others(start) | {"slot_day": start.slot_day}
    return bool(reader.rows(_SQL["has_settled_day"], params)[0][0])


def _others(start: RunStart) -> dict[str, object]:
    names = ("namespace_id", "job", "flow_run_id")
    return {name: getattr(start, name) for name in names}
