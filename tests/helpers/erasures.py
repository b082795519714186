"""Erasures in tests: stores with an index and exports, erased as people do, and searched after."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
from helpers.children import start_child
from helpers.imports import write_lines
from helpers.rows import NOW
from helpers.runs import request_job, run_one
from helpers.vectors import Json

from storage import Store
from storage.erasures import list_proofs
from storage.models import DEFAULT_NAMESPACE, Namespace
from tasks.erasing.selection import ErasePolicy
from tasks.health.policy import HealthPolicy
from tasks.hits import Hit, RecallPolicy
from tasks.importing import ImportReport, import_file
from tasks.policies import RefreshPolicy
from tasks.providers.hashing import HashingEmbedder
from tasks.recall import SemanticSource, recall_memories
from tasks.report import RunResult
from tasks.requests import EmbedderChoice

CREATED = "2026-09-01T00:00:00Z"
EMBEDDER = EmbedderChoice("hash", HashingEmbedder)


def remember(memory_id: str, content: str, **more: Any) -> Json:  # noqa: ANN401
    """Give an import record."""
    return {"id": memory_id, "content": content, "created_at": CREATED, **more}


def fill(
    store: Store, path: Path, *lines: object, namespace: Namespace = DEFAULT_NAMESPACE
) -> ImportReport:
    """Import records into a namespace."""
    return import_file(store, write_lines(path, *lines), namespace=namespace, clock=NOW)


def refresh(store: Store, namespace: Namespace = DEFAULT_NAMESPACE) -> RunResult:
    """Publish the active memories of a namespace."""
    asked = {"job": "refresh", "policy": RefreshPolicy(), "mode": "apply", "now": NOW}
    return run_one(request_job(store, **asked, namespace=namespace, embedder=EMBEDDER))


def export(store: Store) -> RunResult:
    """Let a health run write what notebooks read."""
    asked = {"job": "health", "policy": HealthPolicy(), "mode": "apply", "now": NOW}
    return run_one(request_job(store, **asked))


def erase(
    store: Store,
    *ids: str,
    namespace: Namespace | None = DEFAULT_NAMESPACE,
    now: datetime = NOW,
    **asked: Any,  # noqa: ANN401 - fields of the policy
) -> RunResult:
    """Erase memories, a subject or a namespace."""
    policy = ErasePolicy(ids=ids, **asked)
    request = request_job(
        store, job="erase", policy=policy, mode="apply", now=now, namespace=namespace
    )
    return run_one(request)


def proof_of(store: Store, result: RunResult) -> dict[str, Any]:
    """Read what a run erased, with its proof."""
    with store.read() as reader:
        found = list_proofs(reader, [result.run_id])
    (own,) = (one for one in found if one["erasure_id"] == result.run_id)
    return own


def recall(store: Store, query: str, namespace: Namespace = DEFAULT_NAMESPACE) -> tuple[Hit, ...]:
    """Recall by words and by meaning."""
    source = SemanticSource(load=HashingEmbedder)
    found = recall_memories(
        store, namespace, query, policy=RecallPolicy(), now=NOW + timedelta(days=1), source=source
    )
    return tuple(found.hits)


def read_vectors(store: Store) -> list[Json]:
    """Read every row of every vector table."""
    database = lancedb.connect(store.path / "vectors")
    return [
        row
        for file in sorted((store.path / "vectors").glob("*.lance"))
        for row in database.open_table(file.stem).search().limit(None).to_arrow().to_pylist()
    ]


def delete_vectors(store: Store, memory_id: str) -> None:
    """Delete every row of a memory from the vector tables, and nothing else."""
    database = lancedb.connect(store.path / "vectors")
    for file in (store.path / "vectors").glob("*.lance"):
        database.open_table(file.stem).delete(f"memory_id = '{memory_id}'")


def pack(vector: Iterable[float]) -> bytes:
    """Give the bytes of a vector as a file holds them."""
    return bytes(pa.array(list(vector), pa.float32()).to_numpy().tobytes())


def find_bytes(path: Path, needles: Mapping[str, bytes]) -> dict[str, set[str]]:
    """Find in which files of a directory some bytes stand; nothing may have the store open."""
    found: dict[str, set[str]] = {}
    for file in _list_files(path):
        data = file.read_bytes()
        for name, needle in needles.items():
            if needle in data:
                found.setdefault(name, set()).add(file.relative_to(path).as_posix())
    return found


def _list_files(path: Path) -> Iterator[Path]:
    return (file for file in sorted(path.rglob("*")) if file.is_file())


def kill_after_rows(store: Store, memory_id: str) -> list[str]:
    """Let a process erase a memory, and kill it when the rows are gone; give what it said."""
    with start_child("erase_memories", store.path, "rows", memory_id) as child:
        child.signal()
        return child.hear_all()
