"""Refreshes in processes that may die: orders for them, and what they must never break.

A world knows every state that its memories were in, so whatever is served can be compared with the
state that it says it was made of.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from helpers.children import Child, start_child
from helpers.sets import SPACE, START, change, change_set, create, evidence

from storage import Store, open_store
from storage.errors import LeaseHeldError, MaintenanceError
from storage.fresh import new_uuid
from storage.history import read_history_of_store
from storage.identities import digest_content, digest_row, digest_set
from storage.invariants import check_invariants
from storage.leases import Lease, acquire_lease, release_lease
from storage.members import read_members
from storage.namespaces import StoredNamespace, ensure_namespace
from storage.partitions import Partition, Pointer, read_pointer, read_serving
from storage.publications import read_publication
from storage.repository import apply_change_set
from storage.runs import RunStart, begin_run, finish_run
from storage.vectors import VectorStore
from tasks.providers.bounds import ExecutionBounds
from tasks.providers.embedder import Vector
from tasks.providers.hashing import HashingEmbedder
from tasks.refresh.ending import end_failed
from tasks.refresh.job import configure_partition
from tasks.refresh.run import refresh
from tasks.refresh.settings import RefreshSettings
from tasks.refresh.source import StoreSource
from tasks.refresh.work import Work

TTL_S = 60
ENDED = "ended "
OnStep = Callable[[str], None]
Names = Sequence[str]
_COLUMNS = ("memory_id", "memory_revision", "content_digest", "record_id", "row_digest", "vector")
_RECEIPTS = "SELECT receipt_id, run_id, index_revision FROM refresh_receipts ORDER BY ALL"
_PHASES = "SELECT run_id, phase FROM publications ORDER BY staged_at, publication_id"
_OUTCOMES = "SELECT run_id, outcome FROM runs"
_FLIPPED = "SELECT run_id FROM publications WHERE revision IS NOT NULL"


class Row(NamedTuple):
    """A memory as an index holds it."""

    memory_id: str
    revision: int
    content_digest: str


class Served(NamedTuple):
    """What readers are served: a publication, the sequence that it was made of, and its rows."""

    publication_id: str
    sequence: int | None
    rows: frozenset[Row]


class Trace(NamedTuple):
    """All that is served and proven, and the versions of the vector tables."""

    served: tuple[object, ...]
    versions: dict[str, int]


@dataclass(frozen=True, slots=True)
class Order:
    """One refresh that a process is to run at a second; it waits at the step `stop_at`.

    `poison` is the digest of a text that the embedder does not survive.
    """

    run_id: str
    store: str
    log: str
    second: int
    stop_at: str = ""
    poison: str = ""


@dataclass(frozen=True, slots=True)
class LoggingEmbedder(HashingEmbedder):
    """Notes in a file each text that it is given, by its digest, and the run that gave it."""

    order: Order
    on_step: OnStep

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed texts; float32 [n, 256]. One text may be the death of the process."""
        digests = [digest_content(text) for text in texts]
        with Path(self.order.log).open("a", encoding="ascii") as log:
            log.writelines(f"{self.order.run_id} {digest}\n" for digest in digests)
        self.on_step("embedding")
        if self.order.poison in digests:
            os.kill(os.getpid(), signal.SIGKILL)
        return HashingEmbedder.embed_documents(self, texts)


class ToldVectors(VectorStore):
    """Vectors that tell when rows are being added, and when they are there."""

    def __init__(self, store_path: Path, on_step: OnStep) -> None:
        """Remember who hears of it."""
        super().__init__(store_path)
        self._on_step = on_step

    def add(self, table: str, rows: pa.RecordBatchReader | pa.Table) -> None:
        """Append rows."""
        self._on_step("adding")
        super().add(table, rows)
        self._on_step("added")


def run_refresh(order: Order, on_step: OnStep = lambda _: None) -> str:
    """Run one refresh; give why it held, the code of its error, or skipped_busy."""
    store, name = open_store(order.store), order.run_id
    clock = START + timedelta(seconds=order.second)
    with store.write() as writer:
        target = ensure_namespace(writer, SPACE)
        try:
            lease = acquire_lease(writer, target, "refresh", holder=name, clock=clock, ttl_s=TTL_S)
        except LeaseHeldError:
            return "skipped_busy"
        start = RunStart(name, "refresh", target.namespace_id, "apply", "manual", clock, clock)
        begin_run(writer, start, lease_fence=lease.fence)
    work = _make_work(store, target, order, lease, on_step)
    try:
        return refresh(work).reason
    except MaintenanceError as error:
        with store.write() as writer:
            finish_run(writer, name, end_failed(work, error), clock=clock)
        return error.code
    finally:
        with store.write() as writer:
            release_lease(writer, lease, clock=clock)


def _make_work(
    store: Store, target: StoredNamespace, order: Order, lease: Lease, on_step: OnStep
) -> Work:
    settings = RefreshSettings()
    return Work(
        store=store,
        vectors=ToldVectors(store.path, on_step),
        target=target,
        lease=lease,
        partition=_find_partition(store, target),
        embedder=LoggingEmbedder(order, on_step),
        bounds=ExecutionBounds(),
        settings=settings,
        source=StoreSource(store, target, settings),
        clock=lambda: START + timedelta(seconds=order.second),
        new_id=lambda: new_uuid().replace("-", ""),
        marks_crashes=bool(order.poison),
        on_step=on_step,
    )


def _find_partition(store: Store, target: StoredNamespace) -> Partition:
    with store.read() as reader:
        history = read_history_of_store(reader, store.path)
    return configure_partition(target, history, "hash", HashingEmbedder())


class ProcessWorld:
    """A store with memories, each state that they were in, and the log of the embedders."""

    def __init__(self, store: Store, log: Path, memories: int) -> None:
        """Take an empty store and a file; `second` is the clock, which only the test moves."""
        self.store, self.log = store, log
        self.second = 0
        self.states: dict[int | None, frozenset[Row]] = {}
        self.texts: dict[str, str] = {}
        self._numbers = count(1)
        with store.write() as writer:
            self.target = ensure_namespace(writer, SPACE)
        self.partition = _find_partition(store, self.target).name
        log.touch()
        self.change(added=[f"m{number}" for number in range(memories)])

    def change(self, *, revised: Names = (), added: Names = (), tombstoned: Names = ()) -> None:
        """Change memories in one set; each new text is one that never was before."""
        at = {row.memory_id: row.revision for row in self.read_active()}
        number = next(self._numbers)
        operations = [create(name, self._write(name, number)) for name in added]
        for name in revised:
            said = [evidence(f"e://{name}/{number}", number)]
            fields = {"content": self._write(name, number), "mode": "correction"}
            operations.append(change("revise", name, at[name], **fields, evidence=said))
        operations += [change("set_status", n, at[n], status="tombstoned") for n in tombstoned]
        result = apply_change_set(self.store, change_set(f"set {number}", number, *operations))
        self.states[result.sequence] = self.read_active()

    def _write(self, name: str, number: int) -> str:
        text = f"note {name} as of change {number}: ledger {number * 7919 % 1000}"
        self.texts[digest_content(text)] = text
        return text

    def order(self, run_id: str, stop_at: str = "") -> Order:
        """Order a refresh for now."""
        return Order(run_id, str(self.store.path), str(self.log), self.second, stop_at)

    def run(self, run_id: str, on_step: OnStep = lambda _: None) -> str:
        """Run a refresh in this process."""
        return run_refresh(self.order(run_id), on_step)

    def pass_lease(self) -> None:
        """Let enough time pass for every lease to end."""
        self.second += TTL_S

    def read_active(self) -> frozenset[Row]:
        """Read the active memories."""
        with self.store.read() as reader:
            members = read_members(reader, self.target.namespace_id)
        columns = (members.column(name).to_pylist() for name in members.schema.names[:3])
        return frozenset(Row(*values) for values in zip(*columns, strict=True))

    def read_embedded(self) -> list[tuple[str, str]]:
        """Read what was ever embedded: run and digest of the text."""
        lines = self.log.read_text(encoding="ascii").splitlines()
        return [(line.split()[0], line.split()[1]) for line in lines]

    def read_pointer(self) -> Pointer | None:
        """Read the pointer."""
        with self.store.read() as reader:
            return read_pointer(reader, self.partition)

    def read_served(self) -> Served | None:
        """Read what readers are served, every vector checked; None: they get no vectors."""
        with self.store.read() as reader:
            serving = read_serving(reader, self.target.namespace_id)
            pointer = read_pointer(reader, serving.name) if serving is not None else None
            if pointer is None or pointer.phase != "verified" or pointer.publication_id is None:
                return None
            found = read_publication(reader, pointer.publication_id)
        assert found is not None
        assert found.phase == "verified"
        assert found.revision == pointer.revision
        name, table = found.publication_id, found.vector_table
        batches = VectorStore(self.store.path).read(table, name, _COLUMNS)
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert len(rows) == found.record_count == pointer.record_count
        assert digest_set((row["record_id"], row["row_digest"]) for row in rows) == found.set_digest
        for row in rows:
            self._check_vector(row)
        held = {Row(r["memory_id"], r["memory_revision"], r["content_digest"]) for r in rows}
        assert len(held) == len(rows)
        return Served(name, found.source_token, frozenset(held))

    def _check_vector(self, row: dict[str, Any]) -> None:
        vector = np.array(row["vector"], dtype=np.float32)
        assert digest_row(row["record_id"], vector.tobytes()) == row["row_digest"]
        made = HashingEmbedder().embed_query(self.texts[row["content_digest"]])
        np.testing.assert_allclose(vector, made / np.linalg.norm(made), atol=1e-6)

    def assert_whole(self) -> Served | None:
        """Check that the store opens, keeps its rules, and serves one whole state or nothing."""
        with open_store(self.store.path).read() as reader:
            assert not [check for check in check_invariants(reader) if check.broken]
        served = self.read_served()
        if served is not None:
            assert served.rows == self.states[served.sequence]
        return served

    def assert_settled(self, run_id: str) -> None:
        """Check that the active memories are served, and that another run has nothing to do."""
        served = self.assert_whole()
        assert (served.rows if served is not None else frozenset()) == self.read_active()
        assert {phase for _, phase in self.read_phases()}.isdisjoint({"staging", "staged"})
        before, embedded = self.take_trace(), self.read_embedded()
        assert self.run(run_id) == "token_match"
        assert self.take_trace() == before
        assert self.read_embedded() == embedded

    def assert_billed_once(self) -> None:
        """Check that no run embedded a text again that another one had published."""
        with self.store.read() as reader:
            flipped = {run_id for (run_id,) in reader.rows(_FLIPPED)}
        embedded, published = self.read_embedded(), set[str]()
        assert len(embedded) == len(set(embedded))
        for run_id, digest in embedded:
            assert digest not in published, run_id
            published |= {digest} if run_id in flipped else set()

    def read_phases(self) -> list[tuple[str, str]]:
        """Read the run and the phase of each publication, in the order of staging."""
        with self.store.read() as reader:
            return reader.rows(_PHASES)

    def read_outcomes(self) -> dict[str, str]:
        """Read how each run ended."""
        with self.store.read() as reader:
            return dict(reader.rows(_OUTCOMES))

    def take_trace(self) -> Trace:
        """Take what a run that has nothing to do leaves as it is."""
        vectors = VectorStore(self.store.path)
        with self.store.read() as reader:
            receipts, serving = (
                reader.rows(_RECEIPTS),
                read_serving(reader, self.target.namespace_id),
            )
        versions = {name: vectors.figures(name).versions for name in vectors.tables()}
        return Trace((self.read_pointer(), self.read_served(), receipts, serving), versions)


def keep_spares(ahead: int = 2) -> Iterator[Callable[[], Child]]:
    """Give a function that gives children which are ready for orders; some are started ahead."""
    with ExitStack() as stack:
        spares = [stack.enter_context(start_child("refresh_on_order")) for _ in range(ahead)]

        def take() -> Child:
            child = spares.pop(0)
            spares.append(stack.enter_context(start_child("refresh_on_order")))
            assert child.hear() == "ready"
            return child

        yield take


def send(child: Child, *orders: Order | None) -> None:
    """Send orders to a child; None lets it go on."""
    assert child.process.stdin is not None
    lines = [json.dumps(asdict(order)) if order is not None else "" for order in orders]
    child.process.stdin.write("".join(f"{line}\n" for line in lines))
    child.process.stdin.flush()


def hear_until(child: Child, start: str) -> str:
    """Wait until a child says a line that starts like this, and give the rest of it."""
    heard = child.hear()
    while not heard.startswith(start):
        assert heard
        heard = child.hear()
    return heard.removeprefix(start)
