"""What one flow run left in the store: a run that goes on after a wait reads its own rows again."""

import json
from dataclasses import dataclass

from storage.gateway import StoreReader
from storage.models import Namespace
from storage.queries import read_statements
from storage.runs import RunEnd

_SQL = read_statements("storage.sql", "flow_runs")


@dataclass(frozen=True, slots=True)
class EndedRun:
    """One run of a flow run, as its row tells."""

    run_id: str
    job: str
    namespace: Namespace
    end: RunEnd


def list_runs_of(reader: StoreReader, flow_run_id: str) -> list[EndedRun]:
    """List the runs of one flow run that have ended, oldest first."""
    rows = reader.records(_SQL["list_runs_of"], {"flow_run_id": flow_run_id})
    return [_decode(row) for row in rows]


def _decode(row: dict[str, object]) -> EndedRun:
    parts = {part: row.pop(part) for part in ("tenant", "principal", "scope")}
    for name in ("skipped", "figures"):
        row[name] = json.loads(str(row[name] or "{}"))
    run_id, job = str(row.pop("run_id")), str(row.pop("job"))
    end = RunEnd(**row)  # type: ignore[arg-type] # the columns are its fields
    return EndedRun(run_id, job, Namespace.model_validate(parts), end)
