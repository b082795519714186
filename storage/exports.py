"""Exports: Parquet files beside the store that readers open without the live file.

A file is written whole under another name, then takes the place of the old one: a reader sees the
old table or the new one, never a part. What a killed export leaves has a name that no reader looks
for, and goes with the next one.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import StorageError

EXPORT_DIRECTORY = "exports"
_SUFFIX = ".parquet"
_UNFINISHED = ".unfinished"


def name_export(store_path: Path, name: str) -> Path:
    """Name the file of an export."""
    return store_path / EXPORT_DIRECTORY / f"{name}{_SUFFIX}"


def write_exports(
    store_path: Path, tables: Iterable[tuple[str, pa.Table]], *, run_id: str
) -> dict[str, int]:
    """Replace exports one after the other, as their tables come; give the size of each in bytes.

    Args:
        store_path: The directory of the store.
        tables: The name of each export with its table; one is in memory at a time.
        run_id: Who writes; another writer's unfinished files are taken away from it.

    Raises:
        StorageError: The disk takes no more, or somebody took an unfinished file away: another run
            that exports, or an erasure.
    """
    try:
        folder = store_path / EXPORT_DIRECTORY
        folder.mkdir(mode=0o700, exist_ok=True)
        remove_unfinished(store_path)
        sizes = {
            name: _replace(name_export(store_path, name), table, run_id) for name, table in tables
        }
        _sync(folder)
    except OSError as error:
        message = f"the exports could not be written: {error.strerror or type(error).__name__}"
        raise StorageError(message) from None
    return sizes


def _replace(file: Path, table: pa.Table, run_id: str) -> int:
    fresh = file.with_name(f".{file.name}.{run_id}{_UNFINISHED}")
    try:
        with fresh.open("xb") as sink:
            fresh.chmod(0o600)
            pq.write_table(table, sink, compression="zstd")
            sink.flush()
            os.fsync(sink.fileno())
        size = fresh.stat().st_size
        fresh.replace(file)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()
    return size


def remove_unfinished(store_path: Path) -> int:
    """Remove what exports left that did not end; tell how many files that were."""
    left = list(_list_unfinished(store_path))
    for file in left:
        with suppress(FileNotFoundError):
            file.unlink()
    return len(left)


def _list_unfinished(store_path: Path) -> Iterator[Path]:
    return (store_path / EXPORT_DIRECTORY).glob(f".*{_UNFINISHED}")


def read_export(store_path: Path, name: str) -> pa.Table | None:
    """Read an export whole; None: there is none."""
    try:
        return pq.read_table(name_export(store_path, name), partitioning=None)
    except FileNotFoundError:
        return None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
