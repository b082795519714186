"""Fixtures of the suite: a fresh store in a temporary directory, and the instant of all tests."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from helpers.rows import NOW
from helpers.services import Service, serve_embeddings
from helpers.vectors import copy_store

from storage import Store
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace


@pytest.fixture
def now() -> datetime:
    """Give the instant that decisions are made for."""
    return NOW


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Create an empty store with the newest schema."""
    return copy_store(tmp_path / "store")


@pytest.fixture
def namespace_id(store: Store) -> int:
    """Give the number of the default namespace."""
    with store.write() as writer:
        return ensure_namespace(writer, DEFAULT_NAMESPACE).namespace_id


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Serve embeddings on this machine, or what the test wants to be answered."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_embeddings() as service:
        yield service
