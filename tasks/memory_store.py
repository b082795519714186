"""The store API on a memtend store: one namespace, read and written as a host would.

A read that returns memories counts one use of each; nothing else does. Source: spec/recall.md
R20-R28, DESIGN 10.12, 10.14.
"""

import math
from collections.abc import Callable, Sequence
from datetime import datetime

from storage import Store
from storage.errors import AdmissionError, LimitExceededError
from storage.items import count_visible, find_visible, list_important, list_recent, tombstone_all
from storage.models import (
    MAX_CONTENT_BYTES,
    MAX_ID_BYTES,
    MAX_TAG_BYTES,
    Namespace,
    check_identifier,
)
from storage.namespaces import ensure_namespace, find_namespace
from tasks.inline import run_job
from tasks.limits import SafetyLimits
from tasks.memory_protocol import (
    CustomMemoryStore,
    MemoryItem,
    MemoryStore,
    PruneNotAppliedError,
    check_limit,
    parse_item,
)
from tasks.memory_reading import Choose, read_items, serve_items
from tasks.memory_search import rank_matches, rank_tagged
from tasks.memory_writing import put_item, retire_item
from tasks.policies import PrunePolicy
from tasks.requests import JobRequest

__all__ = ["CustomMemoryStore", "DuckMemoryStore", "MemoryItem", "MemoryStore"]

_PRUNED = {"applied", "partial", "unchanged"}


class DuckMemoryStore:
    """A namespace of a store, for hosts that speak the store API.

    `access_not_recorded` counts the rows that were returned although their use could not be
    counted.
    """

    def __init__(
        self,
        store: Store,
        namespace: Namespace,
        *,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
    ) -> None:
        """Bind the API to a namespace; nothing is opened.

        Args:
            store: The store; no lock may be held during a call.
            namespace: The only namespace that is read and written; the first item creates it.
            clock: Gives wall time, aware; read once a call.
            new_id: Makes the ids of items that come without one, such as a random UUID.
        """
        self._store = store
        self._namespace = namespace
        self._clock = clock
        self._new_id = new_id
        self.access_not_recorded = 0

    def store(self, item: MemoryItem) -> None:
        """Store an item.

        Raises:
            AdmissionError: A field is malformed; it is named `memory.…`.
            LimitExceededError: A field is longer than a limit allows.
            MemoryExistsError: Its id belongs to a memory that is not active.
        """
        self.store_and_return(item)

    def store_and_return(self, item: MemoryItem) -> MemoryItem:
        """Store an item and give the memory that stands for it now.

        An active memory with its id gets a new revision; an active copy takes it in and keeps its
        own id; else a memory is created. Errors are those of `store`.
        """
        now = self._clock()
        draft = parse_item(item, new_id=self._new_id() if item.id is None else item.id, now=now)
        with self._store.write() as writer:
            owner = ensure_namespace(writer, self._namespace).namespace_id
            memory_id = put_item(writer, owner, draft, now=now)
            return read_items(writer, owner, [memory_id])[0]

    def retrieve(self, memory_id: str) -> MemoryItem | None:
        """Give one visible item, and count its use."""
        if not _may_exist(memory_id, MAX_ID_BYTES):
            return None
        items = self._serve(
            lambda reader, owner, now: find_visible(reader, owner, memory_id, now=now)
        )
        return items[0] if items else None

    def search(self, query: str, limit: int) -> list[MemoryItem]:
        """Give the items that match a text best, and count a use of each; blank: the most relevant.

        Raises:
            AdmissionError: The limit is negative, or the query is no text.
            LimitExceededError: The limit is above 1,000, or the query is longer than a content.
        """
        query = _check_query(query)
        return self._list(
            limit,
            lambda reader, owner, now: [
                one[:2] for one in rank_matches(reader, owner, query, limit, now=now)
            ],
            is_slow=True,
        )

    def search_by_tags(self, tags: Sequence[str], limit: int) -> list[MemoryItem]:
        """Give items that have any of the tags, the most relevant first, and count a use of each.

        Raises:
            AdmissionError: The limit is negative, or the tags are one text.
            LimitExceededError: The limit is above 1,000.
        """
        if isinstance(tags, str):
            raise AdmissionError("tags", "must be a list of texts")
        possible = [tag for tag in tags if _may_exist(tag, MAX_TAG_BYTES)]
        return self._list(
            limit,
            lambda reader, owner, now: [
                one[:2] for one in rank_tagged(reader, owner, possible, limit, now=now)
            ],
            is_slow=True,
        )

    def get_recent(self, limit: int) -> list[MemoryItem]:
        """Give the items that were created last, and count a use of each.

        Raises:
            AdmissionError: The limit is negative.
            LimitExceededError: The limit is above 1,000.
        """
        return self._list(
            limit, lambda reader, owner, now: list_recent(reader, owner, limit, now=now)
        )

    def get_important(self, threshold: float, limit: int) -> list[MemoryItem]:
        """Give the items of at least this importance, and count a use of each.

        Raises:
            AdmissionError: The threshold is no finite number, or the limit is negative.
            LimitExceededError: The limit is above 1,000.
        """
        if isinstance(threshold, bool) or not isinstance(threshold, int | float):
            raise AdmissionError("threshold", "must be a number")
        if not math.isfinite(threshold):
            raise AdmissionError("threshold", "must be finite")
        return self._list(
            limit,
            lambda reader, owner, now: list_important(reader, owner, threshold, limit, now=now),
        )

    def delete(self, memory_id: str) -> bool:
        """Make a tombstone of a memory; False if there is nothing to make one of."""
        if not _may_exist(memory_id, MAX_ID_BYTES):
            return False
        now = self._clock()
        with self._store.write() as writer:
            owner = find_namespace(writer, self._namespace)
            return owner is not None and retire_item(writer, owner.namespace_id, memory_id, now=now)

    def clear(self) -> int:
        """Make tombstones of all memories of the namespace, and give how many."""
        now = self._clock()
        with self._store.write() as writer:
            owner = find_namespace(writer, self._namespace)
            return tombstone_all(writer, owner.namespace_id, now=now) if owner else 0

    def count(self) -> int:
        """Count the visible items."""
        now = self._clock()
        with self._store.read() as reader:
            owner = find_namespace(reader, self._namespace)
            return count_visible(reader, owner.namespace_id, now=now) if owner else 0

    def prune(self, policy: PrunePolicy, *, limits: SafetyLimits = SafetyLimits()) -> int:
        """Plan the prune job on this namespace, apply the plan, and give how many were retired.

        Raises:
            PruneNotAppliedError: A safety limit was hit, another run is at work, or it failed.
        """
        with self._store.read() as reader:
            if find_namespace(reader, self._namespace) is None:
                return 0
        request = JobRequest(
            store=self._store.path,
            job="prune",
            policy=policy,
            now=self._clock(),
            clock=self._clock,
            new_run_id=lambda: f"run_{self._new_id()}",
            mode="apply",
            namespace=self._namespace,
            limits=limits,
            lock_wait_s=self._store.lock_wait_s,
        )
        result = run_job(request)[0]
        if result.end.outcome not in _PRUNED:
            raise PruneNotAppliedError(result)
        return result.end.applied

    @property
    def supports_prune(self) -> bool:
        """True: `prune` runs the prune job."""
        return True

    def _list(self, limit: int, choose: Choose, *, is_slow: bool = False) -> list[MemoryItem]:
        return self._serve(choose, is_slow=is_slow) if check_limit(limit) else []

    def _serve(self, choose: Choose, *, is_slow: bool = False) -> list[MemoryItem]:
        served = serve_items(
            self._store, self._namespace, choose, now=self._clock(), is_slow=is_slow
        )
        self.access_not_recorded += 0 if served.is_recorded else len(served.items)
        return served.items


def _may_exist(text: str, limit: int) -> bool:
    """Tell whether a text can be an id or a tag at all; what cannot be is not looked for."""
    try:
        check_identifier(text, limit)
    except ValueError:
        return False
    return True


def _check_query(query: str) -> str:
    if not isinstance(query, str):
        raise AdmissionError("query", "must be text")
    size = len(query.encode(errors="surrogatepass"))
    if size > MAX_CONTENT_BYTES:
        raise LimitExceededError("query", limit=MAX_CONTENT_BYTES, actual=size)
    return query
