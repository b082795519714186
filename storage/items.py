"""What the store API sees of a namespace: the visible memories, their use, and their retirement.

Visible is what is active and has not expired. Reading changes nothing; `count_reads` is how a
read that returned memories counts as their use. Source: spec/recall.md R20, R24-R27.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from storage.errors import ConflictError
from storage.gateway import StoreReader, StoreWriter
from storage.namespaces import step_sequence
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "items")
_READ_SCHEMA = pa.schema([("id", pa.string()), ("revision", pa.int64())])
# The characters that str.lower() makes ASCII letters of; all other narrowing is A-Z only.
_TURN_ASCII = "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}|\N{KELVIN SIGN}"
# More terms than that make a pattern that costs more than it saves.
_MOST_TERMS = 32


class Facts(NamedTuple):
    """What ranks a visible memory; instants are microseconds since 1970."""

    memory_id: str
    revision: int
    created_us: int
    age_clock_us: int
    importance: float


class Text(NamedTuple):
    """A visible memory with all that a query is matched against; tags are JSON."""

    memory_id: str
    revision: int
    created_us: int
    age_clock_us: int
    importance: float
    content: str
    tags: str
    kind: str


Chosen = tuple[str, int]  # memory id and revision


def read_facts(reader: StoreReader, namespace_id: int, *, now: datetime) -> list[Facts]:
    """Read what ranks each visible memory, in no order."""
    return _read_facts(reader, namespace_id, None, now)


def read_tagged(
    reader: StoreReader, namespace_id: int, tags: Iterable[str], *, now: datetime
) -> list[Facts]:
    """Read what ranks each visible memory that has any of the tags, in no order."""
    return _read_facts(reader, namespace_id, list(tags), now)


def _read_facts(
    reader: StoreReader, namespace_id: int, tags: list[str] | None, now: datetime
) -> list[Facts]:
    params = {"namespace_id": namespace_id, "now": now, "tags": tags}
    return list(map(Facts._make, reader.rows(_SQL["read_facts"], params)))


def read_texts(
    reader: StoreReader, namespace_id: int, terms: Collection[str], *, now: datetime
) -> list[Text]:
    """Read the visible memories that may contain any of the lower-case terms, in no order.

    All that do contain one are among them; without terms, or with such as cannot be looked for
    here, these are all visible memories.
    """
    pattern = None
    # JSON doubles a backslash, so a term with one would not be found in the stored tags.
    is_sure = all(term.isascii() and "\\" not in term for term in terms)
    if is_sure and 0 < len(terms) <= _MOST_TERMS:
        pattern = "|".join([f"(?i:{'|'.join(map(re.escape, terms))})", _TURN_ASCII])
    params = {"namespace_id": namespace_id, "now": now, "pattern": pattern}
    return list(map(Text._make, reader.rows(_SQL["read_texts"], params)))


def find_visible(
    reader: StoreReader, namespace_id: int, memory_id: str, *, now: datetime
) -> list[Chosen]:
    """Find one visible memory by its id; an empty list if there is none."""
    params = {"namespace_id": namespace_id, "memory_id": memory_id, "now": now}
    return reader.rows(_SQL["find_visible"], params)


def list_recent(
    reader: StoreReader, namespace_id: int, limit: int, *, now: datetime
) -> list[Chosen]:
    """List the visible memories that were created last, the newest first."""
    params = {"namespace_id": namespace_id, "now": now, "limit": limit}
    return reader.rows(_SQL["list_recent"], params)


def list_important(
    reader: StoreReader, namespace_id: int, threshold: float, limit: int, *, now: datetime
) -> list[Chosen]:
    """List the visible memories of at least this importance, the most important first."""
    params = {"namespace_id": namespace_id, "now": now, "threshold": threshold, "limit": limit}
    return reader.rows(_SQL["list_important"], params)


def count_visible(reader: StoreReader, namespace_id: int, *, now: datetime) -> int:
    """Count the visible memories."""
    params = {"namespace_id": namespace_id, "now": now}
    return int(reader.rows(_SQL["count_visible"], params)[0][0])


def count_reads(
    writer: StoreWriter, namespace_id: int, chosen: Sequence[Chosen], *, now: datetime
) -> None:
    """Count one use of each of these memories, all in the open transaction.

    It moves no revision, no updated_at and no change sequence.

    Raises:
        ConflictError: One is no longer visible at its revision; roll back and choose again.
    """
    rows = [{"id": memory_id, "revision": revision} for memory_id, revision in chosen]
    read = pa.Table.from_pylist(rows, schema=_READ_SCHEMA)
    params = {"namespace_id": namespace_id, "now": now}
    counted = writer.insert(_SQL["count_reads"], read, params)
    if counted != len(chosen):
        message = f"{len(chosen)} memories were read and {counted} are as they were"
        raise ConflictError(message, expected=len(chosen), found=counted)


def tombstone_all(writer: StoreWriter, namespace_id: int, *, now: datetime) -> int:
    """Make a tombstone of every memory of a namespace that is none yet; give how many.

    One revision each and one step of the change sequence; their history, tags and edges stay.
    """
    owner = {"namespace_id": namespace_id}
    kept = writer.execute(_SQL["keep_all"], owner)
    retired = writer.execute(_SQL["tombstone_all"], {**owner, "now": now})
    if retired != kept:
        message = f"{kept} memories were kept in history and {retired} became tombstones"
        raise ConflictError(message, expected=kept, found=retired)
    if retired:
        step_sequence(writer, namespace_id)
    return retired
