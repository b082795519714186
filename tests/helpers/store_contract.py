"""What every store of the store API must do, as tests that a host can run on a store of its own.

Inherit from `MemoryStoreContract` in a test module and give the fixture `make_store`: a function
from a clock to an empty store. Source: spec/recall.md R20-R28.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest

from storage.errors import AdmissionError, LimitExceededError
from tasks.inline import prune_store
from tasks.memory_protocol import MemoryItem, MemoryStore
from tasks.policies import PrunePolicy

START = datetime(2026, 9, 30, tzinfo=UTC)
Clock = Callable[[], datetime]
MakeStore = Callable[[Clock], MemoryStore]


class TestClock:
    """A clock that stands still until it is moved."""

    __test__ = False

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        """Read the clock."""
        return self.now

    def move(self, **step: float) -> None:
        """Move the clock by a time difference, such as ``minutes=1``."""
        self.now += timedelta(**step)


def ids_of(items: Iterable[MemoryItem]) -> list[str | None]:
    """Give the ids of items, in order."""
    return [item.id for item in items]


class MemoryStoreContract:
    """The tests; each has a store of its own."""

    @pytest.fixture
    def clock(self) -> TestClock:
        """Give the clock of the store under test."""
        return TestClock()

    @pytest.fixture
    def memory(self, make_store: MakeStore, clock: TestClock) -> MemoryStore:
        """Give an empty store."""
        return make_store(clock)

    def test_empty_store_has_nothing(self, memory: MemoryStore) -> None:
        assert memory.count() == 0
        assert memory.retrieve("a") is None
        assert memory.search("rust", 10) == []
        assert memory.search_by_tags(["x"], 10) == []
        assert memory.get_recent(10) == []
        assert memory.get_important(0.0, 10) == []
        assert memory.delete("a") is False
        assert memory.clear() == 0

    def test_what_was_stored_is_retrieved(self, memory: MemoryStore) -> None:
        given = MemoryItem(
            "Deploys happen on Mondays.",
            id="a",
            importance=0.75,
            tags=["ops", "Ops"],
            kind="semantic",
            metadata={"source": "chat"},
        )
        memory.store(given)
        found = memory.retrieve("a")
        assert found is not None
        assert (found.id, found.content, found.kind) == ("a", given.content, "semantic")
        assert (found.importance, list(found.tags)) == (0.75, ["ops", "Ops"])
        assert dict(found.metadata) == {"source": "chat"}

    def test_item_without_id_and_time_gets_both(
        self, memory: MemoryStore, clock: TestClock
    ) -> None:
        memory.store(MemoryItem("one"))
        [found] = memory.get_recent(10)
        assert found.id
        assert found.created_at == clock.now

    def test_store_and_return_gives_what_stands_for_the_item(self, memory: MemoryStore) -> None:
        returned = memory.store_and_return(MemoryItem("one", id="a"))
        assert (returned.id, returned.content) == ("a", "one")

    def test_same_id_replaces(self, memory: MemoryStore) -> None:
        memory.store(MemoryItem("one text", id="a"))
        memory.store(MemoryItem("other text", id="a", importance=0.9))
        found = memory.retrieve("a")
        assert found is not None
        assert found.content == "other text"
        assert memory.count() == 1

    def test_search_finds_text_and_gives_the_best_first(self, memory: MemoryStore) -> None:
        memory.store(MemoryItem("ledger", id="a", importance=1.0))
        memory.store(MemoryItem("run ledger archive checks", id="b", importance=0.2))
        memory.store(MemoryItem("nothing of it", id="c"))
        assert ids_of(memory.search("ledger archive checks", 10)) == ["b", "a"]
        assert ids_of(memory.search("ledger archive checks", 1)) == ["b"]
        assert memory.search("python", 10) == []

    def test_tags_match_exactly_and_any_is_enough(
        self, memory: MemoryStore, clock: TestClock
    ) -> None:
        memory.store(MemoryItem("one", id="a", tags=["x"]))
        clock.move(minutes=1)
        memory.store(MemoryItem("two", id="b", tags=["y", "X"]))
        assert ids_of(memory.search_by_tags(["x", "y"], 10)) == ["b", "a"]
        assert ids_of(memory.search_by_tags(["X"], 10)) == ["b"]
        assert memory.search_by_tags([], 10) == []

    def test_recent_is_by_creation_then_id(self, memory: MemoryStore) -> None:
        for name, day in (("b", 1), ("a", 1), ("c", 2)):
            created_at = datetime(2026, 9, day, tzinfo=UTC)
            memory.store(MemoryItem(f"note {name}", id=name, created_at=created_at))
        assert ids_of(memory.get_recent(10)) == ["c", "a", "b"]
        assert ids_of(memory.get_recent(1)) == ["c"]

    def test_important_includes_the_threshold(self, memory: MemoryStore) -> None:
        for name, importance in (("a", 0.5), ("b", 0.25), ("c", 0.75)):
            memory.store(MemoryItem(f"note {name}", id=name, importance=importance))
        assert ids_of(memory.get_important(0.5, 10)) == ["c", "a"]

    def test_deleted_is_gone_once(self, memory: MemoryStore) -> None:
        memory.store(MemoryItem("rust note", id="a"))
        assert [memory.delete("a"), memory.delete("a")] == [True, False]
        assert memory.retrieve("a") is None
        assert memory.search("rust", 10) == []
        assert memory.count() == 0

    def test_cleared_is_empty(self, memory: MemoryStore) -> None:
        memory.store(MemoryItem("one", id="a"))
        memory.store(MemoryItem("two", id="b"))
        assert [memory.clear(), memory.clear()] == [2, 0]
        assert memory.count() == 0

    def test_expired_is_hidden(self, memory: MemoryStore, clock: TestClock) -> None:
        expires_at = clock.now + timedelta(minutes=1)
        memory.store(MemoryItem("rust note", id="a", expires_at=expires_at))
        assert memory.count() == 1
        clock.move(minutes=1)
        assert memory.retrieve("a") is None
        assert memory.search("rust", 10) == memory.get_recent(10) == []
        assert memory.count() == 0

    def test_reads_count_as_uses(self, memory: MemoryStore, clock: TestClock) -> None:
        memory.store(MemoryItem("rust note", id="a", tags=["x"]))
        reads: list[Callable[[], Iterable[MemoryItem | None]]] = [
            lambda: [memory.retrieve("a")],
            lambda: memory.search("rust", 10),
            lambda: memory.search_by_tags(["x"], 10),
            lambda: memory.get_recent(10),
            lambda: memory.get_important(0.0, 10),
        ]
        for number, read in enumerate(reads, start=1):
            clock.move(minutes=1)
            [found] = read()
            assert found is not None
            assert (found.access_count, found.last_accessed_at) == (number, clock.now)

    def test_limits(self, memory: MemoryStore) -> None:
        memory.store(MemoryItem("rust note", id="a", tags=["x"]))
        calls: list[Callable[[int], list[MemoryItem]]] = [
            lambda limit: memory.search("rust", limit),
            lambda limit: memory.search_by_tags(["x"], limit),
            memory.get_recent,
            lambda limit: memory.get_important(0.0, limit),
        ]
        for call in calls:
            assert call(0) == []
            with pytest.raises(AdmissionError):
                call(-1)
            with pytest.raises(LimitExceededError):
                call(1_001)

    def test_pruning_says_whether_it_can(self, memory: MemoryStore) -> None:
        memory.store(MemoryItem("rust note", id="a"))
        result = prune_store(memory, PrunePolicy(), run_id="run_1")
        if memory.supports_prune:
            assert result.end.outcome == "unchanged"
        else:
            assert memory.prune(PrunePolicy()) == 0
            assert (result.end.outcome, result.end.code) == ("refused", "unsupported")
        assert memory.count() == 1
