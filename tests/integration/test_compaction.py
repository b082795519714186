"""A compacted database holds the same, is smaller, and is still the file of its store's history."""

import os
from pathlib import Path
from typing import Any

import pytest
from helpers.children import start_child
from helpers.janitor import done_in, lease_janitor, make_world, sweep, take_trace
from helpers.rows import NOW
from helpers.runs import dump_tables

from storage import Store, StoreReader, open_store
from storage.compaction import COPY_FILE, compact_database, find_leftovers, read_space
from storage.errors import StorageError, StoreBusyError
from storage.gateway import DATABASE_FILE
from storage.history import read_history_of_store
from storage.leases import Lease, acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from tasks.janitor import JanitorPolicy

FILL = """
INSERT INTO memory_terms
SELECT 1, (hash(i) % 9007199254740991)::BIGINT, nextval('text_numbers') FROM range(1200000) AS r(i)
"""
EXTRAS = """
COMMENT ON TABLE memories IS 'what agents remember';
COMMENT ON COLUMN memories.content IS 'it''s text';
COMMENT ON VIEW run_history IS 'what ran';
CREATE INDEX of_runs ON runs (job);
CREATE TABLE notes (note TEXT DEFAULT 'none', UNIQUE (note));
INSERT INTO notes VALUES ('kept'), (NULL);
"""
CONSTRAINTS = """
SELECT table_name, constraint_type, constraint_text FROM duckdb_constraints() ORDER BY ALL
"""
COLUMNS = """
SELECT table_name, column_name, column_default, is_nullable, data_type, comment
FROM duckdb_columns() WHERE NOT internal ORDER BY ALL
"""
VIEWS = "SELECT view_name, comment, sql FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
TABLES = "SELECT table_name, comment, index_count FROM duckdb_tables() ORDER BY ALL"
MACROS = """
SELECT function_name, parameters, macro_definition
FROM duckdb_functions() WHERE NOT internal ORDER BY ALL
"""
SEQUENCES = "SELECT sequence_name, last_value, increment_by FROM duckdb_sequences()"
VERSION = "SELECT tags FROM duckdb_databases() WHERE NOT internal"
SCHEMA = (CONSTRAINTS, COLUMNS, VIEWS, TABLES, MACROS, SEQUENCES, VERSION)


@pytest.fixture
def lease(store: Store) -> Lease:
    with store.write() as writer:
        writer.run_script(EXTRAS)
        writer.execute(FILL)
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        lease = acquire_lease(writer, target, "janitor", holder="j", clock=NOW)
    with store.write() as writer:
        writer.execute("DELETE FROM memory_terms WHERE text_number > 1000")
    return lease


def describe(reader: StoreReader) -> list[list[tuple[Any, ...]]]:
    state = "SELECT * FROM memory_state($now)"
    return [*map(reader.rows, SCHEMA), reader.rows(state, {"now": NOW})]


def dump_all(store: Store) -> tuple[object, object]:
    with store.read() as reader:
        schema = describe(reader)
    tables = dump_tables(store)
    tables["store_meta"] = [row for row in tables["store_meta"] if row[0] != "database_inode"]
    return schema, tables


def test_compaction_keeps_everything_and_gives_space_back(store: Store, lease: Lease) -> None:
    before, file = dump_all(store), store.path / DATABASE_FILE
    size, inode = file.stat().st_size, file.stat().st_ino
    with store.read() as reader:
        assert read_space(reader).free_ratio > 0.3
    saved = compact_database(store, lease, clock=NOW)
    assert dump_all(store) == before
    assert file.stat().st_size == size - saved < size * 0.7
    assert file.stat().st_ino != inode
    assert file.stat().st_mode & 0o777 == 0o600
    with store.read() as reader:
        assert read_space(reader).free_bytes == 0
    assert find_leftovers(store.path) == []


def test_compacted_database_still_refuses_what_it_refused(store: Store, lease: Lease) -> None:
    compact_database(store, lease, clock=NOW)
    doubled = "INSERT INTO store_meta SELECT name, value FROM store_meta"
    unknown = "UPDATE partitions SET phase = 'nowhere'"
    with store.write() as writer:
        writer.execute(
            "INSERT INTO partitions SELECT 'P', 1, '', '{}', '', '', 1, 'empty', NULL, NULL, 0, 0"
        )
    for statement in (doubled, unknown):
        with pytest.raises(StorageError, match="ConstraintException"), store.write() as writer:
            writer.execute(statement)


def test_numbers_of_texts_go_on_where_they_were(store: Store, lease: Lease) -> None:
    compact_database(store, lease, clock=NOW)
    with store.write() as writer:
        assert writer.rows("SELECT nextval('text_numbers')") == [(1_200_001,)]


def test_store_keeps_its_history_and_the_next_refresh_proves_it_by_the_token(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path / "store")
    with world.store.read() as reader:
        before = read_history_of_store(reader, world.store.path)
    compact_database(world.store, lease_janitor(world), clock=world.clock())
    with world.store.read() as reader:
        assert read_history_of_store(reader, world.store.path) == before
    assert before.is_current
    world.do_advance(300)
    assert world.do_run()["reason"] == "token_match"


def test_compacted_copy_of_a_store_begins_its_own_history(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    with world.store.read() as reader:
        before = read_history_of_store(reader, world.store.path)
    world.do_copy_store()
    compact_database(world.store, lease_janitor(world), clock=world.clock())
    with world.store.read() as reader:
        after = read_history_of_store(reader, world.store.path)
    assert after.past_uuids == (before.store_uuid,)


def test_store_without_vectors_is_compacted_too(store: Store, lease: Lease) -> None:
    compact_database(store, lease, clock=NOW)
    with store.read() as reader:
        assert read_history_of_store(reader, store.path).is_current


def test_database_with_a_left_over_log_is_compacted_with_what_is_in_it(
    store: Store, lease: Lease
) -> None:
    """PLATFORM D51: a process that was killed left its last commit in the log."""
    with start_child("commit_and_die", store.path) as child:
        assert child.hear_all() == ["committed"]
    assert (store.path / f"{DATABASE_FILE}.wal").stat().st_size
    compact_database(store, lease, clock=NOW)
    assert not (store.path / f"{DATABASE_FILE}.wal").exists()
    with open_store(store.path).read() as reader:
        assert reader.rows("SELECT value FROM store_meta WHERE name = 'last'") == [("commit",)]


def test_compaction_waits_for_a_reader_and_gives_up_in_time(store: Store, lease: Lease) -> None:
    before = (store.path / DATABASE_FILE).stat().st_ino
    impatient = Store(store.path, lock_wait_s=0.2)
    with start_child("hold_store", store.path, "read") as child:
        assert child.hear() == "held"
        with pytest.raises(StoreBusyError):
            compact_database(impatient, lease, clock=NOW)
    assert (store.path / DATABASE_FILE).stat().st_ino == before


def test_copy_that_cannot_be_made_leaves_the_old_file(store: Store, lease: Lease) -> None:
    before = dump_all(store)

    def spoil(step: str) -> None:
        if step == "detached":
            os.truncate(store.path / COPY_FILE, 5_000)

    with pytest.raises(StorageError):
        compact_database(store, lease, clock=NOW, on_step=spoil)
    assert dump_all(store) == before
    assert find_leftovers(store.path) == []


def test_compaction_in_a_session_is_refused(store: Store, lease: Lease) -> None:
    with store.session(), pytest.raises(RuntimeError, match="session"):
        compact_database(store, lease, clock=NOW)


def test_janitor_compacts_only_where_it_pays(tmp_path: Path) -> None:
    world = make_world(tmp_path / "store")
    with world.store.write() as writer:
        writer.execute(FILL)
    with world.store.write() as writer:
        writer.execute("DELETE FROM memory_terms WHERE term_hash <> 0")
    assert done_in(sweep(world)) == {}, "less than 16 MiB are free"
    policy = JanitorPolicy(compact_min_free_mib=1)
    report = sweep(world, policy)
    assert done_in(report) == {"database": 1}
    assert report.after is not None
    assert report.after.database_bytes < report.before.database_bytes * 0.7
    before = take_trace(world).inode
    assert done_in(sweep(world, policy)) == {}
    assert take_trace(world).inode == before
