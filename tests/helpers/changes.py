"""What happens between plan and apply: changes by the real operations, and real faults."""

from collections.abc import Sequence
from datetime import datetime

from helpers.edits import annotate_memory, record_use, restore_memory, revise_memory
from helpers.vectors import Json, VectorCase, find_owner, insert_rows

from storage import Store, StoreWriter
from storage.instants import parse_instant
from storage.memories import read_memory
from storage.models import round_to_f32

_ANNOTATED = frozenset({"pinned", "importance", "salience", "expires_at"})
_ERASE = (
    "DELETE FROM memories WHERE namespace_id = $namespace_id AND id = $memory_id",
    "DELETE FROM revisions WHERE namespace_id = $namespace_id AND memory_id = $memory_id",
    "DELETE FROM evidence WHERE namespace_id = $namespace_id AND memory_id = $memory_id",
    "DELETE FROM relations WHERE namespace_id = $namespace_id AND memory_id = $memory_id",
    "DELETE FROM access_events WHERE namespace_id = $namespace_id AND memory_id = $memory_id",
)
_FAULTS = """
CREATE TABLE faulty_rows (memory_id TEXT);
CREATE TABLE touched_rows (memory_id TEXT);
CREATE TRIGGER fail_update AFTER UPDATE ON memories
REFERENCING OLD TABLE AS before FOR EACH STATEMENT
INSERT INTO touched_rows
SELECT CASE WHEN id IN (SELECT memory_id FROM faulty_rows) THEN error('fault') ELSE id END
FROM before;
CREATE TRIGGER fail_delete AFTER DELETE ON memories
REFERENCING OLD TABLE AS before FOR EACH STATEMENT
INSERT INTO touched_rows
SELECT CASE WHEN id IN (SELECT memory_id FROM faulty_rows) THEN error('fault') ELSE id END
FROM before;
"""
_HEAL = "DROP TRIGGER fail_update ON memories; DROP TRIGGER fail_delete ON memories"
_ADD_FAULT = "INSERT INTO faulty_rows VALUES ($memory_id)"


def change_memories(store: Store, case: VectorCase) -> None:
    """Make the changes that a case names."""
    with store.write() as writer:
        owner = find_owner(writer).namespace_id
        for change in case.inputs["changes_after_plan"]:
            if "insert" in change:
                insert_rows(writer, [case.defaults["row"] | change["insert"]])
            elif change.get("deleted"):
                erase_memory(writer, owner, change["id"])
            else:
                _set_fields(writer, owner, change["id"], change["set"], at=case.now)
                _check_fields(read_memory(writer, owner, change["id"]), change["set"])


def erase_memory(writer: StoreWriter, namespace_id: int, memory_id: str) -> None:
    """Take a memory away without a trace in any plan, receipt or neighbour."""
    for statement in _ERASE:
        writer.execute(statement, {"namespace_id": namespace_id, "memory_id": memory_id})


def fail_writes_of(store: Store, memory_ids: Sequence[str]) -> None:
    """Let every statement fail that updates or deletes one of these memories."""
    if not memory_ids:
        return
    with store.write() as writer:
        writer.run_script(_FAULTS)
        for memory_id in memory_ids:
            writer.execute(_ADD_FAULT, {"memory_id": memory_id})


def heal_writes(store: Store) -> None:
    """End the faults of `fail_writes_of`."""
    with store.write() as writer:
        writer.run_script(_HEAL)


def _set_fields(
    writer: StoreWriter, namespace_id: int, memory_id: str, fields: Json, *, at: datetime
) -> None:
    """Reach the given fields by the one operation that moves them."""
    if annotated := fields.keys() & _ANNOTATED:
        changes: Json = {name: _read_field(name, fields[name]) for name in sorted(annotated)}
        annotate_memory(writer, namespace_id, memory_id, at=at, **changes)
    elif "restored_at" in fields:
        restore_memory(writer, namespace_id, memory_id, at=parse_instant(fields["restored_at"]))
    elif "content_at" in fields:
        content, revised_at = f"revision 2 of {memory_id}", parse_instant(fields["content_at"])
        revise_memory(writer, namespace_id, memory_id, content=content, at=revised_at)
    else:
        used_at = parse_instant(fields["last_accessed_at"])
        for number in range(fields["access_count"]):
            event_id = f"{memory_id}:use:{number}"
            record_use(writer, namespace_id, memory_id, event_id=event_id, at=used_at)


def _read_field(name: str, value: object) -> object:
    return parse_instant(value) if name.endswith("_at") and value is not None else value


def _check_fields(row: Json, fields: Json) -> None:
    for name, value in fields.items():
        wanted = _read_field(name, value)
        assert row[name] == (round_to_f32(wanted) if isinstance(wanted, float) else wanted), name
