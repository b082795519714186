"""The contract of the store API holds for a memtend store and for a host's own."""

import uuid
from collections.abc import Callable

import pytest
from helpers.dict_store import DictStore
from helpers.store_contract import Clock, MakeStore, MemoryStoreContract

from storage import Store
from storage.models import DEFAULT_NAMESPACE
from tasks.memory_store import DuckMemoryStore, MemoryStore


class TestDuckMemoryStore(MemoryStoreContract):
    @pytest.fixture
    def make_store(self, store: Store) -> MakeStore:
        def make(clock: Clock) -> MemoryStore:
            new_id: Callable[[], str] = lambda: str(uuid.uuid4())  # noqa: E731
            return DuckMemoryStore(store, DEFAULT_NAMESPACE, clock=clock, new_id=new_id)

        return make


class TestCustomStore(MemoryStoreContract):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        return DictStore
