"""A host's own store in a dictionary: the nine calls of the store API and nothing else."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from storage.matching import match_strength
from tasks.memory_protocol import CustomMemoryStore, MemoryItem, check_limit


class DictStore(CustomMemoryStore):
    """Items by id; it neither merges nor prunes."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._items: dict[str, MemoryItem] = {}

    def store(self, item: MemoryItem) -> None:
        memory_id = item.id or f"item-{len(self._items)}"
        created_at = item.created_at or self._clock()
        self._items[memory_id] = replace(item, id=memory_id, created_at=created_at)

    def retrieve(self, memory_id: str) -> MemoryItem | None:
        found = [item for item in self._visible() if item.id == memory_id]
        return self._use(found)[0] if found else None

    def search(self, query: str, limit: int) -> list[MemoryItem]:
        scored = [
            (strength, item)
            for item in self._visible()
            if (strength := match_strength(query, item.content, item.tags, item.kind)) is not None
        ]
        scored.sort(key=lambda pair: pair[0] + pair[1].importance, reverse=True)
        return self._use(item for _, item in scored[: check_limit(limit)])

    def search_by_tags(self, tags: Sequence[str], limit: int) -> list[MemoryItem]:
        found = [item for item in self._newest() if set(tags) & set(item.tags)]
        return self._use(found[: check_limit(limit)])

    def get_recent(self, limit: int) -> list[MemoryItem]:
        return self._use(self._newest()[: check_limit(limit)])

    def get_important(self, threshold: float, limit: int) -> list[MemoryItem]:
        found = [item for item in self._newest() if item.importance >= threshold]
        found.sort(key=lambda item: -item.importance)
        return self._use(found[: check_limit(limit)])

    def delete(self, memory_id: str) -> bool:
        return self._items.pop(memory_id, None) is not None

    def clear(self) -> int:
        count = len(self._items)
        self._items.clear()
        return count

    def count(self) -> int:
        return len(self._visible())

    def _visible(self) -> list[MemoryItem]:
        now = self._clock()
        every = self._items.values()
        return [item for item in every if item.expires_at is None or item.expires_at > now]

    def _newest(self) -> list[MemoryItem]:
        by_id = sorted(self._visible(), key=lambda item: str(item.id))
        return sorted(by_id, key=lambda item: item.created_at or self._clock(), reverse=True)

    def _use(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        used = []
        for item in items:
            count = item.access_count + 1
            now = replace(item, access_count=count, last_accessed_at=self._clock())
            self._items[str(item.id)] = now
            used.append(now)
        return used
