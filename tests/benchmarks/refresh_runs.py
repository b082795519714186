"""Runs of the refresh job as the benchmark measures them, and whether what they left is right.

A run is one call of the inline runner with everything loaded that does not belong to the work:
modules, the embedder and, where something is embedded, its model.
"""

import gc
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
from benchmarks.data import NOW
from benchmarks.measure import read_peak_rss

from storage import Store, StoreReader, open_store
from storage.identities import digest_content
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import StoredNamespace, find_namespace
from storage.partitions import Pointer, read_pointer, read_serving
from storage.queries import read_statements
from storage.runs import RunEnd
from storage.vectors import TableFigures, VectorStore
from tasks.inline import run_job
from tasks.policies import RefreshPolicy
from tasks.providers.embedder import Embedder, EmbeddingIdentity, Vector
from tasks.providers.registry import load_embedder
from tasks.refresh.rows import collect_vectors
from tasks.requests import EmbedderChoice, JobRequest

FULL, UNCHANGED, INACTIVE, CHANGED, METADATA = (
    "full",
    "unchanged",
    "inactive",
    "changed",
    "metadata",
)
_SQL = read_statements("benchmarks", "refresh")
# An unchanged tick is so short that one says little; the others cost too much to be repeated here.
_TICKS = 5
_CHECKED_VECTORS = 32
_LEAST_COSINE = 1 - 1e-4


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured call; `fault` says what was wrong with its answer, if anything was."""

    case: str
    wall_s: float = 0.0
    cpu_s: float = 0.0
    fault: str = ""
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a run has to say and to do; None: it writes as many versions as it needs."""

    code: str
    publications: int
    snapshots: int
    versions: int | None = None


EXPECTED = {
    FULL: Expected("published", 1, 1),
    UNCHANGED: Expected("token_match", 0, 0, 0),
    INACTIVE: Expected("snapshot_match", 0, 1, 0),
    CHANGED: Expected("published", 1, 1),
    METADATA: Expected("published", 1, 1),
}


@dataclass(slots=True)
class Clock:
    """Wall and CPU time of the last block."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    @contextmanager
    def run(self) -> Iterator[None]:
        """Measure a block."""
        started = time.perf_counter(), time.process_time()
        yield
        self.wall_s = time.perf_counter() - started[0]
        self.cpu_s = time.process_time() - started[1]


class CountingEmbedder:
    """An embedder that knows how many texts it was given, and how long it took."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder that is loaded already."""
        self._embedder = embedder
        self.texts = 0
        self.wall_s = 0.0

    @property
    def identity(self) -> EmbeddingIdentity:
        """Give that of the embedder."""
        return self._embedder.identity

    def embed_documents(self, texts: Sequence[str]) -> Vector | Sequence[Vector]:
        """Embed texts."""
        with self._counted(len(texts)):
            return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        with self._counted(1):
            return self._embedder.embed_query(text)

    @contextmanager
    def _counted(self, texts: int) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.texts += texts
        self.wall_s += time.perf_counter() - started

    def warm(self) -> None:
        """Let the model be loaded by a first text, and forget about it."""
        self.embed_query("warm")
        self.reset()

    def reset(self) -> None:
        """Begin to count anew."""
        self.texts, self.wall_s = 0, 0.0


def load_parts(name: str) -> CountingEmbedder:
    """Load what a run would import or load on its way."""
    import_module("lancedb")
    return CountingEmbedder(load_embedder(name))


def make_request(path: Path, name: str, embedder: Embedder) -> JobRequest:
    """Ask for a refresh of the store's default namespace."""
    return JobRequest(
        store=path,
        job="refresh",
        policy=RefreshPolicy(),
        now=NOW,
        clock=lambda: datetime.now(UTC),
        new_run_id=lambda: uuid.uuid4().hex,
        mode="apply",
        namespace=DEFAULT_NAMESPACE,
        embedder=EmbedderChoice(name, lambda: embedder),
    )


@contextmanager
def quiet() -> Iterator[None]:
    """What got ready is no garbage: nothing should look through it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def measure_runs(case: str, path: Path, name: str, texts: int) -> Iterator[Sample]:
    """Measure a refresh, or several where nothing has changed.

    Args:
        case: What has happened since the last refresh.
        path: The store.
        name: The embedder.
        texts: How many texts have to be embedded.
    """
    embedder = load_parts(name)
    if texts:
        embedder.warm()
    ticks = _TICKS if case == UNCHANGED else 1
    samples = [_measure_run(case, path, name, embedder, texts) for _ in range(ticks)]
    fault = find_fault(open_store(path), embedder)
    for sample in samples:
        yield replace(sample, fault=sample.fault or fault)


def _measure_run(
    case: str, path: Path, name: str, embedder: CountingEmbedder, texts: int
) -> Sample:
    embedder.reset()
    request, clock = make_request(path, name, embedder), Clock()
    before = read_index(open_store(path))
    with quiet(), clock.run():
        (result,) = run_job(request)
    peak = read_peak_rss()
    after = read_index(open_store(path))
    done = {
        "texts": embedder.texts,
        "publications": after.publications - before.publications,
        "snapshots": result.end.figures.get("snapshot_requests", 0),
        "versions": after.versions - before.versions,
    }
    figures = {**done, "embed_s": embedder.wall_s, "peak_rss_bytes": peak}
    fault = _judge(EXPECTED[case], done, result.end, texts)
    return Sample(case, clock.wall_s, clock.cpu_s, fault, figures)


def _judge(expected: Expected, done: dict[str, int], end: RunEnd, texts: int) -> str:
    if end.code != expected.code:
        return f"ended as {end.outcome}: {end.code}"
    wanted = {
        "texts": texts,
        "publications": expected.publications,
        "snapshots": expected.snapshots,
        "versions": done["versions"] if expected.versions is None else expected.versions,
    }
    wrong = [name for name, count in wanted.items() if done[name] != count]
    return ", ".join(f"{done[name]} {name} for {wanted[name]}" for name in wrong)


@dataclass(frozen=True, slots=True)
class Index:
    """How large the index is; nothing yet before the first refresh."""

    publications: int
    versions: int = 0
    fragments: int = 0
    files: int = 0
    bytes: int = 0


def read_index(store: Store) -> Index:
    """Measure the index of a store that has one generation."""
    with store.read() as reader:
        publications = int(reader.rows(_SQL["count_publications"])[0][0])
    vectors = VectorStore(store.path)
    tables = vectors.tables()
    if not tables:
        return Index(publications)
    found: TableFigures = vectors.figures(tables[0])
    return Index(publications, found.versions, found.fragments, found.file_count, found.byte_count)


@dataclass(frozen=True, slots=True)
class ServedRows:
    """What readers of the default namespace search."""

    owner: StoredNamespace
    partition: str
    publication_id: str
    vector_table: str


def find_served(reader: StoreReader) -> ServedRows:
    """Find what is served.

    Raises:
        RuntimeError: Nothing is.
    """
    owner = find_namespace(reader, DEFAULT_NAMESPACE)
    partition = read_serving(reader, owner.namespace_id) if owner else None
    pointer: Pointer | None = read_pointer(reader, partition.name) if partition else None
    if owner is None or partition is None or pointer is None or pointer.publication_id is None:
        message = "the store serves no index"
        raise RuntimeError(message)
    table = pointer.vector_table or ""
    return ServedRows(owner, partition.name, pointer.publication_id, table)


def list_active(reader: StoreReader) -> list[tuple[str, int, str]]:
    """List (id, revision, content) of the active memories."""
    return reader.rows(_SQL["list_active"])


def find_fault(store: Store, embedder: Embedder) -> str:
    """Compare every served row with the memories, and some vectors with those made anew."""
    with store.read() as reader:
        served = find_served(reader)
        texts = {memory_id: content for memory_id, _, content in list_active(reader)}
    columns = ("memory_id", "content_digest", "record_id", "vector")
    rows = pa.Table.from_batches(
        VectorStore(store.path).read(served.vector_table, served.publication_id, columns)
    )
    ids = rows.column("memory_id").to_pylist()
    digests = dict(zip(ids, rows.column("content_digest").to_pylist(), strict=True))
    if len(ids) != len(texts) or digests != {
        key: digest_content(one) for key, one in texts.items()
    }:
        return "the served rows are not those of the active memories"
    some = rows.take(np.linspace(0, rows.num_rows - 1, _CHECKED_VECTORS).astype(np.int64))
    stored = collect_vectors(some)
    names = zip(*(some.column(one).to_pylist() for one in ("memory_id", "record_id")), strict=True)
    for memory_id, record_id in names:
        (made,) = embedder.embed_documents([texts[memory_id]])
        if made @ stored[record_id] / np.linalg.norm(made) < _LEAST_COSINE:
            return "a served vector is not that of its memory"
    return ""
