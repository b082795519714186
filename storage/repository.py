"""The one place where hosts change memories: atomic, replayable change sets.

A set is one transaction under the exclusive lock: replay lookup, operations on staged copies,
graph checks, then history rows and compare-and-swap per memory. Source: spec/repository.md R11-R25.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from storage.change_digest import digest_change_set
from storage.change_errors import IdempotencyConflictError
from storage.changes import AddRelation, ChangeSet, Create, RemoveRelation, parse_change_set
from storage.erasure_keys import refuse_all_erased
from storage.errors import ConflictError
from storage.gateway import Store, StoreReader, StoreWriter
from storage.graph import Surroundings, check_graph
from storage.memories import (
    EVIDENCE_SCHEMA,
    MEMORY_SCHEMA,
    RELATION_SCHEMA,
    REVISION_SCHEMA,
    insert_evidence,
    insert_memories,
    insert_relations,
    insert_revisions,
    read_status_before,
)
from storage.models import MemoryRecord, Namespace
from storage.namespaces import ensure_namespace, find_namespace, step_sequence
from storage.queries import read_statements
from storage.records import (
    evidence_rows,
    memory_row,
    read_history,
    read_record,
    read_records,
    relation_rows,
    revision_rows,
)
from storage.staging import Stage, Staged, run_operations
from storage.terms import insert_terms, term_rows

_SQL = read_statements("storage.sql", "repository")
_SWAP_SCHEMA = MEMORY_SCHEMA.append(pa.field("expected_revision", pa.int64()))


@dataclass(frozen=True, slots=True)
class Changed:
    """One memory of a change set's result; `record` is None once it was purged or erased."""

    memory_id: str
    revision: int
    record: MemoryRecord | None


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What a change set made: the memories sorted by id, and the namespace's sequence after it."""

    sequence: int
    replayed: bool
    memories: tuple[Changed, ...]


def apply_change_set(store: Store, values: Mapping[str, Any]) -> ChangeResult:
    """Apply a change set, or give its first result again.

    Args:
        store: The store; no lock may be held.
        values: {idempotency_key, namespace, occurred_at, operations} as in spec/repository.md R11.

    Raises:
        AdmissionError: Malformed, or times that do not fit.
        LimitExceededError: Over a limit.
        ConflictError: A key with other input, or a revision that is not the expected one.
        MaintenanceError: Any other refusal of spec/repository.md 4.4; nothing was stored.
    """
    change_set = parse_change_set(values)
    with store.write() as writer:
        return commit_change_set(writer, change_set)


def commit_change_set(writer: StoreWriter, change_set: ChangeSet) -> ChangeResult:
    """Apply a parsed change set in the open transaction."""
    owner = ensure_namespace(writer, change_set.namespace).namespace_id
    digest, _ = digest_change_set(change_set)
    known = _find_result(writer, owner, change_set.idempotency_key, digest)
    if isinstance(known, ChangeResult):
        return known
    sequence = known + 1
    stage = _load(writer, owner, change_set)
    run_operations(change_set, stage)
    check_graph(stage.memories, look_around(writer, owner, stage.memories))
    changed = {name: one for name, one in sorted(stage.memories.items()) if one.is_changed}
    commit_states(writer, owner, changed, occurred_at=change_set.occurred_at)
    results = [[name, one.current.revision] for name, one in changed.items()]
    writer.execute(
        _SQL["insert_change_set"],
        {
            "namespace_id": owner,
            "key": change_set.idempotency_key,
            "digest": digest,
            "sequence": sequence,
            "results": json.dumps(results, ensure_ascii=False),
            "occurred_at": change_set.occurred_at,
        },
    )
    memories = tuple(
        Changed(name, one.current.revision, one.current) for name, one in changed.items()
    )
    return ChangeResult(sequence, replayed=False, memories=memories)


def commit_states(
    writer: StoreWriter, namespace_id: int, changed: Mapping[str, Staged], *, occurred_at: datetime
) -> None:
    """Write staged memories as one change of their namespace: each state but the last is history.

    The caller has checked the states and what holds between them.

    Args:
        writer: The open transaction that the memories were read in.
        namespace_id: Whose memories they are.
        changed: By id; all of them new or changed.
        occurred_at: When it happened.

    Raises:
        ConflictError: A memory is not at the revision that was read.
        ErasedMemoryError: A new one was erased, or says what was.
    """
    _write(writer, namespace_id, changed, occurred_at)
    step_sequence(writer, namespace_id)


def read_state(
    reader: StoreReader, namespace: Namespace, memory_id: str, revision: int | None = None
) -> MemoryRecord | None:
    """Read a memory as it is, or as it was at a revision; None if that is not there."""
    owner = find_namespace(reader, namespace)
    if owner is None:
        return None
    return _read_at(reader, owner.namespace_id, memory_id, revision)


def _read_at(
    reader: StoreReader, namespace_id: int, memory_id: str, revision: int | None
) -> MemoryRecord | None:
    record = read_record(reader, namespace_id, memory_id)
    if record is None or revision in {None, record.revision}:
        return record
    for state in read_history(reader, namespace_id, memory_id):
        if state.revision == revision:
            fields = {name: getattr(state, name) for name in type(state).model_fields}
            return record.model_copy(update=fields)
    return None


def _find_result(
    reader: StoreReader, namespace_id: int, key: str, digest: str
) -> ChangeResult | int:
    """Find what a set made before, or else the namespace's sequence as it is."""
    params = {"namespace_id": namespace_id, "key": key}
    now, stored, sequence, results = reader.rows(_SQL["find_change_set"], params)[0]
    if stored is None:
        return int(now)
    if stored != digest:
        raise IdempotencyConflictError(key)
    memories = tuple(
        Changed(name, revision, _read_at(reader, namespace_id, name, revision))
        for name, revision in json.loads(results)
    )
    return ChangeResult(sequence, replayed=True, memories=memories)


def _load(reader: StoreReader, namespace_id: int, change_set: ChangeSet) -> Stage:
    names: set[str] = set()
    for operation in change_set.operations:
        if isinstance(operation, Create):
            edges = operation.memory.relations
            names |= {operation.memory.id, *(edge.target_id for edge in edges)}
        else:
            names.add(operation.memory_id)
            if isinstance(operation, AddRelation | RemoveRelation):
                names.add(operation.relation.target_id)
    records = read_records(reader, namespace_id, sorted(names))
    staged = {name: Staged([record]) for name, record in records.items()}
    return Stage(
        change_set.occurred_at,
        staged,
        lambda memory_id: read_status_before(reader, namespace_id, memory_id),
    )


def look_around(
    reader: StoreReader, namespace_id: int, memories: Mapping[str, Staged]
) -> Surroundings:
    """Read what changed memories touch and is not among the staged ones."""
    changed = {name: one for name, one in memories.items() if one.is_changed}
    touched = {
        edge.target_id
        for one in changed.values()
        for state in (one.states[0], one.current)
        for edge in state.relations
    } - memories.keys()
    # A memory that the set creates has no edge yet: nothing is read for it.
    known = sorted(name for name, one in changed.items() if not one.is_new)
    return Surroundings(
        dict(_read_about(reader, "find_statuses", namespace_id, sorted(touched))),
        frozenset(_read_about(reader, "find_edges_to", namespace_id, known)),
    )


def _read_about(
    reader: StoreReader, statement: str, namespace_id: int, ids: list[str]
) -> list[tuple[Any, ...]]:
    return reader.rows(_SQL[statement], {"namespace_id": namespace_id, "ids": ids}) if ids else []


def _write(
    writer: StoreWriter, namespace_id: int, changed: Mapping[str, Staged], occurred_at: datetime
) -> None:
    new = [_with_history(one) for one in changed.values() if one.is_new]
    refuse_all_erased(writer, namespace_id, {one.id: one.content for one in new})
    old = [one for one in changed.values() if not one.is_new]
    told = [_with_history(one) for one in old]
    rows = [memory_row(one, namespace_id, origin_digest=None, clock=occurred_at) for one in new]
    insert_memories(writer, pa.Table.from_pylist(rows, schema=MEMORY_SCHEMA))
    history = [row for one in [*new, *told] for row in revision_rows(one, namespace_id)]
    insert_revisions(writer, pa.Table.from_pylist(history, schema=REVISION_SCHEMA))
    first = {one.current.id: one.states[0].revision for one in old}
    evidence = [row for one in [*new, *told] for row in evidence_rows(one, namespace_id)]
    fresh = [row for row in evidence if row["since_revision"] > first.get(row["memory_id"], 0)]
    insert_evidence(writer, pa.Table.from_pylist(fresh, schema=EVIDENCE_SCHEMA))
    _write_edges(writer, [*new, *told], first, namespace_id)
    _swap(writer, namespace_id, old, occurred_at)
    written = [one.current for one in changed.values() if _has_new_text(one)]
    texts = ((record.id, record.content) for record in written)
    insert_terms(writer, term_rows(texts, namespace_id))


def _has_new_text(one: Staged) -> bool:
    return one.is_new or one.states[0].content != one.current.content


def _with_history(one: Staged) -> MemoryRecord:
    return one.current.model_copy(update={"history": tuple(one.states[:-1])})


def _write_edges(
    writer: StoreWriter,
    records: Iterable[MemoryRecord],
    first: Mapping[str, int],
    namespace_id: int,
) -> None:
    fresh, ended = [], []
    for record in records:
        for row in relation_rows(record, namespace_id):
            if row["since_revision"] > first.get(record.id, 0):
                fresh.append(row)
            elif row["until_revision"] is not None:
                ended.append(row)
    if ended:
        writer.insert(_SQL["end_edges"], pa.Table.from_pylist(ended, schema=RELATION_SCHEMA))
    insert_relations(writer, pa.Table.from_pylist(fresh, schema=RELATION_SCHEMA))


def _swap(
    writer: StoreWriter, namespace_id: int, changed: Iterable[Staged], occurred_at: datetime
) -> None:
    """Replace the stored states, each if it is still the one that was read."""
    rows = [
        {
            **memory_row(one.current, namespace_id, origin_digest=None, clock=occurred_at),
            "expected_revision": one.states[0].revision,
        }
        for one in changed
    ]
    if not rows:
        return
    incoming = pa.Table.from_pylist(rows, schema=_SWAP_SCHEMA)
    swapped = writer.insert(_SQL["change_states"], incoming)
    if swapped != len(rows):
        message = f"{len(rows)} memories were to change and {swapped} were as they were read"
        raise ConflictError(message, expected=len(rows), found=swapped)
