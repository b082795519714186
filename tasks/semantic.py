"""The semantic branch of recall: it may add to the lexical answer and never weakens it.

The pointer of the partition is read three times, each in a transaction of its own (one snapshot
would never show a change), and all three must agree. Whatever goes wrong ends the branch with one
of five fixed texts; nothing of a query, a memory or a provider is in them. Source: spec/recall.md
R9, R12, 4.1, 4.4; spec/refresh.md R62-R64.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from storage import Store, StoreReader
from storage.errors import MaintenanceError
from storage.history import read_history_of_store
from storage.identities import RecordProfile, digest_index_history
from storage.models import Namespace
from storage.namespaces import find_namespace
from storage.partitions import read_pointer, read_serving
from storage.records import read_records
from storage.vectors import VectorStore
from tasks.candidates import Terms, make_candidate, rank_candidates, read_claims, verify_claims
from tasks.fusion import FUSION_PROFILES
from tasks.hits import Hit
from tasks.providers.embedder import Embedder
from tasks.providers.executor import embed_query
from tasks.refresh.binding import find_partition
from tasks.semantic_binding import SemanticBinding

# Source: spec/recall.md 4.4.
INVALID = "invalid semantic recall configuration"
EMBEDDING_FAILED = "semantic query embedding failed"
SEARCH_FAILED = "semantic vector search failed"
VERIFICATION_FAILED = "semantic repository verification failed"
INDEX_CHANGED = "semantic index revision changed"
_MAX_FETCHED = 200

# Steps of the branch, in order; a host can follow them.
SemanticStep = Literal["embed", "observe_1", "search", "observe_2", "observe_3"]


class SemanticFaultError(MaintenanceError):
    """The semantic branch gave up; its text is one of the five."""

    code = "semantic_dropped"


@dataclass(frozen=True, slots=True)
class SemanticSource:
    """How a recall can search by meaning.

    `load` is called only when there is something to search. `binding` is the semantic part of the
    session's; None: that of the generation which the namespace serves. `fusion` None: the profile
    that the binding names.
    """

    load: Callable[[], Embedder]
    binding: Mapping[str, Any] | None = None
    fusion: str | None = None
    on_step: Callable[[SemanticStep], None] = lambda _: None


class Observed(NamedTuple):
    """What a pointer serves; a search is good only if this stays the same."""

    publication_id: str
    revision: int
    history: str
    vector_table: str
    record_profile: RecordProfile


@dataclass(frozen=True, slots=True)
class SemanticSearch:
    """One search of one partition, ready to run."""

    store: Store
    source: SemanticSource
    namespace_id: int
    partition: str
    binding: SemanticBinding
    fusion: str

    def find(
        self, query: str, *, decided_only: bool, now: datetime
    ) -> tuple[Observed, list[Hit]] | None:
        """Find the memories that are nearest in meaning, verified, best first.

        Returns:
            None if nothing is published; else what was searched, for `confirm`, and the hits.

        Raises:
            SemanticFaultError: Anything went wrong, or the index changed meanwhile.
        """
        vector = self._embed(query)
        self.source.on_step("observe_1")
        with _faults(VERIFICATION_FAILED), self.store.read() as reader:
            seen = self.observe(reader)
        if seen is None:
            return None
        self.source.on_step("search")
        with _faults(SEARCH_FAILED):
            candidates = self._search(seen, vector)
        terms = Terms(
            partition=self.partition,
            profile=seen.record_profile,
            min_score=self.binding.policy.min_score,
            now=now,
            decided_only=decided_only,
        )
        self.source.on_step("observe_2")
        with _faults(VERIFICATION_FAILED), self.store.read() as reader:
            self._check(reader, seen)
            claims = read_claims(candidates, terms)
            records = read_records(reader, self.namespace_id, claims)
            return seen, verify_claims(claims, records, terms)

    @contextmanager
    def confirm(self, seen: Observed) -> Iterator[StoreReader]:
        """Read the pointer for the last time, and give the open handle to finish the answer with.

        Raises:
            SemanticFaultError: It has changed, or reading failed.
        """
        self.source.on_step("observe_3")
        with _faults(VERIFICATION_FAILED), self.store.read() as reader:
            self._check(reader, seen)
            yield reader

    def observe(self, reader: StoreReader) -> Observed | None:
        """Read what the pointer serves; None: nothing that was verified.

        Raises:
            SemanticFaultError: It belongs to another history of the store than its database.
        """
        pointer = read_pointer(reader, self.partition)
        if pointer is None or pointer.phase != "verified" or pointer.publication_id is None:
            return None
        history = read_history_of_store(reader, self.store.path)
        lance_uuid = VectorStore(self.store.path).read_uuid()
        is_ours = pointer.store_history == history.digest and history.is_current
        if not is_ours or lance_uuid is None or pointer.record_profile is None:
            raise SemanticFaultError(INDEX_CHANGED)
        index_history = digest_index_history(
            "partition",
            store_uuid=history.store_uuid,
            lance_uuid=lance_uuid,
            pointer_uuid=pointer.pointer_uuid,
        )
        return Observed(
            pointer.publication_id,
            pointer.revision,
            index_history,
            pointer.vector_table or "",
            pointer.record_profile,
        )

    def _check(self, reader: StoreReader, seen: Observed) -> None:
        if self.observe(reader) != seen:
            raise SemanticFaultError(INDEX_CHANGED)

    def _embed(self, query: str) -> list[float]:
        self.source.on_step("embed")
        with _faults(INVALID):
            embedder = self.source.load()
            if not self.binding.embedding.is_made_by(embedder.identity):
                raise SemanticFaultError(INVALID)
        with _faults(EMBEDDING_FAILED):
            vector: list[float] = embed_query(embedder, query).tolist()
            return vector

    def _search(self, seen: Observed, vector: list[float]) -> list[Any]:
        limit = self.binding.policy.candidate_limit
        hits = VectorStore(self.store.path).search(
            seen.vector_table,
            publication_id=seen.publication_id,
            vector=vector,
            limit=min(2 * limit, _MAX_FETCHED),
        )
        return rank_candidates((make_candidate(hit, seen.record_profile) for hit in hits), limit)


def plan_search(
    store: Store, reader: StoreReader, namespace: Namespace, source: SemanticSource | None
) -> SemanticSearch | None:
    """Plan the search of a namespace; None: it has no index, so that no embedder is needed.

    Raises:
        SemanticFaultError: The binding is not valid, or the index is not of this database.
    """
    if source is None:
        return None
    with _faults(INVALID):
        owner = find_namespace(reader, namespace)
        if owner is None:
            return None
        if source.binding is not None:
            partition = find_partition(owner, dict(source.binding))
        else:
            served = read_serving(reader, owner.namespace_id)
            if served is None:
                return None
            partition = served
        binding = SemanticBinding.model_validate(partition.binding)
        fusion = source.fusion or binding.fusion_profile
        if fusion not in FUSION_PROFILES:
            raise SemanticFaultError(INVALID)
    search = SemanticSearch(store, source, owner.namespace_id, partition.name, binding, fusion)
    with _faults(VERIFICATION_FAILED):
        return None if search.observe(reader) is None else search


def read_semantic_binding(reader: StoreReader, namespace: Namespace) -> SemanticBinding | None:
    """Read the semantic part that a new session of a namespace is bound to; None: no index."""
    owner = find_namespace(reader, namespace)
    served = read_serving(reader, owner.namespace_id) if owner is not None else None
    return None if served is None else SemanticBinding.model_validate(served.binding)


@contextmanager
def _faults(text: str) -> Iterator[None]:
    """Turn whatever goes wrong into the fixed text; a host's embedder may raise anything."""
    try:
        yield
    except SemanticFaultError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_cancellation(error):
            raise
        raise SemanticFaultError(text) from None


def _is_cancellation(error: BaseException) -> bool:
    """Tell a call that was cancelled, which is no Exception, from an order to end."""
    from asyncio import CancelledError  # noqa: PLC0415 - hardly ever needed, and slow to import

    return isinstance(error, CancelledError)
