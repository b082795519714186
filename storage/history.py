"""The history of a store's database: a copied or restored file begins another one.

Vectors, pointers and receipts prove something only within one history. Source: spec/refresh.md R10,
DESIGN 10.21: the inode tells, because a copy has another one; the file itself is never opened.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from storage.fresh import new_uuid
from storage.gateway import DATABASE_FILE, StoreReader, StoreWriter
from storage.identities import digest_store_history
from storage.instants import format_instant, parse_instant
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "history")


@dataclass(frozen=True, slots=True)
class History:
    """Which history the database is in; `is_current`: the file is the one that began it."""

    store_uuid: str
    digest: str
    is_current: bool
    past_uuids: tuple[str, ...]
    rebuilds: int


def read_store_uuid(reader: StoreReader) -> str:
    """Read the uuid of the store's history."""
    return str(dict(reader.rows(_SQL["read_meta"]))["store_uuid"])


def read_history_of_store(reader: StoreReader, store_path: Path) -> History:
    """Read the history, and whether the database file is still the one that it is about."""
    return _describe(dict(reader.rows(_SQL["read_meta"])), store_path)


def _describe(meta: Mapping[str, str], store_path: Path) -> History:
    log = json.loads(meta.get("history_log", "[]"))
    return History(
        store_uuid=meta["store_uuid"],
        digest=digest_store_history(meta["store_uuid"]),
        is_current=meta.get("database_inode") == _inode(store_path),
        past_uuids=tuple(entry["store_uuid"] for entry in log),
        rebuilds=int(meta.get("rebuilds", "0")),
    )


def list_past(reader: StoreReader) -> list[tuple[str, datetime]]:
    """List (digest, end) of the histories that the store was in before, oldest first."""
    meta = dict(reader.rows(_SQL["read_meta"]))
    return [
        (digest_store_history(entry["store_uuid"]), parse_instant(entry["ended_at"]))
        for entry in json.loads(meta.get("history_log", "[]"))
    ]


def settle_history(writer: StoreWriter, store_path: Path, *, clock: datetime) -> History:
    """Begin a new history if the database file is not the one that the store knows."""
    meta = dict(writer.rows(_SQL["read_meta"]))
    found = _describe(meta, store_path)
    if found.is_current:
        return found
    if "database_inode" in meta:
        log = json.loads(meta.get("history_log", "[]"))
        log.append({"store_uuid": found.store_uuid, "ended_at": format_instant(clock)})
        _put(writer, "history_log", json.dumps(log))
        _put(writer, "store_uuid", new_uuid())
        _put(writer, "rebuilds", "0")
    _put(writer, "database_inode", _inode(store_path))
    return read_history_of_store(writer, store_path)


def count_rebuild(writer: StoreWriter, history: History, store_path: Path) -> History:
    """Give up the vector tables of this history: the next ones get a new number."""
    _put(writer, "rebuilds", str(history.rebuilds + 1))
    return read_history_of_store(writer, store_path)


def keep_history(writer: StoreWriter, *, inode: int) -> None:
    """Keep the history through an own rewrite of the file, which gets this inode."""
    _put(writer, "database_inode", str(inode))


def _put(writer: StoreWriter, name: str, value: str) -> None:
    params = {"name": name, "value": value}
    if writer.execute(_SQL["write_meta"], params) == 0:
        writer.execute(_SQL["add_meta"], params)


def _inode(store_path: Path) -> str:
    return str((store_path / DATABASE_FILE).stat().st_ino)
