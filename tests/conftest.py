"""Fixtures of the suite: a fresh store in a temporary directory, and the instant of all tests."""

from datetime import datetime
from pathlib import Path

import pytest
from helpers.rows import NOW

from storage import Store, create_store
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace


@pytest.fixture
def now() -> datetime:
    """Give the instant that decisions are made for."""
    return NOW


@pytest.fixture
def store(tmp_path: Path, now: datetime) -> Store:
    """Create an empty store with the newest schema."""
    return create_store(tmp_path / "store", clock=now)[0]


@pytest.fixture
def namespace_id(store: Store) -> int:
    """Give the number of the default namespace."""
    with store.write() as writer:
        return ensure_namespace(writer, DEFAULT_NAMESPACE).namespace_id
