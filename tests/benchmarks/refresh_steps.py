"""Where the time of a refresh goes, step by step.

The same job as the runner's, put together here from its own parts, because only then can a host
follow the steps: `Work.on_step`, the source's two reads, and the doors of the vector store. A
phase lasts from one mark to the next; phases of the same name are added up.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from benchmarks.refresh_runs import (
    CHANGED,
    UNCHANGED,
    CountingEmbedder,
    Sample,
    find_fault,
    load_parts,
    make_request,
    quiet,
)

from storage import StoreReader, open_store
from storage.epochs import enter_epoch
from storage.fresh import new_uuid
from storage.history import settle_history
from storage.leases import Lease
from storage.vectors import VectorStore
from tasks.providers.bounds import ExecutionBounds
from tasks.providers.registry import find_traits
from tasks.refresh.ending import end_refreshed
from tasks.refresh.job import configure_partition
from tasks.refresh.run import refresh
from tasks.refresh.settings import RefreshSettings, Step
from tasks.refresh.source import StoreSource, Token, View
from tasks.refresh.work import Refreshed, Work
from tasks.requests import JobRequest
from tasks.stages import begin_stage, find_targets, finish_stage

STEPS = "steps of "
_TICKS = 5


_NAMES: dict[Step, str] = {
    "observe": "observe",
    "token_1": "token",
    "before_stage": "stage: intent",
    "before_publish": "flip",
    "before_verify": "verify: observe",
    "before_receipt": "receipt and run row",
    "after_receipt": "end",
}


class Marks:
    """Seconds by phase, in the order in which the phases first began."""

    def __init__(self) -> None:
        """Begin with no phase."""
        self.spans: dict[str, float] = {}
        self.phase = ""
        self._since = 0.0

    def mark(self, phase: str) -> None:
        """End the phase and begin another one."""
        now = time.perf_counter()
        if self.phase:
            self.spans[self.phase] = self.spans.get(self.phase, 0.0) + now - self._since
        self.phase, self._since = phase, now

    def reach(self, step: Step) -> None:
        """Begin the phase of a step of the job, if it has one of its own."""
        if step in _NAMES:
            self.mark(_NAMES[step])


class MarkedSource:
    """The store as a source, with marks around what it reads."""

    is_co_transactional = True

    def __init__(self, source: StoreSource, marks: Marks) -> None:
        """Wrap the source."""
        self._source = source
        self.marks = marks

    def take_view(self) -> View:
        """Read the snapshot."""
        self.marks.mark("snapshot: digest and members")
        view = self._source.take_view()
        self.marks.mark("classify members")
        return view

    def read_token(self) -> Token:
        """Read the token."""
        self.marks.mark("token")
        return self._source.read_token()

    def read_token_in(self, reader: StoreReader) -> Token:
        """Read the token in an open transaction."""
        self.marks.mark("token")
        return self._source.read_token_in(reader)

    def verify_view(self) -> None:
        """Believe our own database."""

    def read_texts(self, wanted: pa.Table) -> pa.Table:
        """Read the texts to embed."""
        self.marks.mark("read texts to embed")
        texts = self._source.read_texts(wanted)
        self.marks.mark("embed, build rows, set digest")
        return texts


class MarkedVectors(VectorStore):
    """The vector store with marks around what reads or writes rows."""

    def __init__(self, store_path: Path, marks: Marks) -> None:
        """Remember where it is."""
        super().__init__(store_path)
        self.marks = marks

    def add(self, table: str, rows: pa.RecordBatchReader | pa.Table) -> None:
        """Append rows."""
        self.marks.mark("stage: append to Lance")
        super().add(table, rows)
        self.marks.mark("stage: count, record rows")

    def read(
        self, table: str, publication_id: str, columns: Iterable[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read rows; the phase lasts as long as somebody takes them."""
        is_copy = self.marks.phase == "classify members"
        self.marks.mark("copy proven vectors" if is_copy else "verify: read back")
        yield from super().read(table, publication_id, columns)
        self.marks.mark("merge rows" if is_copy else "verify: compare digests")


def measure_steps(path: Path, name: str, texts: int) -> Iterator[Sample]:
    """Measure the phases of one refresh after changes, and of ticks with nothing to do."""
    embedder = load_parts(name)
    embedder.warm()
    for case in (CHANGED, *[UNCHANGED] * _TICKS):
        embedder.reset()
        marks = Marks()
        with quiet():
            ended = _run(make_request(path, name, embedder), embedder, name, marks)
        given, embed_s = embedder.texts, embedder.wall_s
        fault = "" if given == texts * (case == CHANGED) else f"{given} texts embedded"
        if ended.is_unchanged != (case == UNCHANGED):
            fault = f"ended as {ended.reason}"
        fault = fault or find_fault(open_store(path), embedder)
        total_s = sum(marks.spans.values())
        figures = {**marks.spans, "of it in the embedder": embed_s} if embed_s else marks.spans
        yield Sample(STEPS + case, total_s, 0.0, fault, figures)


def _run(request: JobRequest, embedder: CountingEmbedder, name: str, marks: Marks) -> Refreshed:
    marks.mark("lease, run row, epoch")
    request, (target,) = find_targets(request)
    lease = begin_stage(request, target, request.new_run_id())
    if not isinstance(lease, Lease):
        raise lease
    store, settings, clock = request.handle(), RefreshSettings(), request.clock()
    with store.write() as writer:
        history = settle_history(writer, store.path, clock=clock)
        partition = configure_partition(target, history, name, embedder)
        enter_epoch(writer, lease, generation=partition.generation, clock=clock)
    work = Work(
        store=store,
        vectors=MarkedVectors(store.path, marks),
        target=target,
        lease=lease,
        partition=partition,
        embedder=embedder,
        bounds=ExecutionBounds(),
        settings=settings,
        source=MarkedSource(StoreSource(store, target, settings), marks),
        clock=request.clock,
        new_id=lambda: new_uuid().replace("-", ""),
        marks_crashes=find_traits(name).may_crash,
        on_step=marks.reach,
    )
    marks.mark("recover")
    ended = refresh(work)
    marks.mark("end")
    finish_stage(request, lease, end_refreshed(work, ended))
    marks.mark("")
    return ended
