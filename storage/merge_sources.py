"""Which ids a memory has taken in by merges, and what each merge could not keep.

Written in the transaction of the merge and taken back with it; an id that comes again is listed
again.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "merge_sources")
_NO_LOSSES = "{}"
_SCHEMA = pa.schema(
    [
        ("memory_id", pa.string()),
        ("revision", pa.int64()),
        ("position", pa.int32()),
        ("source_id", pa.string()),
        ("losses", pa.string()),
    ]
)


class Sources(NamedTuple):
    """The ids that the merge which made a revision of a memory took in, and its losses as JSON."""

    memory_id: str
    revision: int
    source_ids: tuple[str, ...]
    losses: str


def add_sources(writer: StoreWriter, namespace_id: int, merges: Iterable[Sources]) -> None:
    """Add what merges took in; the first row of each has its losses."""
    rows = [
        {
            "memory_id": merge.memory_id,
            "revision": merge.revision,
            "position": position,
            "source_id": source_id,
            "losses": _NO_LOSSES if position else merge.losses,
        }
        for merge in merges
        for position, source_id in enumerate(merge.source_ids)
    ]
    incoming = pa.Table.from_pylist(rows, schema=_SCHEMA)
    writer.insert(_SQL["insert_sources"], incoming, {"namespace_id": namespace_id})


def read_sources(
    reader: StoreReader, namespace_id: int, ids: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Read the ids that each of these memories has taken in, in order, each once."""
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for memory_id, source_id in reader.rows(_SQL["read_sources"], params):
        found[memory_id][source_id] = None
    return {memory_id: tuple(sources) for memory_id, sources in found.items()}


def drop_sources(
    writer: StoreWriter, namespace_id: int, memory_id: str, source_ids: Collection[str]
) -> None:
    """Drop ids that a memory has taken in: they were released."""
    owner = {"namespace_id": namespace_id, "memory_id": memory_id}
    writer.execute(_SQL["drop_sources"], {**owner, "ids": list(source_ids)})
