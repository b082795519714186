"""Between records (what is imported and exported) and rows (what the tables hold).

Evidence and edges are rows with the revision they hold from; a record lists them per revision.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from storage.digests import encode_json
from storage.gateway import StoreReader
from storage.marks import find_marks
from storage.memories import (
    read_evidence,
    read_memories,
    read_relations,
    read_revisions,
)
from storage.models import (
    Evidence,
    EvidenceKind,
    Kind,
    MemoryRecord,
    MemoryState,
    Origin,
    Relation,
    RelationKind,
    RevisionKind,
    Status,
    order_evidence,
    order_relation,
)

_STATE = ("revision", "content", "confidence", "importance", "salience", "pinned", "expires_at")
_CLOCKS = ("restored_at", "tombstoned_at", "last_accessed_at")


def memory_row(
    record: MemoryRecord, namespace_id: int, *, origin_digest: str | None, clock: datetime
) -> dict[str, Any]:
    """Build the row of `memories`; a record without times was created at `clock`."""
    created_at = record.created_at or clock
    return {
        **_state_row(record),
        "namespace_id": namespace_id,
        "id": record.id,
        "marks": encode_json(find_marks(record.tags, record.metadata)),
        "created_at": created_at,
        "updated_at": record.updated_at or created_at,
        "content_at": record.content_at or created_at,
        **{name: getattr(record, name) for name in _CLOCKS},
        "access_count": record.access_count,
        "origin": record.origin.value,
        "origin_digest": origin_digest,
    }


def revision_rows(record: MemoryRecord, namespace_id: int) -> list[dict[str, Any]]:
    """Build the rows of `revisions` from a record's history."""
    owner = {"namespace_id": namespace_id, "memory_id": record.id}
    created_at = record.created_at
    return [
        {**_state_row(state), **owner, "updated_at": state.updated_at or created_at}
        for state in record.history
    ]


def evidence_rows(record: MemoryRecord, namespace_id: int) -> list[dict[str, Any]]:
    """Build the rows of `evidence`: each uri once, from the first revision that lists it."""
    rows: dict[str, dict[str, Any]] = {}
    for state in _states(record):
        for item in state.evidence:
            if item.uri not in rows:
                rows[item.uri] = {
                    "namespace_id": namespace_id,
                    "memory_id": record.id,
                    "uri": item.uri,
                    "digest": item.digest,
                    "kind": item.kind.value,
                    "occurred_at": item.occurred_at,
                    "since_revision": state.revision,
                }
    return list(rows.values())


def relation_rows(record: MemoryRecord, namespace_id: int) -> list[dict[str, Any]]:
    """Build the rows of `relations`: one for each unbroken span of revisions with an edge."""
    rows: list[dict[str, Any]] = []
    held: dict[tuple[str, str], dict[str, Any]] = {}
    for state in _states(record):
        listed = {(edge.kind.value, edge.target_id) for edge in state.relations}
        for edge in sorted(held.keys() - listed):
            held.pop(edge)["until_revision"] = state.revision
        for kind, target_id in sorted(listed - held.keys()):
            row = {
                "namespace_id": namespace_id,
                "memory_id": record.id,
                "kind": kind,
                "target_id": target_id,
                "since_revision": state.revision,
                "until_revision": None,
            }
            held[kind, target_id] = row
            rows.append(row)
    return rows


def read_record(reader: StoreReader, namespace_id: int, memory_id: str) -> MemoryRecord | None:
    """Read the current state of a memory as a record, without its history."""
    return read_records(reader, namespace_id, [memory_id]).get(memory_id)


def read_records(
    reader: StoreReader, namespace_id: int, ids: Iterable[str]
) -> dict[str, MemoryRecord]:
    """Read the current states of the memories that exist, by id, in one page.

    Stored rows are taken as they are: they were validated when they were written.
    """
    names = list(ids)
    rows = read_memories(reader, namespace_id, names)
    if not rows:
        return {}
    evidence = _by_memory(read_evidence(reader, namespace_id, names))
    edges = _by_memory(read_relations(reader, namespace_id, names))
    return {
        row["id"]: MemoryRecord.model_construct(
            **_state_values(row, evidence[row["id"]], edges[row["id"]]),
            id=row["id"],
            namespace=None,
            **{name: row[name] for name in ("created_at", "content_at", *_CLOCKS)},
            access_count=row["access_count"],
            origin=Origin(row["origin"]),
            history=(),
        )
        for row in rows
    }


def read_history(reader: StoreReader, namespace_id: int, memory_id: str) -> tuple[MemoryState, ...]:
    """Read the earlier states of a memory, oldest first, as they were."""
    evidence = read_evidence(reader, namespace_id, [memory_id])
    edges = read_relations(reader, namespace_id, [memory_id])
    states = []
    for row in read_revisions(reader, namespace_id, memory_id):
        decoded = {name: json.loads(row[name]) for name in ("tags", "metadata")}
        values = _state_values({**row, **decoded}, evidence, edges)
        states.append(MemoryState.model_construct(**values))
    return tuple(states)


def _state_values(
    row: Mapping[str, Any],
    evidence: Iterable[Mapping[str, Any]],
    edges: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """Give the fields of a state: the evidence and edges that hold at its revision."""
    revision = row["revision"]
    items = [
        Evidence.model_construct(
            uri=item["uri"],
            digest=item["digest"],
            kind=EvidenceKind(item["kind"]),
            occurred_at=item["occurred_at"],
        )
        for item in evidence
        if item["since_revision"] <= revision
    ]
    held = [
        Relation.model_construct(kind=RelationKind(edge["kind"]), target_id=edge["target_id"])
        for edge in edges
        if edge["since_revision"] <= revision
        and (edge["until_revision"] is None or revision < edge["until_revision"])
    ]
    return {
        **{name: row[name] for name in (*_STATE, "updated_at")},
        "revision_kind": RevisionKind(row["revision_kind"]),
        "kind": Kind(row["kind"]),
        "status": Status(row["status"]),
        "tags": tuple(row["tags"]),
        "metadata": row["metadata"],
        "evidence": tuple(sorted(items, key=order_evidence)),
        "relations": tuple(sorted(held, key=order_relation)),
    }


def _by_memory(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["memory_id"]].append(row)
    return found


def _states(record: MemoryRecord) -> Iterator[MemoryState]:
    yield from record.history
    yield record


def _state_row(state: MemoryState) -> dict[str, Any]:
    return {
        **{name: getattr(state, name) for name in _STATE},
        "revision_kind": state.revision_kind.value,
        "kind": state.kind.value,
        "status": state.status.value,
        "tags": encode_json(list(state.tags)),
        "metadata": encode_json(dict(state.metadata)),
    }
