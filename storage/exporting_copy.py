"""Copies of a store's files, made while nobody has the database open, and places to make them in.

The exclusive lock is held for the copy of one file only; whoever reads the copy keeps nobody
waiting. What a killed process left is removed by the next one that works for the same target.
Source: DESIGN 3.1, PLATFORM D9, D51.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.errors import AdmissionError, StorageError, StoreBusyError
from storage.gateway import DATABASE_FILE, Store
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "compaction")
_CHUNK_BYTES = 1024 * 1024
_OWNER_ONLY = 0o600


def refuse_inside(store: Store, target: Path) -> None:
    """Refuse a target inside of the store's directory, where only the store's own files are.

    Raises:
        AdmissionError: It lies there.
    """
    if target.resolve().is_relative_to(store.path.resolve()):
        raise AdmissionError("target", "must lie outside of the store")


@contextmanager
def stage_beside(target: Path) -> Iterator[Path]:
    """Give an empty folder beside a target, for one process at a time; it goes with its content.

    Raises:
        AdmissionError: The folder of the target does not exist.
        StorageError: The disk takes no more, or the folder of the target takes nothing.
        StoreBusyError: Another process works for the same target.
    """
    folder = target.parent / f".{target.name}.staged"
    if not target.parent.is_dir():
        raise AdmissionError("target", "its folder does not exist")
    try:
        descriptor = _own(folder)
        try:
            _empty(folder)
            yield folder
        finally:
            shutil.rmtree(folder)
            os.close(descriptor)
    except OSError as error:
        message = f"{target} could not be made: {error.strerror or type(error).__name__}"
        raise StorageError(message) from None


def _own(folder: Path) -> int:
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its owner has just removed it
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StoreBusyError(waited_s=0.0) from None
        if folder.is_dir() and os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
        os.close(descriptor)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def copy_database(store: Store, folder: Path) -> Store:
    """Copy the database into a folder, which becomes a store without vectors; give that store.

    Raises:
        StorageError: The database has a write-ahead log after its checkpoint, or the copy read back
            differs.
        StoreBusyError: Others held the store for too long.
    """
    source, copy = store.path / DATABASE_FILE, folder / DATABASE_FILE
    with store.closed() as open_file:
        with open_file(str(source)) as live:
            live.execute(_SQL["checkpoint"])
        if source.with_name(f"{DATABASE_FILE}.wal").exists():
            raise StorageError("the database was not closed as a whole and was not copied")
        digest = _copy(source, copy)
    _compare(digest, copy)
    return Store(folder, lock_wait_s=store.lock_wait_s)


def copy_file(source: Path, copy: Path) -> None:
    """Copy a file that never changes, and read the copy back.

    Raises:
        StorageError: The copy read back differs.
    """
    _compare(_copy(source, copy), copy)


def _copy(source: Path, copy: Path) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as read, copy.open("xb") as write:
        copy.chmod(_OWNER_ONLY)
        while chunk := read.read(_CHUNK_BYTES):
            digest.update(chunk)
            write.write(chunk)
    return digest.hexdigest()


def _compare(digest: str, copy: Path) -> None:
    with copy.open("rb") as read:
        if hashlib.file_digest(read, "sha256").hexdigest() != digest:
            raise StorageError("a copy differs from what was copied")


def publish(source: Path, target: Path) -> None:
    """Give a finished file or folder its name, and have the disk keep that."""
    folders = [source, *source.rglob("*")] if source.is_dir() else [source]
    for path in folders:
        _sync(path)
    source.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
