"""A store under a clock that a test moves, and the change sets of the refresh vectors."""

import itertools
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from helpers.embedders import IDENTITY
from helpers.erasures import delete_vectors
from helpers.refresh_parts import SPACE, START, Json, Killed, StoreRepository

from storage import create_store
from storage.access import parse_event, record_events
from storage.index_errors import IndexUnreadableError
from storage.instants import format_instant
from storage.models import Namespace
from storage.namespaces import (
    ensure_namespace,
)
from storage.receipts import Checkpoint
from storage.records import read_record
from storage.removal import remove_memories
from storage.repository import apply_change_set
from tasks.providers.bounds import ExecutionBounds
from tasks.refresh.settings import RefreshSettings
from tasks.refresh.work import Owner, Work


class MemoryWorld:
    """A store under a clock that the test moves, with the settings of one case."""

    def __init__(  # noqa: PLR0913 - what a case may say
        self,
        path: Path,
        texts: dict[str, str],
        settings: RefreshSettings,
        *,
        is_external: bool = False,
        has_token: bool = True,
        owner: Owner | None = None,
        has_history: bool = True,
    ) -> None:
        """Create the store; `is_external`: memories are read like a host's own repository."""
        self.is_external = is_external
        self.owner = owner
        self.has_history = has_history
        self.checkpoint: Checkpoint | None = None
        self.texts = texts
        self.settings = settings
        self.seconds = 0
        self.faults: dict[str, str | None] = {}
        self.script: list[str] = []
        self.response: str | None = None
        self.revision = IDENTITY.revision
        self.bounds = ExecutionBounds(max_input_text_bytes=65_536)
        self.keys = itertools.count()
        self.inject: dict[str, list[Json]] = {}
        self.kill: str | None = None
        self.reached: dict[str, int] = {}
        self.index_error = False
        self.at_work: Work | None = None
        self.store, _ = create_store(path, clock=START)
        with self.store.write() as writer:
            self.target = ensure_namespace(writer, SPACE)
        self.repository = StoreRepository(self.store, has_token=has_token)
        self.other = Namespace(tenant="tenant", principal="principal", scope="other")

    def clock(self) -> datetime:
        """Give the wall clock of the case."""
        return START + timedelta(seconds=self.seconds)

    def now(self) -> str:
        """Give the same as text."""
        return format_instant(self.clock())

    def reach(self, point: str) -> None:
        """Do what the case has in store for a point of the run; a `#2` is its second time."""
        count = self.reached[point] = self.reached.get(point, 0) + 1
        name = point if count == 1 else f"{point}#{count}"
        for step in self.inject.pop(name, []):
            self.do(step)
        if point == "observe_final" and self.index_error:
            self.index_error = False
            raise IndexUnreadableError
        if self.kill == name:
            self.die()

    def die(self) -> NoReturn:
        """End the run where it is; a process that is gone clears no markers, either."""
        assert self.at_work is not None
        self.at_work.marks_crashes = False
        raise Killed

    def do(self, step: Json) -> Any:  # noqa: ANN401 - what the step gives
        """Do one step of a case; a run gives what came of it."""
        method = getattr(self, f"do_{step['op']}")
        return method(**{name: value for name, value in step.items() if name != "op"})

    def do_tx(self, ops: list[Json]) -> None:
        """Apply one change set, or what is none: an access, an erasure."""
        operations = []
        for op in ops:
            made = getattr(self, f"_make_{op['op']}")(**{k: v for k, v in op.items() if k != "op"})
            operations += [made] if made else []
        if operations:
            self._apply(SPACE, operations)

    def _apply(self, namespace: Namespace, operations: list[Json]) -> None:
        key = f"k{next(self.keys)}"
        values = {"idempotency_key": key, "namespace": namespace.model_dump()}
        apply_change_set(
            self.store, {**values, "occurred_at": self.now(), "operations": operations}
        )

    def _make_add(self, id: str, text: str, status: str = "active") -> Json:  # noqa: A002
        said = {"uri": "e://1", "digest": "d1", "kind": "manual", "occurred_at": self.now()}
        memory = {"id": id, "kind": "semantic", "status": status, "content": self.text(text)}
        return {"op": "create", "memory": {**memory, "evidence": [said], "created_at": self.now()}}

    def _change(self, op: str, memory_id: str, **fields: object) -> Json:
        with self.store.read() as reader:
            found = read_record(reader, self.target.namespace_id, memory_id)
        assert found is not None
        return {"op": op, "memory_id": memory_id, "expected_revision": found.revision, **fields}

    def _make_revise(self, id: str, text: str) -> Json:  # noqa: A002
        fields = {"content": self.text(text), "mode": "correction", "evidence": []}
        said = {"uri": f"e://{text}", "digest": "d1", "kind": "manual", "occurred_at": self.now()}
        return self._change("revise", id, **{**fields, "evidence": [said]})

    def _make_importance(self, id: str, value: float) -> Json:  # noqa: A002
        return self._change("annotate", id, importance=value)

    def _make_relabel(self, id: str) -> Json:  # noqa: A002
        return self._change("annotate", id, metadata={"label": "x"})

    def _make_tombstone(self, id: str) -> Json:  # noqa: A002
        return self._change("set_status", id, status="tombstoned")

    def _make_restore(self, id: str) -> Json:  # noqa: A002
        return self._change("restore", id)

    def _make_access(self, id: str) -> None:  # noqa: A002
        values = {"id": f"use-{next(self.keys)}", "namespace": SPACE.model_dump()}
        event = {**values, "memory_id": id, "revision": 1, "occurred_at": self.now()}
        (refused,) = record_events(self.store, "use", [parse_event(event)])
        assert refused is None

    def _make_erase(self, id: str) -> None:  # noqa: A002
        with self.store.write() as writer:
            remove_memories(writer, self.target.namespace_id, [id], now=self.clock())
        delete_vectors(self.store, id)

    def text(self, name: str) -> str:
        """Give the text that a case calls by a name."""
        return self.texts.get(name, name)
