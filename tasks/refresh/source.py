"""Where a refresh reads the memories from: the store itself, or a repository that a host injects.

Source: spec/refresh.md R11-R15.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from storage import Store, StoreReader
from storage.errors import InvariantError, StorageError
from storage.identities import digest_content
from storage.index_errors import SourceInvalidError, SourceUnreadableError
from storage.members import SCHEMA, read_members, read_texts
from storage.models import MemoryRecord
from storage.namespaces import StoredNamespace, read_sequence
from storage.snapshot_digest import digest_active
from storage.snapshots import Snapshot, SnapshotRequest, verify_snapshot
from tasks.refresh.settings import RefreshSettings

TOKEN_PROFILE = "a3s.memory.namespace-change-token.sequence.v1"  # noqa: S105 - no secret


class Token(NamedTuple):
    """A change token: it moves with every change of a memory of the namespace."""

    sequence: int
    profile: str = TOKEN_PROFILE


@dataclass(frozen=True, slots=True)
class View:
    """One snapshot: its identity, and its members (storage.members.SCHEMA) in id order."""

    token: Token | None
    digest: str
    byte_count: int
    members: pa.Table


class Source(Protocol):
    """The memories of one namespace."""

    is_co_transactional: bool  # the pointer is flipped in the database that the token lives in

    def read_token(self) -> Token | None:
        """Read the change token, if the source has one."""
        ...

    def read_token_in(self, reader: StoreReader) -> Token | None:
        """Read it in a transaction of the store; a source elsewhere cannot be asked there."""
        ...

    def take_view(self) -> View:
        """Read all active memories at once."""
        ...

    def verify_view(self) -> None:
        """Check the last view, before anything is changed on its word."""
        ...

    def read_texts(self, wanted: pa.Table) -> pa.Table:
        """Read record_id and content of rows (memory_id, content_digest, record_id) of the view."""
        ...


class StoreSource:
    """The memories of the store that holds the pointers, too."""

    is_co_transactional = True

    def __init__(self, store: Store, target: StoredNamespace, settings: RefreshSettings) -> None:
        """Remember whose memories they are, and how many a view may have."""
        self._store = store
        self._target = target
        self._settings = settings

    def read_token(self) -> Token:
        """Read the change sequence."""
        with self._store.read() as reader:
            return self.read_token_in(reader)

    def read_token_in(self, reader: StoreReader) -> Token:
        """Read the change sequence in the open transaction."""
        return Token(read_sequence(reader, self._target.namespace_id))

    def take_view(self) -> View:
        """Read token, digest and members in one transaction.

        Raises:
            LimitExceededError: More rows or bytes than the settings allow.
        """
        limits = self._settings
        with self._store.read() as reader:
            token = read_sequence(reader, self._target.namespace_id)
            digest, byte_count = digest_active(
                reader,
                self._target,
                max_nodes=limits.max_rows,
                max_bytes=limits.max_bytes,
            )
            members = read_members(reader, self._target.namespace_id)
        return View(Token(token), digest, byte_count, members)

    def verify_view(self) -> None:
        """Believe our own database."""

    def read_texts(self, wanted: pa.Table) -> pa.Table:
        """Read texts; what has changed since the view is left out."""
        with self._store.read() as reader:
            return read_texts(reader, self._target.namespace_id, wanted)


class Repository(Protocol):
    """What a host's own repository has to offer for a refresh."""

    def read_token(self) -> Token | None:
        """Read the change token; None: it has none."""
        ...

    def take_snapshot(self, request: SnapshotRequest) -> tuple[Snapshot, Sequence[MemoryRecord]]:
        """Give the snapshot of the active memories, and the memories in its order."""
        ...


class InjectedSource:
    """The memories of a host's own repository; nothing that it says is believed unchecked."""

    is_co_transactional = False

    def __init__(
        self, repository: Repository, target: StoredNamespace, settings: RefreshSettings
    ) -> None:
        """Remember where the memories are."""
        self._repository = repository
        self._request = SnapshotRequest(
            target.namespace,
            max_nodes=settings.max_rows,
            max_bytes=settings.max_bytes,
            profile=settings.snapshot_profile,
        )
        self._records: dict[str, MemoryRecord] = {}
        self._snapshot: Snapshot | None = None

    def read_token(self) -> Token | None:
        """Ask the repository.

        Raises:
            SourceUnreadableError: It failed.
        """
        try:
            return self._repository.read_token()
        except (StorageError, OSError) as error:
            raise SourceUnreadableError(cause=type(error).__name__) from None

    def read_token_in(self, _reader: StoreReader) -> Token | None:
        """Ask the repository, which knows nothing of the store's transaction."""
        return self.read_token()

    def take_view(self) -> View:
        """Take a snapshot; it is not verified yet.

        Raises:
            SourceUnreadableError: The repository failed.
        """
        try:
            snapshot, records = self._repository.take_snapshot(self._request)
        except (StorageError, OSError) as error:
            raise SourceUnreadableError(cause=type(error).__name__) from None
        self._records = {record.id: record for record in records}
        self._snapshot = snapshot
        rows = [
            {
                "memory_id": record.id,
                "revision": record.revision,
                "content_digest": digest_content(record.content),
                "created_at": record.created_at,
            }
            for record in records
        ]
        members = pa.Table.from_pylist(rows, schema=SCHEMA)
        token = None if snapshot.token is None else Token(snapshot.token)
        return View(token, snapshot.digest, snapshot.byte_count, members)

    def verify_view(self) -> None:
        """Recompute the last snapshot from its memories.

        Raises:
            SourceInvalidError: It is not theirs.
        """
        if self._snapshot is None:
            return
        try:
            verify_snapshot(self._snapshot, self._request, list(self._records.values()))
        except InvariantError:
            raise SourceInvalidError from None

    def read_texts(self, wanted: pa.Table) -> pa.Table:
        """Give texts of the last view."""
        ids = wanted.column("memory_id").to_pylist()
        texts = [self._records[memory_id].content for memory_id in ids]
        columns = {"record_id": wanted.column("record_id"), "content": pa.array(texts, pa.string())}
        return pa.table(columns)
