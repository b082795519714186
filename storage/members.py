"""The active memories of a namespace as the vector index sees them: ids, revisions, digests."""

import pyarrow as pa

from storage.gateway import StoreReader
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "members")

# No record id and no text: those are made for the rows that need them.
SCHEMA = pa.schema(
    [
        ("memory_id", pa.string()),
        ("revision", pa.int64()),
        ("content_digest", pa.string()),
        ("created_at", pa.timestamp("us", tz="UTC")),
    ]
)


def read_members(reader: StoreReader, namespace_id: int) -> pa.Table:
    """Read the active memories (SCHEMA), sorted by id."""
    return reader.table(_SQL["read_members"], {"namespace_id": namespace_id}).cast(SCHEMA)


def read_texts(reader: StoreReader, namespace_id: int, wanted: pa.Table) -> pa.Table:
    """Read texts by memory_id and content_digest; rows that have changed since are left out.

    Returns:
        record_id, content; in no order.
    """
    params = {"namespace_id": namespace_id}
    return reader.table(_SQL["read_texts"], params, incoming=wanted)


def count_active(reader: StoreReader, namespace_id: int) -> int:
    """Count the active memories."""
    return int(reader.rows(_SQL["count_active"], {"namespace_id": namespace_id})[0][0])
