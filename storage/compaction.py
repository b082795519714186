"""Compaction: the database file is written anew without its holes, and takes the old one's place.

DuckDB gives back the tail of its file only. The copy is made under the exclusive lock from a file
that has no WAL, is compared with it, and knows its own inode before the swap, so that the store
keeps its history. Killed at any point, either file is whole and the store opens; what is left over
goes with the next run. Source: PLATFORM D50, D51; spec/refresh.md R10.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from storage.errors import StorageError
from storage.gateway import DATABASE_FILE, Store, StoreReader, StoreWriter
from storage.history import keep_history, read_history_of_store, settle_history
from storage.leases import Lease, keep_lease
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "compaction")

COPY_FILE = f"{DATABASE_FILE}.compact"
_IN_MEMORY = ":memory:"

OnStep = Callable[[str], None]
_Open = Callable[[str], AbstractContextManager[StoreWriter]]


@dataclass(frozen=True, slots=True)
class Space:
    """How large the database is, and how much of it holds nothing."""

    byte_count: int
    free_bytes: int

    @property
    def free_ratio(self) -> float:
        """The share of the file that holds nothing, 0..1."""
        return self.free_bytes / self.byte_count if self.byte_count else 0.0


def read_space(reader: StoreReader) -> Space:
    """Measure the database in whole blocks; deleted rows inside of a block are not seen."""
    return Space(*reader.rows(_SQL["read_space"])[0])


def find_leftovers(store_path: Path) -> list[Path]:
    """Find what a compaction that was killed left behind; one that is at work has the same."""
    return sorted(store_path.glob(f"{COPY_FILE}*"))


def remove_leftovers(store: Store) -> int:
    """Remove what a compaction that was killed left behind; tell how many files that were."""
    with store.closed():
        return _remove(store.path)


def compact_database(
    store: Store, lease: Lease, *, clock: datetime, on_step: OnStep = lambda _: None
) -> int:
    """Write the database file anew and give how many bytes it became smaller.

    Raises:
        StorageError: The copy is not the same, or could not be made; the old file stays.
        FenceLostError: Another run has taken the lease over.
        StoreBusyError: Others held the store for too long.
    """
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock)
        settle_history(writer, store.path, clock=clock)
    with store.closed() as open_file:
        _remove(store.path)
        try:
            return _replace(store.path, open_file, on_step)
        except OSError as error:
            raise StorageError(
                "the database could not be written anew", cause=type(error).__name__
            ) from None
        finally:
            _remove(store.path)


def _replace(path: Path, open_file: _Open, on_step: OnStep) -> int:
    file, copy = path / DATABASE_FILE, path / COPY_FILE
    with open_file(str(file)) as live:
        _check(is_same=read_history_of_store(live, path).is_current)
        live.execute(_SQL["checkpoint"])
    before = file.stat().st_size
    _check(is_same=not _has_wal(file))
    on_step("closed")
    with open_file(_IN_MEMORY) as memory:
        memory.execute(_SQL["attach_old"], {"file": str(file)})
        memory.execute(_SQL["attach_new"], {"file": str(copy)})
        copy.chmod(0o600)
        on_step("attached")
        memory.execute(_SQL["copy"])
        on_step("copied")
        _check(is_same=_describe(memory, "old") == _describe(memory, "new"))
        memory.execute(_SQL["detach_new"])
        memory.execute(_SQL["detach_old"])
    on_step("detached")
    with open_file(str(copy)) as fresh:
        keep_history(fresh, inode=copy.stat().st_ino)
        fresh.execute(_SQL["checkpoint"])
    _check(is_same=not _has_wal(copy) and not _has_wal(file))
    _sync(copy)
    on_step("synced")
    copy.replace(file)
    on_step("replaced")
    _sync(path)
    return before - file.stat().st_size


def _describe(reader: StoreReader, database: str) -> list[tuple[str, int]]:
    """Describe a database: every object once, every table with its number of rows."""
    owner = {"database": database}
    objects = [(line, 1) for (line,) in reader.rows(_SQL["list_objects"], owner)]
    tables = [name for (name,) in reader.rows(_SQL["list_tables"], owner)]
    counts = [
        (name, int(reader.rows(_SQL["count_rows"], {"name": f"{database}.main.{name}"})[0][0]))
        for name in tables
    ]
    return objects + counts


def _check(*, is_same: bool) -> None:
    if not is_same:
        raise StorageError("the database is not what was expected and was not replaced")


def _has_wal(file: Path) -> bool:
    return file.with_name(f"{file.name}.wal").exists()


def _remove(path: Path) -> int:
    left = find_leftovers(path)
    for file in left:
        file.unlink()
    return len(left)


def _sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
