"""Migrations run once, in order, all or nothing; a store that they did not make is refused."""

from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import pytest
from helpers.rows import memory_table

from storage import Store
from storage.errors import MigrationError, SchemaVersionError, StorageError
from storage.memories import insert_memories, read_memories
from storage.migrate import Migration, apply_migrations, read_migrations

SCHEMA = """
SELECT table_name AS name, sql FROM duckdb_tables()
UNION ALL
SELECT view_name, sql FROM duckdb_views() WHERE NOT internal
UNION ALL
SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal
ORDER BY name
"""
RECORDS = "SELECT version, name, checksum, applied_at FROM schema_migrations ORDER BY version"


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    """Give a store without any schema."""
    return Store(tmp_path)


def migrate(store: Store, migrations: list[Migration], clock: datetime) -> list[Migration]:
    with store.write() as writer:
        return apply_migrations(writer, migrations, clock=clock)


def read_schema(store: Store) -> list[tuple[object, ...]]:
    with store.read() as reader:
        return reader.rows(SCHEMA)


def read_records(store: Store) -> list[tuple[object, ...]]:
    with store.read() as reader:
        return reader.rows(RECORDS)


def next_migration(script: str) -> Migration:
    return Migration(read_migrations()[-1].version + 1, "add_something", script, "checksum")


def test_numbers_are_contiguous_and_unique() -> None:
    numbers = [migration.version for migration in read_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_script_has_a_name_that_is_read() -> None:
    scripts = list(files("storage").joinpath("migrations").iterdir())
    assert len(scripts) == len(read_migrations())


def test_each_migration_is_recorded_with_its_checksum(store: Store, now: datetime) -> None:
    shipped = read_migrations()
    records = [(each.version, each.name, each.checksum, now) for each in shipped]
    assert read_records(store) == records


def test_second_run_is_noop(store: Store, now: datetime) -> None:
    before = read_schema(store), read_records(store)
    assert migrate(store, read_migrations(), now.replace(year=2027)) == []
    assert (read_schema(store), read_records(store)) == before


def test_stepwise_schema_equals_the_fresh_one(empty: Store, store: Store, now: datetime) -> None:
    shipped = read_migrations()
    for last in range(1, len(shipped) + 1):
        assert migrate(empty, shipped[:last], now) == [shipped[last - 1]]
    assert read_schema(empty) == read_schema(store)


def test_populated_first_schema_upgrades_without_loss(empty: Store, now: datetime) -> None:
    shipped = read_migrations()
    addition = next_migration("ALTER TABLE memories ADD COLUMN added TEXT")
    migrate(empty, shipped[:1], now)
    with empty.write() as writer:
        insert_memories(writer, memory_table({"id": "m1"}, {"id": "m2"}))
        before = read_memories(writer, 1, ["m1", "m2"])
    assert migrate(empty, [*shipped, addition], now) == [*shipped[1:], addition]
    with empty.read() as reader:
        assert read_memories(reader, 1, ["m1", "m2"]) == before


def test_changed_checksum_is_refused(store: Store, now: datetime) -> None:
    *others, last = read_migrations()
    changed = replace(last, checksum="another")
    with pytest.raises(MigrationError, match=rf"migration {last.version} .*changed"):
        migrate(store, [*others, changed], now)


def test_changed_checksum_keeps_later_migrations_from_running(store: Store, now: datetime) -> None:
    first, *others = read_migrations()
    changed = replace(first, checksum="another")
    later = next_migration("CREATE TABLE later (a INTEGER)")
    before = read_schema(store)
    with pytest.raises(MigrationError):
        migrate(store, [changed, *others, later], now)
    assert read_schema(store) == before


def test_newer_store_is_refused(store: Store, now: datetime) -> None:
    later = next_migration("CREATE TABLE later (a INTEGER)")
    migrate(store, [*read_migrations(), later], now)
    with pytest.raises(SchemaVersionError, match=f"version {later.version}"):
        migrate(store, read_migrations(), now)


@pytest.mark.parametrize("broken", ["INSERT INTO later VALUES ('no number')", "no SQL at all"])
def test_failing_script_leaves_nothing_behind(store: Store, now: datetime, broken: str) -> None:
    later = next_migration(f"CREATE TABLE later (a INTEGER); {broken}")
    before = read_schema(store), read_records(store)
    with pytest.raises(StorageError):
        migrate(store, [*read_migrations(), later], now)
    assert (read_schema(store), read_records(store)) == before


def test_failing_script_takes_the_migrations_before_it_back(empty: Store, now: datetime) -> None:
    broken = next_migration("INSERT INTO nowhere VALUES (1)")
    with pytest.raises(StorageError):
        migrate(empty, [*read_migrations(), broken], now)
    assert read_schema(empty) == []
