"""What is known about the health of a store, as figures: one set of queries for every reader.

Counts, sums and instants only; nothing here says whether a figure is good or bad, and nothing
is text of a memory. The history of the figures is the table `health`. Source:
spec/maintenance.md R29-R32; DESIGN 3.3, 7.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "health")

# A row of the table `health`. A figure has a number or, such as an outcome, a label.
FIGURE_SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("taken_at", pa.timestamp("us", tz="UTC")),
        ("namespace_id", pa.int32()),
        ("subject", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("label", pa.string()),
        ("threshold", pa.float64()),
    ]
)

Record = dict[str, Any]
History = Literal["runs", "decisions", "pairs", "health"]


class Breach(NamedTuple):
    """A figure that a health run found on the wrong side of its threshold."""

    run_id: str
    name: str
    value: float
    threshold: float


def count_states(reader: StoreReader, *, now: datetime) -> dict[int, dict[str, int]]:
    """Count the memories of each namespace by lifecycle: disjoint, and they add up to `total`."""
    return _by_namespace(reader.records(_SQL["count_states"], {"now": now}))


def count_index(reader: StoreReader) -> dict[int, Record]:
    """Count what the index of each namespace serves, lacks, retries and has given up."""
    return _by_namespace(reader.records(_SQL["count_index"]))


def count_ahead(reader: StoreReader, *, now: datetime) -> dict[int, int]:
    """Count the memories of each namespace with a stored instant after `now`."""
    return dict(reader.rows(_SQL["count_ahead"], {"now": now}))


def count_uncompared(reader: StoreReader) -> dict[int, int]:
    """Count the active memories of each namespace that no consolidation has looked at."""
    return dict(reader.rows(_SQL["count_uncompared"]))


def count_duplicates(reader: StoreReader) -> dict[int, dict[str, int]]:
    """Count the duplicates that the last consolidation of a namespace found and left."""
    return _by_namespace(reader.records(_SQL["count_duplicates"]))


def read_costs(
    reader: StoreReader, *, since: datetime, namespace_id: int | None = None
) -> dict[str, int]:
    """Add up what the refreshes since then embedded, reused and left alone."""
    params = {"since": since, "namespace_id": namespace_id}
    return dict(reader.records(_SQL["read_costs"], params)[0])


def read_jobs(reader: StoreReader, *, clock: datetime) -> dict[str, Record]:
    """Read how the runs of each job went that ever ran or was scheduled.

    Returns:
        By job: counters of the current epochs, last_* of the latest run, has_dead_run, and since
        when a run by schedule is waited for (waited_since; None: it is not scheduled).
    """
    rows = reader.records(_SQL["read_jobs"], {"clock": clock})
    return {row.pop("job"): row for row in rows}


def add_figures(writer: StoreWriter, figures: pa.Table) -> int:
    """Add the figures (FIGURE_SCHEMA) of one snapshot to the history."""
    return writer.insert(_SQL["insert_figures"], figures)


def delete_old_figures(writer: StoreWriter, *, before: datetime) -> int:
    """Delete the snapshots of before that instant; 0: there is none, and nothing was written."""
    params = {"before": before}
    if not writer.rows(_SQL["count_old_figures"], params)[0][0]:
        return 0
    return writer.execute(_SQL["delete_old_figures"], params)


def read_sizes_before(reader: StoreReader, *, before: datetime) -> dict[str, float]:
    """Read how large the files were in the last snapshot that is that old; empty: there is none."""
    return dict(reader.rows(_SQL["read_sizes_before"], {"before": before}))


def list_breaches(reader: StoreReader, run_ids: Sequence[str]) -> list[Breach]:
    """List the thresholds that runs of health found broken."""
    rows = reader.rows(_SQL["list_breaches"], {"run_ids": list(run_ids)})
    return [Breach(*row) for row in rows]


def export_memories(reader: StoreReader, namespace_id: int) -> pa.Table:
    """Read the facts about the memories of a namespace by id, without anything that they say."""
    return reader.table(_SQL["export_memories"], {"namespace_id": namespace_id})


def export_history(reader: StoreReader, kind: History, *, since: datetime) -> pa.Table:
    """Read a history, oldest first; of decisions and pairs only those of plans since then."""
    params = {"since": since} if kind in {"decisions", "pairs"} else {}
    return reader.table(_SQL[f"export_{kind}"], params)


def _by_namespace(rows: list[Record]) -> dict[int, Record]:
    return {row.pop("namespace_id"): row for row in rows}
