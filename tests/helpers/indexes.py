"""Published indexes of a store in tests: the real refresh with vectors that the test chooses."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from helpers.embedders import IDENTITY

from storage import Store
from storage.identities import RecordProfile
from storage.leases import acquire_lease, release_lease
from storage.models import Namespace
from storage.namespaces import StoredNamespace, ensure_namespace
from storage.partitions import Partition
from storage.runs import RunStart, begin_run
from storage.vectors import VectorStore
from tasks.providers.bounds import ExecutionBounds
from tasks.providers.embedder import Embedder, EmbeddingIdentity, Vector
from tasks.refresh.binding import build_binding, find_partition
from tasks.refresh.run import refresh
from tasks.refresh.settings import RefreshSettings
from tasks.refresh.source import StoreSource
from tasks.refresh.work import Work

CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = "sha256:" + "a" * 64


def lean(cosine: float) -> list[float]:
    """Give the vector that has this cosine with the first axis of the plane."""
    return [cosine, float(np.sqrt(1 - cosine * cosine))]


class MapEmbedder:
    """Knows the vectors of a few texts; of all others it only knows that they lie far away."""

    def __init__(
        self, vectors: dict[str, list[float]], identity: EmbeddingIdentity = IDENTITY
    ) -> None:
        """Take the vectors by text."""
        self.identity = identity
        self.queries: list[str] = []
        self._vectors = vectors

    def _embed(self, text: str) -> Vector:
        far = [-1.0, *([0.0] * (self.identity.dimension - 1))]
        return np.array(self._vectors.get(text, far), dtype=np.float32)

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts, one array a text."""
        return [self._embed(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text, and remember it."""
        self.queries.append(text)
        return self._embed(text)


def publish(  # noqa: PLR0913 - a publication has this many choices
    store: Store,
    namespace: Namespace,
    embedder: Embedder,
    *,
    min_score: float = 0.5,
    candidate_limit: int = 8,
    record_profile: RecordProfile = "memtend.record.v1",
    authority: str = AUTHORITY,
) -> Partition:
    """Publish the active memories of a namespace, and give the partition that serves them."""
    with store.write() as writer:
        target = ensure_namespace(writer, namespace)
    binding = build_binding(
        authority,
        embedder.identity,
        ExecutionBounds(),
        candidate_limit=candidate_limit,
        min_score=min_score,
        max_records=100_000,
        max_bytes=268_435_456,
    )
    partition = find_partition(target, binding)
    _run(store, target, partition, embedder, RefreshSettings(record_profile=record_profile))
    return partition


def _run(
    store: Store,
    target: StoredNamespace,
    partition: Partition,
    embedder: Embedder,
    settings: RefreshSettings,
) -> None:
    holder = f"run-{uuid.uuid4().hex}"
    start = RunStart(holder, "refresh", target.namespace_id, "apply", "manual", CLOCK, CLOCK)
    with store.write() as writer:
        lease = acquire_lease(writer, target, "refresh", holder=holder, clock=CLOCK)
        begin_run(writer, start, lease_fence=lease.fence)
    refresh(
        Work(
            store=store,
            vectors=VectorStore(store.path),
            target=target,
            lease=lease,
            partition=partition,
            embedder=embedder,
            bounds=ExecutionBounds(),
            settings=settings,
            source=StoreSource(store, target, settings),
            clock=lambda: CLOCK,
            new_id=lambda: uuid.uuid4().hex,
        )
    )
    with store.write() as writer:
        release_lease(writer, lease, clock=CLOCK)


def move_pointer(store: Store) -> None:
    """Move every pointer on, as another publisher would."""
    _change(store, "UPDATE partitions SET revision = revision + 1")


def forge_history(store: Store) -> None:
    """Give every pointer another history and the same revision."""
    _change(store, "UPDATE partitions SET pointer_uuid = '00000000-0000-4000-8000-000000000001'")


def empty_pointers(store: Store) -> None:
    """Let nothing be published."""
    _change(store, "UPDATE partitions SET phase = 'empty', publication_id = NULL")


def lose_pointers(store: Store) -> None:
    """Make the pointers unreadable."""
    _change(store, "ALTER TABLE partitions RENAME TO lost_partitions")


def _change(store: Store, statement: str) -> None:
    with store.write() as writer:
        writer.run_script(statement)
