"""Admit validated records: new ids are inserted, known ids are compared, tombstones hold.

All of it is one transaction of the caller. An edge is stored on both of its ends; a known memory
that gets an edge moves by one revision.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from storage.digests import digest_record, encode_json
from storage.erasure_keys import Said, find_erased
from storage.exporting_ledger import Ledger, attach_ledgers
from storage.gateway import StoreWriter
from storage.memories import (
    EVIDENCE_SCHEMA,
    MEMORY_SCHEMA,
    RELATION_SCHEMA,
    REVISION_SCHEMA,
    insert_evidence,
    insert_memories,
    insert_relations,
    insert_revisions,
)
from storage.models import (
    MAX_METADATA,
    MAX_RELATIONS,
    MAX_VALUE_BYTES,
    Evidence,
    EvidenceKind,
    MemoryRecord,
    Relation,
    RelationKind,
    Status,
    count_relations,
)
from storage.namespaces import step_sequence
from storage.queries import read_statements
from storage.records import (
    evidence_rows,
    memory_row,
    read_record,
    relation_rows,
    revision_rows,
)
from storage.terms import insert_terms, term_rows

_SQL = read_statements("storage.sql", "admission")
_LINK_SCHEMA = pa.schema(
    [("memory_id", pa.string()), ("kind", pa.string()), ("target_id", pa.string())]
)
_DROPPED_KEY = "source.relations"

Verdict = Literal["imported", "unchanged", "suppressed", "rejected"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One validated record with the place it came from and the digest of what the source said.

    `ledger` comes with records that another store has exported.
    """

    ref: str | int
    record: MemoryRecord
    digest: str
    ledger: Ledger | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """What was refused: the record (a line number or a path), the field, the reason."""

    record: str | int
    field: str
    reason: str


@dataclass(slots=True)
class Admitted:
    """What became of the candidates: each counted once; `rejects` also holds dropped edges.

    `suppressed` are tombstones here; `erased` were erased, or say what was.
    """

    imported: int = 0
    unchanged: int = 0
    suppressed: list[str | int] = field(default_factory=list)
    erased: list[str | int] = field(default_factory=list)
    rejected: int = 0
    rejects: list[Reject] = field(default_factory=list)


def admit_records(
    writer: StoreWriter, namespace_id: int, candidates: Sequence[Candidate], *, clock: datetime
) -> Admitted:
    """Admit records into one namespace.

    Source: DESIGN 10.9. A known id with the same digest, or the same state, is unchanged; one that
    is tombstoned here and not in the source is suppressed, and so is what was erased; any other is
    rejected as memory_already_exists. Texts are never merged.
    """
    result = Admitted()
    new = _sort_out(writer, namespace_id, candidates, result)
    new = _without_erased(writer, namespace_id, new, result)
    new = _check_edges(writer, namespace_id, new, result)
    if new:
        _insert(writer, namespace_id, new, clock)
        step_sequence(writer, namespace_id)
    result.imported = len(new)
    return result


def _sort_out(
    writer: StoreWriter, namespace_id: int, candidates: Sequence[Candidate], result: Admitted
) -> list[Candidate]:
    ids = pa.table({"id": pa.array(sorted({one.record.id for one in candidates}), pa.string())})
    rows = writer.table(
        _SQL["find_known"], {"namespace_id": namespace_id}, incoming=ids
    ).to_pylist()
    known = {row["id"]: row for row in rows}
    new: dict[str, Candidate] = {}
    for one in candidates:
        memory_id = one.record.id
        twin = new.get(memory_id)
        if twin is None and memory_id not in known:
            new[memory_id] = one
        elif (twin is not None and twin.digest == one.digest) or (
            twin is None and _is_known(writer, namespace_id, one, known[memory_id])
        ):
            result.unchanged += 1
        elif twin is None and known[memory_id]["status"] == Status.TOMBSTONED:
            result.suppressed.append(one.ref)
        else:
            result.rejected += 1
            result.rejects.append(Reject(one.ref, "id", _explain_known(memory_id, twin)))
    return list(new.values())


def _explain_known(memory_id: str, twin: Candidate | None) -> str:
    said = f"memory_already_exists: {memory_id!r}"
    if twin is not None:
        return f"{said} says something else in record {twin.ref}, which goes first"
    return (
        f"{said} is not the same in the store and stays as it is there; "
        "import this one under another id, or use memtend supersede"
    )


def _without_erased(
    writer: StoreWriter, namespace_id: int, new: list[Candidate], result: Admitted
) -> list[Candidate]:
    """Leave out what was erased, and the edges to it: not even their ids come back."""
    said = [
        Said(one.record.id, (one.record.content, *(each.content for each in one.record.history)))
        for one in new
    ]
    targets = {edge.target_id for one in new for edge in one.record.relations}
    said += [Said(name, ()) for name in targets]
    erased = find_erased(writer, namespace_id, said)
    if not erased:
        return new
    left = []
    for one in new:
        if one.record.id in erased:
            result.erased.append(one.ref)
            continue
        kept = tuple(edge for edge in one.record.relations if edge.target_id not in erased)
        if len(kept) < len(one.record.relations):
            result.rejects.append(Reject(one.ref, "relations", "the target was erased"))
        record = one.record.model_copy(update={"relations": kept})
        left.append(replace(one, record=record))
    return left


def _is_known(
    writer: StoreWriter, namespace_id: int, one: Candidate, known: dict[str, Any]
) -> bool:
    if known["status"] == Status.TOMBSTONED and one.record.status != Status.TOMBSTONED:
        return False  # gone here, alive in the source
    if known["origin_digest"] == one.digest:
        return True
    stored = read_record(writer, namespace_id, one.record.id)
    return stored is not None and digest_record(stored) == digest_record(one.record)


@dataclass(slots=True)
class _Ends:
    """The memories that new edges have as ends: their status, and how many edges they have."""

    statuses: dict[str, str]
    stored: dict[str, int] = field(default_factory=dict)
    added: dict[str, set[Relation]] = field(default_factory=lambda: defaultdict(set))

    def is_full(self, memory_id: str) -> bool:
        added = count_relations(self.added[memory_id])
        return self.stored.get(memory_id, 0) + added > MAX_RELATIONS


def _check_edges(
    writer: StoreWriter, namespace_id: int, new: list[Candidate], result: Admitted
) -> list[Candidate]:
    """Drop edges that cannot stand, report each, and keep them as text in the metadata."""
    ends = _Ends({one.record.id: one.record.status.value for one in new})
    targets = {edge.target_id for one in new for edge in one.record.relations}
    table = pa.table({"id": pa.array(sorted(targets - ends.statuses.keys()), pa.string())})
    found = writer.table(_SQL["find_targets"], {"namespace_id": namespace_id}, incoming=table)
    for row in found.to_pylist():
        ends.statuses[row["id"]] = row["status"]
        ends.stored[row["id"]] = row["edges"]
    checked = []
    for one in new:
        faults = {edge: _fault(one.record, edge, ends) for edge in one.record.relations}
        dropped = [edge for edge, reason in faults.items() if reason]
        for edge in dropped:
            reason = f"{edge.kind.value}: {faults[edge]}"
            result.rejects.append(Reject(one.ref, "relations", reason))
        checked.append(_without_edges(one, dropped) if dropped else one)
    return checked


def _fault(record: MemoryRecord, edge: Relation, ends: _Ends) -> str | None:
    """Say why an edge cannot stand; one that can is counted on both of its ends."""
    if edge.target_id not in ends.statuses:
        return "the target does not exist"
    older = {
        RelationKind.SUPERSEDES: ends.statuses[edge.target_id],
        RelationKind.SUPERSEDED_BY: record.status.value,
    }.get(edge.kind)
    if older is not None and older not in {Status.SUPERSEDED, Status.TOMBSTONED}:
        return "the older memory is not superseded"
    inverse = Relation(kind=edge.kind.inverse, target_id=record.id)
    ends.added[record.id].add(edge)
    ends.added[edge.target_id].add(inverse)
    if ends.is_full(record.id) or ends.is_full(edge.target_id):
        ends.added[record.id].discard(edge)
        ends.added[edge.target_id].discard(inverse)
        return f"more than {MAX_RELATIONS} relations"
    return None


def _without_edges(one: Candidate, dropped: list[Relation]) -> Candidate:
    record = one.record
    text = encode_json([[edge.kind.value, edge.target_id] for edge in dropped])
    metadata = dict(record.metadata)
    if len(text.encode()) <= MAX_VALUE_BYTES and len(metadata) < MAX_METADATA:
        metadata[_DROPPED_KEY] = text
    kept = tuple(edge for edge in record.relations if edge not in dropped)
    changed = record.model_copy(update={"relations": kept, "metadata": metadata})
    return replace(one, record=changed)


def _insert(writer: StoreWriter, namespace_id: int, new: list[Candidate], clock: datetime) -> None:
    records = _with_inverse_edges([_with_origin(one, clock) for one in new])
    digests = {one.record.id: one.digest for one in new}
    memories = [
        memory_row(record, namespace_id, origin_digest=digests[record.id], clock=clock)
        for record in records
    ]
    insert_memories(writer, pa.Table.from_pylist(memories, schema=MEMORY_SCHEMA))
    texts = ((record.id, record.content) for record in records)
    insert_terms(writer, term_rows(texts, namespace_id))
    insert_revisions(writer, _gather(revision_rows, records, namespace_id, REVISION_SCHEMA))
    insert_evidence(writer, _gather(evidence_rows, records, namespace_id, EVIDENCE_SCHEMA))
    insert_relations(writer, _gather(relation_rows, records, namespace_id, RELATION_SCHEMA))
    _link_known(writer, namespace_id, records, clock)
    attach_ledgers(writer, namespace_id, {one.record.id: one.ledger for one in new if one.ledger})


def _gather(
    build: Callable[[MemoryRecord, int], list[dict[str, Any]]],
    records: Iterable[MemoryRecord],
    namespace_id: int,
    schema: pa.Schema,
) -> pa.Table:
    rows = [row for record in records for row in build(record, namespace_id)]
    return pa.Table.from_pylist(rows, schema=schema)


def _with_origin(one: Candidate, clock: datetime) -> MemoryRecord:
    """Give a record without a time or evidence what is known: when and from where it came."""
    created_at = one.record.created_at or clock
    evidence = Evidence(
        uri=f"import:{one.digest}",
        digest=one.digest,
        kind=EvidenceKind.ARTIFACT,
        occurred_at=created_at,
    )
    known = {"created_at": created_at, "evidence": one.record.evidence or (evidence,)}
    return one.record.model_copy(update=known)


def _with_inverse_edges(records: list[MemoryRecord]) -> list[MemoryRecord]:
    wanted: dict[str, list[Relation]] = defaultdict(list)
    for record in records:
        for edge in record.relations:
            inverse = Relation(kind=edge.kind.inverse, target_id=record.id)
            wanted[edge.target_id].append(inverse)
    complete = []
    for record in records:
        edges = tuple(dict.fromkeys([*record.relations, *wanted[record.id]]))
        complete.append(record.model_copy(update={"relations": edges}))
    return complete


def _link_known(
    writer: StoreWriter, namespace_id: int, records: list[MemoryRecord], clock: datetime
) -> None:
    """Give known memories the other ends of new edges."""
    own = {record.id for record in records}
    rows = [
        {"memory_id": edge.target_id, "kind": edge.kind.inverse.value, "target_id": record.id}
        for record in records
        for edge in record.relations
        if edge.target_id not in own
    ]
    if rows:
        links = pa.Table.from_pylist(rows, schema=_LINK_SCHEMA)
        owner = {"namespace_id": namespace_id}
        writer.insert(_SQL["keep_linked"], links, owner)
        writer.insert(_SQL["step_linked"], links, owner | {"clock": clock})
        writer.insert(_SQL["insert_linked"], links, owner)
