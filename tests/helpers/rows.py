"""Rows of the table `memories` for tests, written past admission: nothing here is validated."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

import pyarrow as pa

from storage.memories import MEMORY_SCHEMA, encode_labels

NOW = datetime(2026, 9, 30, tzinfo=UTC)
_DEFAULTS: Mapping[str, object] = {
    "namespace_id": 1,
    "id": "m1",
    "revision": 1,
    "revision_kind": "created",
    "kind": "episodic",
    "status": "active",
    "confidence": 0.5,
    "importance": 0.2,
    "tags": [],
    "metadata": {},
    "pinned": False,
    "created_at": NOW - timedelta(days=1),
    "access_count": 0,
    "origin": "import",
}


def memory_table(*rows: Mapping[str, object]) -> pa.Table:
    """Build MEMORY_SCHEMA rows; `tags` and `metadata` are Python values, the rest has defaults.

    An absent instant is that of `created_at`, or NULL where the column may be; `marks` are found
    in tags and metadata unless they are given.

    Raises:
        ValueError: A row has a field that is no column.
    """
    return pa.Table.from_pylist([_complete(row) for row in rows], schema=MEMORY_SCHEMA)


def _complete(given: Mapping[str, object]) -> dict[str, object]:
    if unknown := given.keys() - set(MEMORY_SCHEMA.names):
        message = f"no such columns: {sorted(unknown)}"
        raise ValueError(message)
    row = {**_DEFAULTS, **given}
    row.setdefault("content", f"memory {row['id']}")
    row.setdefault("updated_at", row["created_at"])
    row.setdefault("content_at", row["created_at"])
    tags, metadata = cast("list[str]", row["tags"]), cast("dict[str, str]", row["metadata"])
    return row | encode_labels(tags, metadata) | {k: v for k, v in given.items() if k == "marks"}
