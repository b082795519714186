"""Numbered forward-only migrations; each runs once, in one transaction with its own record.

A store that is newer than the code, or whose applied scripts have changed, is refused.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files

from storage.errors import MigrationError, SchemaVersionError, StorageError
from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "migrations")
_FILE = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One script: its number, name, text and the SHA-256 of the text."""

    version: int
    name: str
    script: str
    checksum: str


def read_migrations() -> list[Migration]:
    """Read the shipped migrations in order of their numbers."""
    found = []
    for entry in files("storage").joinpath("migrations").iterdir():
        match = _FILE.match(entry.name)
        if match:
            script = entry.read_text(encoding="utf-8")
            checksum = hashlib.sha256(script.encode()).hexdigest()
            found.append(Migration(int(match[1]), match[2], script, checksum))
    return sorted(found, key=lambda migration: migration.version)


def apply_migrations(
    writer: StoreWriter, migrations: list[Migration], *, clock: datetime
) -> list[Migration]:
    """Apply what the store lacks and return it.

    Raises:
        SchemaVersionError: The store is newer than the last of `migrations`.
        MigrationError: A script failed, or an applied one has another checksum now.
    """
    writer.run_script(_SQL["create_schema_migrations"])
    applied = dict(writer.rows(_SQL["read_schema_migrations"]))
    newest, supported = max(applied, default=0), migrations[-1].version
    if newest > supported:
        raise SchemaVersionError(found=newest, supported=supported)
    pending = []
    for migration in migrations:
        if migration.version not in applied:
            _run_script(writer, migration)
            params = {"version": migration.version, "name": migration.name}
            params |= {"checksum": migration.checksum}
            writer.execute(_SQL["insert_schema_migration"], params | {"clock": clock})
            pending.append(migration)
        elif applied[migration.version] != migration.checksum:
            message = f"migration {migration.version} ({migration.name}) has changed since it ran"
            raise MigrationError(message, version=migration.version)
    return pending


def _run_script(writer: StoreWriter, migration: Migration) -> None:
    try:
        writer.run_script(migration.script)
    except StorageError as error:
        message = f"migration {migration.version} ({migration.name}) failed"
        raise MigrationError(message, version=migration.version, **error.facts) from None


def check_schema(reader: StoreReader) -> None:
    """Refuse a store whose schema is not the one of this code.

    Raises:
        SchemaVersionError: The store is newer or older.
    """
    present = reader.rows(_SQL["has_schema_migrations"])[0][0]
    found = reader.rows(_SQL["read_schema_version"])[0][0] if present else 0
    supported = read_migrations()[-1].version
    if found != supported:
        raise SchemaVersionError(found=found, supported=supported)
