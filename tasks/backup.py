"""A checked copy of a whole store: database, vectors, key; the directory is complete or not there.

The backup holds the janitor's lease, so no vectors are written meanwhile; the store itself is
locked only while the database file is copied. A copy is another file, so it begins a history of its
own: its index is made anew by the next refresh (spec/refresh.md R10). What is erased later stays
in backups that were made before.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from storage import Store, StoreReader, open_store
from storage.erasure_keys import KEY_FILE
from storage.errors import AdmissionError, StorageError
from storage.exporting import count_memories
from storage.exporting_copy import (
    copy_database,
    copy_file,
    publish,
    refuse_inside,
    stage_beside,
)
from storage.gateway import DATABASE_FILE
from storage.invariants import check_invariants
from storage.leases import Lease, acquire_lease, keep_lease, release_lease
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace, list_namespaces, read_sequence
from storage.snapshot_digest import digest_active
from storage.vectors import VECTOR_DIRECTORY

Clock = Callable[[], datetime]
OnProgress = Callable[[int, int], None]
_JOB = "janitor"
_ALL = 2**62
_OWNER_ONLY = 0o700


class State(NamedTuple):
    """What a namespace holds: its change sequence, its memories, the digest of the active ones."""

    sequence: int
    memories: int
    digest: str


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What was copied.

    Attributes:
        path: The directory of the copy.
        namespaces: Its namespaces.
        memories: Its memories, whatever their status.
        file_count: How many files were copied.
        byte_count: Their size together.
        broken: Rules that memories of the store, and so of the copy, break: name and count.
    """

    path: Path
    namespaces: int
    memories: int
    file_count: int
    byte_count: int
    broken: Mapping[str, int]


def back_up(  # noqa: PLR0913 - what the edge knows
    store: Store,
    target: Path,
    *,
    holder: str,
    clock: Clock,
    ttl_s: int,
    on_progress: OnProgress | None = None,
) -> BackupReport:
    """Copy a store into a directory that does not exist, or is empty.

    Args:
        store: The store; no lock may be held.
        target: The directory of the copy.
        holder: Who holds the lease, such as a fresh run id.
        clock: Wall time.
        ttl_s: How long the lease lasts if this process dies.
        on_progress: Told how many of how many files are copied.

    Raises:
        AdmissionError: The directory is not empty, or lies inside of the store.
        LeaseHeldError: A refresh, an erasure or a janitor run is at work.
        StorageError: The copy could not be made, or is not what the store holds; it was removed.
        StoreBusyError: The store's lock was not free in time.
    """
    target = target.resolve()
    refuse_inside(store, target)
    _refuse_used(target)
    with stage_beside(target) as folder, _held(store, holder, clock, ttl_s) as lease:
        expected = _describe(store)
        path = folder / "store"
        path.mkdir(mode=_OWNER_ONLY)
        copy = copy_database(store, path)
        files = _list_files(store.path)
        for done, file in enumerate(files):
            if on_progress is not None:
                on_progress(done, len(files))
            place = path / file.relative_to(store.path)
            place.parent.mkdir(mode=_OWNER_ONLY, parents=True, exist_ok=True)
            copy_file(file, place)
        _keep(store, lease, clock)
        report = _check(copy, expected, lease, clock())
        _refuse_used(target)
        publish(path, target)
    sizes = [file.stat().st_size for file in (target / DATABASE_FILE, *_list_files(target))]
    namespaces, memories, broken = report
    return BackupReport(target, namespaces, memories, len(sizes), sum(sizes), broken)


def _refuse_used(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise AdmissionError("target", "is no directory")
    if target.is_dir() and any(target.iterdir()):
        raise AdmissionError("target", "the directory is not empty")


@contextmanager
def _held(store: Store, holder: str, clock: Clock, ttl_s: int) -> Iterator[Lease]:
    with store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        lease = acquire_lease(writer, owner, _JOB, holder=holder, clock=clock(), ttl_s=ttl_s)
    try:
        yield lease
    finally:
        with store.write() as writer:
            release_lease(writer, lease, clock=clock())


def _keep(store: Store, lease: Lease, clock: Clock) -> None:
    """Make sure that nobody has taken the lease over, and so written vectors, meanwhile."""
    with store.write() as writer:
        keep_lease(writer, lease, clock=clock())


def _list_files(path: Path) -> list[Path]:
    vectors = path / VECTOR_DIRECTORY
    found = (
        sorted(file for file in vectors.rglob("*") if file.is_file()) if vectors.is_dir() else []
    )
    key = path / KEY_FILE
    return [*found, key] if key.is_file() else found


def _describe(store: Store) -> dict[Namespace, State]:
    with store.read() as reader:
        return _describe_all(reader)


def _describe_all(reader: StoreReader) -> dict[Namespace, State]:
    states = {}
    for owner in list_namespaces(reader):
        digest, _ = digest_active(reader, owner, max_nodes=_ALL, max_bytes=_ALL)
        sequence = read_sequence(reader, owner.namespace_id)
        memories = count_memories(reader, owner.namespace_id)
        states[owner.namespace] = State(sequence, memories, digest)
    return states


def _check(
    copy: Store, expected: Mapping[Namespace, State], lease: Lease, now: datetime
) -> tuple[int, int, dict[str, int]]:
    """Open the copy, free it of the lease of this backup, and compare what it holds.

    A namespace that was written to before its file was copied is another one by then; its digest is
    not compared.
    """
    open_store(copy.path, lock_wait_s=copy.lock_wait_s)
    with copy.write() as writer:
        release_lease(writer, lease, clock=now)
    with copy.read() as reader:
        found = _describe_all(reader)
        broken = {one.name: one.broken for one in check_invariants(reader) if one.broken}
    for namespace, state in expected.items():
        held = found.get(namespace)
        if held is None or (held.sequence == state.sequence and held != state):
            raise StorageError("the copy does not hold what the store holds")
    return len(found), sum(state.memories for state in found.values()), broken
