"""Every door that writes a content writes its key, and a copy is found by it."""

from datetime import datetime, timedelta
from pathlib import Path

from helpers.rows import NOW, memory_table
from helpers.sets import SPACE, change, change_set, create, evidence

from storage import Store, StoreReader, StoreWriter, create_store
from storage.admission import Candidate, admit_records
from storage.fingerprints import find_copies, key_missing, key_of, write_keys
from storage.memories import insert_memories
from storage.migrate import apply_migrations, read_migrations
from storage.models import MemoryRecord
from storage.namespaces import ensure_namespace
from storage.repository import apply_change_set

TEXT = "Run careful ledger archive checks after parser changes."
OTHER = "Keep disk ledger store for local projects."
LOUD = "run, careful: LEDGER archive checks -- after parser changes"


def keys_of(reader: StoreReader) -> dict[str, int | None]:
    return dict(reader.rows("SELECT id, fingerprint_key FROM memories"))


def copies_of(reader: StoreReader, owner: int, content: str) -> list[str]:
    return [copy.memory_id for copy in find_copies(reader, owner, content, now=NOW)]


def insert(writer: StoreWriter, *rows: dict[str, object]) -> None:
    insert_memories(writer, memory_table(*rows))
    write_keys(writer, 1, [(str(row["id"]), str(row["content"])) for row in rows])


def test_change_sets_write_keys(store: Store) -> None:
    operations = [create("a", content=TEXT), create("b", content="short")]
    apply_change_set(store, change_set("k", 0, *operations))
    with store.read() as reader:
        assert keys_of(reader) == {"a": key_of(TEXT), "b": 0}
    proof = [evidence("e://2", 1)]
    revise = change("revise", "a", 1, content=OTHER, mode="correction", evidence=proof)
    apply_change_set(store, change_set("k2", 1, revise))
    with store.write() as writer:
        owner = ensure_namespace(writer, SPACE).namespace_id
        assert copies_of(writer, owner, TEXT) == []
        assert copies_of(writer, owner, OTHER) == ["a"]


def test_imports_write_keys(store: Store, namespace_id: int) -> None:
    records = [MemoryRecord(id=f"m{i}", content=f"{TEXT} {i}") for i in range(9)]
    candidates = [Candidate(i, record, f"d{i}") for i, record in enumerate(records)]
    with store.write() as writer:
        admit_records(writer, namespace_id, candidates, clock=NOW)
        assert keys_of(writer) == {one.id: key_of(one.content) for one in records}


def test_copies_are_visible_ones_the_oldest_first(store: Store) -> None:
    with store.write() as writer:
        insert(
            writer,
            {"id": "young", "content": TEXT},
            {"id": "old", "content": LOUD, "created_at": NOW - timedelta(days=9)},
            {"id": "other", "content": OTHER},
            {"id": "candidate", "content": TEXT, "status": "candidate"},
            {"id": "expired", "content": TEXT, "expires_at": NOW},
        )
        assert copies_of(writer, 1, TEXT) == ["old", "young"]
        assert copies_of(writer, 2, TEXT) == []
        assert copies_of(writer, 1, "ok") == []


def test_equal_key_is_not_enough(store: Store) -> None:
    with store.write() as writer:
        insert(writer, {"id": "a", "content": OTHER})
        writer.execute("UPDATE memories SET fingerprint_key = $key", {"key": key_of(TEXT)})
        assert copies_of(writer, 1, TEXT) == []


def test_keys_of_an_older_schema_are_written_once(store: Store) -> None:
    with store.write() as writer:
        rows = [{"id": f"m{i}", "content": f"{TEXT} {i}"} for i in range(6)]
        insert_memories(writer, memory_table(*rows))
        assert set(keys_of(writer).values()) == {None}
        assert [key_missing(writer), key_missing(writer)] == [6, 0]
        assert keys_of(writer) == {row["id"]: key_of(row["content"]) for row in rows}


def test_migration_of_a_populated_store_writes_keys(
    store: Store, tmp_path: Path, now: datetime
) -> None:
    path = tmp_path / "older"
    path.mkdir()
    older = [each for each in read_migrations() if each.version < 3]
    with Store(path).write() as writer:
        apply_migrations(writer, older, clock=now)
        insert_memories(writer, memory_table({"id": "a", "content": TEXT}))
    migrated, applied = create_store(path, clock=now)
    assert [each.version for each in applied][:1] == [3]
    with migrated.read() as reader, store.read() as other:
        assert keys_of(reader) == {"a": key_of(TEXT)}
        columns = "SELECT column_name FROM duckdb_columns() WHERE table_name = 'merge_sources'"
        assert reader.rows(columns) == other.rows(columns)
