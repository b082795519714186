"""Fingerprints: what a content says regardless of case, blanks and punctuation.

The stored key only narrows: whoever looks for a copy compares fingerprints, which are not stored.
Every content that is written gets its key in the same transaction. Source: spec/consolidate.md R10.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from storage.gateway import StoreReader, StoreWriter
from storage.lexical import hash_term, is_alphanumeric, make_splitter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "fingerprints")
_KEY_SCHEMA = pa.schema(
    [
        ("namespace_id", pa.int32()),
        ("memory_id", pa.string()),
        ("fingerprint_key", pa.int64()),
    ]
)
_SHORTEST = 24
_NO_KEY = 0
_BATCH = 20_000
# Up to this many keys are written one by one.
_SINGLY = 4
# The only letter whose small form depends on its neighbours, in a word.
_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
_split = make_splitter(is_alphanumeric)


class Copy(NamedTuple):
    """A memory whose content has the same fingerprint; its figures and marks may differ."""

    memory_id: str
    content: str
    expires_at: datetime | None


def fingerprint(content: str) -> str | None:
    """Give the fingerprint of a content, or None where it is too short to tell copies apart.

    Each character is lower-cased on its own: a capital sigma always becomes a plain small one.
    """
    words = " ".join(_split(content.replace(_SIGMA, _SIGMA.lower()).lower()))
    return words if len(words) >= _SHORTEST else None


def key_of(content: str) -> int:
    """Give the stored key of a content: 64 bits of its fingerprint's SHA-256, 0 without one."""
    words = fingerprint(content)
    return _NO_KEY if words is None else hash_term(words)


def write_keys(writer: StoreWriter, namespace_id: int, texts: Iterable[tuple[str, str]]) -> None:
    """Write the keys of contents.

    In the transaction that inserted the memories or changed their content, after that write.

    Args:
        writer: The open transaction.
        namespace_id: Whose memories they are.
        texts: (memory id, content), each memory once.
    """
    keys = [(memory_id, key_of(content)) for memory_id, content in texts]
    if len(keys) <= _SINGLY:
        for memory_id, key in keys:
            names = {"namespace_id": namespace_id, "memory_id": memory_id}
            writer.execute(_SQL["write_key"], {**names, "fingerprint_key": key})
        return
    rows = [
        {"namespace_id": namespace_id, "memory_id": memory_id, "fingerprint_key": key}
        for memory_id, key in keys
    ]
    writer.insert(_SQL["write_keys"], pa.Table.from_pylist(rows, schema=_KEY_SCHEMA))


def key_missing(writer: StoreWriter) -> int:
    """Write the keys that were never computed, such as those of an older schema; give how many."""
    count = 0
    while rows := writer.rows(_SQL["read_keyless"], {"limit": _BATCH}):
        for owner in {row[0] for row in rows}:
            mine = [(memory_id, content) for owned, memory_id, content in rows if owned == owner]
            write_keys(writer, owner, mine)
        count += len(rows)
    return count


def find_copies(
    reader: StoreReader, namespace_id: int, content: str, *, now: datetime
) -> Iterator[Copy]:
    """Find active, unexpired memories with the fingerprint of a content, the oldest first."""
    words = fingerprint(content)
    if words is None:
        return
    params = {"namespace_id": namespace_id, "fingerprint_key": hash_term(words), "now": now}
    for row in reader.rows(_SQL["find_by_key"], params):
        copy = Copy(*row)
        if fingerprint(copy.content) == words:
            yield copy
