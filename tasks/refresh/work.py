"""What one refresh of one namespace works with, and what it can end with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from storage import Store, StoreReader
from storage.history import History
from storage.index_errors import CancelledError, SourceInvalidError
from storage.leases import Lease, keep_lease
from storage.namespaces import StoredNamespace
from storage.partitions import Glimpse, Observation, Partition, glimpse_index, observe_index
from storage.publications import Counts
from storage.receipts import Checkpoint, Receipt
from storage.vectors import NoVectors, VectorStore
from tasks.providers.bounds import ExecutionBounds
from tasks.providers.embedder import Embedder
from tasks.refresh.settings import RefreshCounters, RefreshSettings, Step
from tasks.refresh.source import TOKEN_PROFILE, Source, Token, View

Vector = NDArray[np.float32]
Reason = Literal[
    "token_match", "snapshot_match", "set_match", "published", "published_empty", "adopted"
]


@dataclass(slots=True)
class Owner:
    """Evidence and vectors that only live as long as the process that made them (R73).

    The product keeps both in the store instead; this is for hosts whose index keeps no receipts.
    """

    checkpoint: Checkpoint | None = None
    receipts: dict[str, Receipt] = field(default_factory=dict)
    vectors: dict[str, Vector] = field(default_factory=dict)


@dataclass(slots=True)
class Work:
    """One run on one namespace; `history` and `vector_table` are known after `recover`."""

    store: Store
    vectors: VectorStore
    target: StoredNamespace
    lease: Lease
    partition: Partition
    embedder: Embedder
    bounds: ExecutionBounds
    settings: RefreshSettings
    source: Source
    clock: Callable[[], datetime]
    new_id: Callable[[], str]
    marks_crashes: bool = False
    on_step: Callable[[Step], None] = lambda _: None
    on_batch: Callable[[int], None] | None = None
    should_stop: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] | None = None
    owner: Owner | None = None
    counters: RefreshCounters = field(default_factory=RefreshCounters)
    history: History | None = None
    vector_table: str = ""
    kept_at: datetime | None = None

    @property
    def settled_history(self) -> History:
        """The history of the store, once the run has settled it."""
        if self.history is None:
            message = "a refresh begins with recover()"
            raise RuntimeError(message)
        return self.history

    def glimpse(self, reader: StoreReader) -> Glimpse:
        """Read what the index is about in the open transaction (R19)."""
        return glimpse_index(reader, self.store.path, self.partition, self.settings.cas_scope)

    def observe(self) -> Observation:
        """Observe the index (R19)."""
        with self.store.read() as reader:
            glimpse = self.glimpse(reader)
        return self.count(glimpse)

    def count(self, glimpse: Glimpse) -> Observation:
        """Complete a glimpse; a table that is given up need not be readable."""
        is_given_up = self.settings.recreate_index and not self.counters.publication_attempts
        vectors = NoVectors(self.store.path) if is_given_up else self.vectors
        return observe_index(glimpse, vectors, self.settings.cas_scope)

    def read_token(self) -> Token | None:
        """Read the source's token and count it.

        Raises:
            SourceInvalidError: It has a profile that means something else.
        """
        return self.take_token(self.source.read_token)

    def take_token(self, read: Callable[[], Token | None]) -> Token | None:
        """Read a token in the caller's way and count it."""
        self.counters.token_requests += 1
        token = read()
        if token is not None:
            if token.profile != TOKEN_PROFILE:
                raise SourceInvalidError
            self.counters.token_observations += 1
        return token

    def take_view(self, *, with_token: bool) -> View:
        """Take a snapshot and count it; its token is the second reading, where there is one."""
        self.counters.snapshot_requests += 1
        if with_token and self.source.is_co_transactional:
            self.counters.token_requests += 1
            self.counters.token_observations += 1
        view = self.source.take_view()
        self.counters.snapshot_rows += view.members.num_rows
        self.counters.snapshot_bytes += view.byte_count
        self.source.verify_view()
        return view

    def know(self, pool: dict[str, Vector]) -> dict[str, Vector]:
        """Give the vectors that are in memory: those of the pool, and an owner's own."""
        return pool if self.owner is None else {**self.owner.vectors, **pool}

    def check_cancelled(self) -> None:
        """End the run if somebody asked for it; never after the commit point.

        Raises:
            CancelledError: Somebody did.
        """
        if self.should_stop():
            raise CancelledError

    def keep_alive(self) -> None:
        """Prolong the lease if a third of its time has passed."""
        now = self.clock()
        if self.kept_at is not None and (now - self.kept_at).total_seconds() * 3 < self.lease.ttl_s:
            return
        if self.kept_at is not None:
            with self.store.write() as writer:
                keep_lease(writer, self.lease, clock=now)
        self.kept_at = now


@dataclass(frozen=True, slots=True)
class Refreshed:
    """How a run that held ended: why, with which counts; `affected` rows were published by it."""

    reason: Reason
    counts: Counts
    affected: int = 0

    @property
    def is_unchanged(self) -> bool:
        """Whether the run proved that there was nothing to do."""
        return self.reason in {"token_match", "snapshot_match"}
