"""Which ids a memory has taken in by merges, and what each merge could not keep.

Only added to, in the transaction of the merge; an id that comes again is listed again.
"""

from collections.abc import Iterable

import pyarrow as pa

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "merge_sources")
_NO_LOSSES = "{}"
_SCHEMA = pa.schema(
    [
        ("namespace_id", pa.int32()),
        ("memory_id", pa.string()),
        ("revision", pa.int64()),
        ("position", pa.int32()),
        ("source_id", pa.string()),
        ("losses", pa.string()),
    ]
)


def add_sources(  # noqa: PLR0913 - whose, at which revision, what
    writer: StoreWriter,
    namespace_id: int,
    memory_id: str,
    *,
    revision: int,
    source_ids: Iterable[str],
    losses: str,
) -> None:
    """Add the ids that the merge which made `revision` took in; its first row has the losses."""
    owner = {"namespace_id": namespace_id, "memory_id": memory_id, "revision": revision}
    rows = [
        {
            **owner,
            "position": position,
            "source_id": source_id,
            "losses": _NO_LOSSES if position else losses,
        }
        for position, source_id in enumerate(source_ids)
    ]
    writer.insert(_SQL["insert_sources"], pa.Table.from_pylist(rows, schema=_SCHEMA))


def read_sources(reader: StoreReader, namespace_id: int, memory_id: str) -> tuple[str, ...]:
    """Read the ids that a memory has taken in, in order, each once."""
    params = {"namespace_id": namespace_id, "memory_id": memory_id}
    rows = reader.rows(_SQL["read_sources"], params)
    return tuple(dict.fromkeys(row[0] for row in rows))
