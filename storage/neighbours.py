"""What neighbours are looked for among: the vectors that are served with their current text.

Source: spec/consolidate.md R70, R74.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from storage.gateway import StoreReader
from storage.history import read_history_of_store
from storage.partitions import Pointer, read_pointer, read_serving
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "neighbours")

# The metadata of a memory whose vector is that of a cut text says so: "true".
TRUNCATED = "embedding_truncated"


@dataclass(frozen=True, slots=True)
class Embedded:
    """The memories of a namespace as one publication holds them.

    Attributes:
        partition: The serving generation of the namespace.
        publication_id: What is served.
        vector_table: Where its vectors are.
        record_count: How many rows it has.
        members: memory_id, text_number, content_digest, state (current, stale, missing) and
            is_truncated; in order of (created_at, id).
    """

    partition: str
    publication_id: str
    vector_table: str
    record_count: int
    members: pa.Table


def read_embedded(
    reader: StoreReader, namespace_id: int, store_path: Path, *, now: datetime
) -> Embedded | None:
    """Read what the serving generation of a namespace holds of the memories that take part.

    Returns:
        None where nothing verified is served, or it belongs to another history of the store.
    """
    served = read_serving(reader, namespace_id)
    if served is None:
        return None
    pointer = read_pointer(reader, served.name)
    if pointer is None or pointer.phase != "verified":
        return None
    if pointer.publication_id is None or pointer.vector_table is None:
        return None
    if not _is_ours(reader, pointer, store_path):
        return None
    params = {
        "namespace_id": namespace_id,
        "publication_id": pointer.publication_id,
        "truncated_path": f"$.{TRUNCATED}",
        "now": now,
    }
    members = reader.table(_SQL["list_embedded"], params)
    return Embedded(
        partition=served.name,
        publication_id=pointer.publication_id,
        vector_table=pointer.vector_table,
        record_count=pointer.record_count,
        members=members,
    )


def _is_ours(reader: StoreReader, pointer: Pointer, store_path: Path) -> bool:
    history = read_history_of_store(reader, store_path)
    return history.is_current and pointer.store_history == history.digest
