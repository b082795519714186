"""Merges and their undo as transactions: what is compared, what is written, and the receipts.

What a merge makes of its memories is decided by the caller, as staged states; here they are checked
against the graph and written as one change of the namespace. Source: spec/consolidate.md R50, R57.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from storage.applying import ApplyContext
from storage.gateway import StoreReader, StoreWriter
from storage.graph import check_graph
from storage.queries import read_statements
from storage.records import read_records
from storage.repository import commit_states, look_around
from storage.staging import Staged

_SQL = read_statements("storage.sql", "merging")
_OUTCOME_SCHEMA = pa.schema(
    [("position", pa.int64()), ("outcome", pa.string()), ("revision", pa.int64())]
)
_STEP_SCHEMA = pa.schema([("memory_id", pa.string()), ("steps", pa.int64())])


class PendingMerge(NamedTuple):
    """A loser of a plan that its run has not dealt with, compared with what is stored now."""

    position: int
    loser_id: str
    canonical_id: str
    is_same: bool
    is_canonical_same: bool


class Dealt(NamedTuple):
    """What became of a decision; `revision` is the loser's after a merge."""

    position: int
    outcome: str
    revision: int | None = None


@dataclass(slots=True)
class MergeStage:
    """The memories that merges of one transaction touch, each with the states it goes through."""

    memories: dict[str, Staged]

    def find_instant(self, now: datetime) -> datetime:
        """Find when a change can happen: at `now`, but before no memory's latest change."""
        times = (one.current.updated_at for one in self.memories.values())
        return max([now, *(at for at in times if at is not None)])

    def get_changed(self) -> dict[str, Staged]:
        """Give the memories that have more than their stored state, by id."""
        return {name: one for name, one in sorted(self.memories.items()) if one.is_changed}


def list_pending(reader: StoreReader, context: ApplyContext, *, size: int) -> list[PendingMerge]:
    """List the next losers of a plan in the order of apply."""
    params = {**context.owner(), **context.names(), "size": size}
    return [PendingMerge(*row) for row in reader.rows(_SQL["list_pending"], params)]


def read_stage(reader: StoreReader, namespace_id: int, ids: Collection[str]) -> MergeStage:
    """Read memories, and those that they have edges with."""
    records = read_records(reader, namespace_id, sorted(ids))
    targets = {edge.target_id for record in records.values() for edge in record.relations}
    records |= read_records(reader, namespace_id, sorted(targets - records.keys()))
    return MergeStage({name: Staged([record]) for name, record in records.items()})


def commit_stage(
    writer: StoreWriter, namespace_id: int, stage: MergeStage, *, occurred_at: datetime
) -> None:
    """Write what is staged as one change of the namespace.

    Raises:
        InvariantError: An edge has one end, or does not fit the statuses.
        ConflictError: A memory is not at the revision that was read.
    """
    changed = stage.get_changed()
    check_graph(stage.memories, look_around(writer, namespace_id, stage.memories))
    commit_states(writer, namespace_id, changed, occurred_at=occurred_at)


def record_outcomes(
    writer: StoreWriter, context: ApplyContext, dealt: Iterable[Dealt], stage: MergeStage
) -> None:
    """Record what became of decisions, with a receipt for each merged loser.

    Steps that this made of other memories of the plan are no difference: their decisions move.
    """
    rows = [one._asdict() for one in dealt]
    incoming = pa.Table.from_pylist(rows, schema=_OUTCOME_SCHEMA)
    writer.insert(_SQL["insert_receipts"], incoming, _about(context))
    writer.insert(_SQL["record_outcomes"], incoming, context.names())
    steps = [
        {"memory_id": name, "steps": len(one.states) - 1}
        for name, one in stage.get_changed().items()
    ]
    moved = pa.Table.from_pylist(steps, schema=_STEP_SCHEMA)
    for statement in ("move_losers", "move_canonicals"):
        writer.insert(_SQL[statement], moved, {"plan_id": context.plan_id})


def _about(context: ApplyContext) -> Mapping[str, Any]:
    return {**context.owner(), **context.names(), "clock": context.clock}
