"""What holds in a store at every moment of an apply, however the process ended."""

import json
from dataclasses import dataclass
from datetime import datetime

from helpers.runs import read_rows
from helpers.vectors import Json

from storage import Store, open_store
from storage.models import DEFAULT_NAMESPACE, RelationKind

# The store of a plan has one namespace with memories.
_SEQUENCE = "SELECT max(sequence) FROM namespaces"
_DECISIONS = """
SELECT memory_id, reason, current_revision, outcome, run_id
FROM decisions
WHERE plan_id = $plan_id
ORDER BY ALL
"""
_RECEIPTS = """
SELECT memory_id, run_id, action, revision, revisions_deleted, carried, applied_at
FROM apply_receipts
WHERE plan_id = $plan_id
ORDER BY ALL
"""
_REVISIONS = "SELECT memory_id, revision, status FROM revisions ORDER BY memory_id, revision"
_RELATIONS = """
SELECT memory_id, kind, target_id, since_revision, until_revision
FROM relations
ORDER BY ALL
"""
_OWNERS = """
SELECT memory_id FROM revisions
UNION
SELECT memory_id FROM evidence
UNION
SELECT memory_id FROM relations
UNION
SELECT memory_id FROM access_events
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that an apply of one plan may change, as one consistent read."""

    memories: dict[str, Json]
    history: dict[str, dict[int, str]]
    relations: list[Json]
    owners: set[str]
    decisions: list[Json]
    receipts: list[Json]
    sequence: int

    def ended_steps(self, memory_id: str) -> int:
        """Count the revision steps that ended edges have cost a memory."""
        steps = {
            edge["until_revision"] for edge in self.relations if edge["memory_id"] == memory_id
        }
        return len(steps - {None})


def take_snapshot(store: Store, plan_id: str) -> Snapshot:
    """Open the store anew and read it."""
    memories = read_rows(open_store(store.path), DEFAULT_NAMESPACE)
    history: dict[str, dict[int, str]] = {memory_id: {} for memory_id in memories}
    with store.read() as reader:
        for memory_id, revision, status in reader.rows(_REVISIONS):
            history.setdefault(memory_id, {})[revision] = status
        return Snapshot(
            memories=memories,
            history=history,
            relations=reader.records(_RELATIONS),
            owners={row[0] for row in reader.rows(_OWNERS)},
            decisions=reader.records(_DECISIONS, {"plan_id": plan_id}),
            receipts=reader.records(_RECEIPTS, {"plan_id": plan_id}),
            sequence=reader.rows(_SEQUENCE)[0][0],
        )


def assert_nothing_is_half_done(before: Snapshot, after: Snapshot, now: datetime) -> None:
    """Check that each memory is untouched or fully done, and that all records say the same."""
    _assert_receipts_equal_outcomes(after)
    assert after.sequence - before.sequence == len({r["applied_at"] for r in after.receipts})
    gone = _find_gone(after)
    assert after.memories.keys() == before.memories.keys() - gone
    assert after.owners <= after.memories.keys()
    tombstoned = {
        receipt["memory_id"]: receipt["revision"]
        for receipt in after.receipts
        if receipt["action"] == "tombstone"
    }
    for memory_id, row in after.memories.items():
        assert list(after.history[memory_id]) == list(range(1, row["revision"]))
        if memory_id in tombstoned:
            _assert_tombstoned(after, memory_id, tombstoned[memory_id], now)
        else:
            _assert_untouched(before.memories[memory_id], row, steps=after.ended_steps(memory_id))
    _assert_both_ends(after)
    _assert_pending_decisions_know_their_revision(after)


def _assert_receipts_equal_outcomes(after: Snapshot) -> None:
    decisions = [decision for decision in after.decisions if decision["reason"] != "carried"]
    assert {decision["outcome"] for decision in decisions} <= {None, "applied"}
    applied = {(d["memory_id"], d["run_id"]) for d in decisions if d["outcome"] == "applied"}
    receipts = {receipt["memory_id"]: receipt["run_id"] for receipt in after.receipts}
    assert len(receipts) == len(after.receipts)
    assert set(receipts.items()) == applied


def _find_gone(after: Snapshot) -> set[str]:
    removals = [receipt for receipt in after.receipts if receipt["action"] != "tombstone"]
    carried = [
        memory_id for receipt in removals for memory_id in json.loads(receipt["carried"] or "[]")
    ]
    assert len(carried) == len(set(carried))
    return {receipt["memory_id"] for receipt in removals} | set(carried)


def _assert_tombstoned(after: Snapshot, memory_id: str, revision: int, now: datetime) -> None:
    """Check a tombstone: its state, and the replaced state in its history."""
    row = after.memories[memory_id]
    assert (row["status"], row["tombstoned_at"]) == ("tombstoned", now)
    assert row["revision"] >= revision
    assert after.history[memory_id][revision - 1] == "active"


def _assert_untouched(before: Json, row: Json, *, steps: int) -> None:
    """A memory that is not done changed only where an edge to it ended: one step a transaction."""
    moved = {"revision", "revision_kind", "updated_at"}
    assert row["revision"] == before["revision"] + steps
    same = row.keys() - (moved if steps else set())
    assert {name: row[name] for name in same} == {name: before[name] for name in same}


def _assert_both_ends(after: Snapshot) -> None:
    edges = {
        (edge["memory_id"], RelationKind(edge["kind"]), edge["target_id"])
        for edge in after.relations
        if edge["until_revision"] is None
    }
    assert {(target, kind.inverse, source) for source, kind, target in edges} == edges


def _assert_pending_decisions_know_their_revision(after: Snapshot) -> None:
    pending = [one for one in after.decisions if one["memory_id"] in after.memories]
    for decision in pending:
        if decision["outcome"] is None:
            row = after.memories[decision["memory_id"]]
            assert decision["current_revision"] == row["revision"]
