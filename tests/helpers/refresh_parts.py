"""The embedders and the repository of refresh tests: real ones, with faults that a test chooses."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol

import numpy as np
from helpers.embedders import IDENTITY, vector_of

from storage import Store
from storage.models import MemoryRecord, Namespace
from storage.namespaces import (
    find_namespace,
    read_sequence,
)
from storage.records import read_records
from storage.snapshots import Snapshot, SnapshotRequest, take_snapshot
from tasks.providers.embedder import (
    ProviderResponseError,
    ProviderUnavailableError,
    Vector,
)
from tasks.refresh.source import TOKEN_PROFILE, Token

Json = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
SPACE = Namespace(tenant="tenant", principal="principal", scope="complete")
AUTHORITY = "sha256:" + "d" * 64


class Killed(BaseException):
    """The process is gone: nothing of ours may run after this."""


class Faults(Protocol):
    """What decides how an embedder behaves."""

    faults: dict[str, str | None]
    script: list[str]
    response: str | None

    def reach(self, point: str) -> None:
        """Tell that a point of the run was reached."""
        ...

    def die(self) -> NoReturn:
        """End the process."""
        ...


class FaultyEmbedder:
    """An embedder whose faults are chosen by text, by call, or for whole answers."""

    def __init__(self, world: "Faults", revision: str) -> None:
        """Remember the world, whose faults are this embedder's."""
        self.identity = IDENTITY.model_copy(update={"revision": revision})
        self._world = world
        self.requests = 0
        self.inputs = 0
        self.input_bytes = 0

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts, one array a text."""
        world = self._world
        self.requests += 1
        self.inputs += len(texts)
        self.input_bytes += sum(len(text.encode()) for text in texts)
        world.reach("provider_call")
        if world.script and world.script.pop(0) == "unavailable":
            raise ProviderUnavailableError
        if world.response is not None:
            raise ProviderResponseError(reason=world.response)
        faults = [world.faults.get(text) for text in texts]
        if "kill" in faults:
            world.die()
        if "raise" in faults:
            message = "this embedder fails on a text"
            raise RuntimeError(message)
        return [_damage(vector_of(text), fault) for text, fault in zip(texts, faults, strict=True)]

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text."""
        return self.embed_documents([text])[0]


class PlainEmbedder:
    """The same embedder without faults, for what others do meanwhile."""

    def __init__(self, revision: str) -> None:
        """Name the revision of the model."""
        self.identity = IDENTITY.model_copy(update={"revision": revision})

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts, one array a text."""
        return [vector_of(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text."""
        return vector_of(text)


def _damage(vector: Vector, fault: str | None) -> Vector:
    changed = {
        "wrong_dimension": np.zeros(3, np.float32),
        "nan": np.full(2, np.nan, np.float32),
        "zero": np.zeros(2, np.float32),
        "not_unit": vector * np.float32(2),
    }
    return changed.get(fault or "", vector)


class StoreRepository:
    """A host's own repository: memories of a store, read from outside, with faults."""

    def __init__(self, store: Store, *, has_token: bool) -> None:
        """Remember the store."""
        self.store = store
        self.has_token = has_token
        self.profile = TOKEN_PROFILE
        self.fails = False
        self.is_forged = False

    def _fail_once(self) -> None:
        if self.fails:
            self.fails = False
            message = "the repository is not there"
            raise OSError(message)

    def read_token(self) -> Token | None:
        """Read the token, if there is one."""
        self._fail_once()
        if not self.has_token:
            return None
        with self.store.read() as reader:
            owner = find_namespace(reader, SPACE)
            assert owner is not None
            return Token(read_sequence(reader, owner.namespace_id), self.profile)

    def take_snapshot(self, request: SnapshotRequest) -> tuple[Snapshot, list[MemoryRecord]]:
        """Take a snapshot of the store, perhaps with a digest that is not its own."""
        self._fail_once()
        with self.store.read() as reader:
            owner = find_namespace(reader, request.namespace)
            assert owner is not None
            snapshot = take_snapshot(
                reader,
                request.namespace,
                max_nodes=request.max_nodes,
                max_bytes=request.max_bytes,
                profile=request.profile,
            )
            records = read_records(reader, owner.namespace_id, snapshot.ids)
        if self.is_forged:
            snapshot = replace(snapshot, digest="sha256:" + "0" * 64)
        return snapshot, [records[name] for name in snapshot.ids]
