"""What plans of merges are made of: decision facts, and what a merged memory stands for."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from storage.gateway import StoreReader
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "merge_facts")


class LineageText(NamedTuple):
    """A text that a merged memory stands for beside its own; the name is that of no memory's."""

    memory_id: str
    name: str
    kind: str
    content: str


class KindedText(NamedTuple):
    """What a memory says, and of which kind it is."""

    kind: str
    content: str


class TextFacts(NamedTuple):
    """Which text an active memory has, and what else decides with whom it may merge."""

    text_number: int
    kind: str
    expires_at: datetime | None


class JoinedPair(NamedTuple):
    """Why two memories are not merged whatever they say: an edge, or a mark on their texts."""

    is_related: bool
    is_marked: bool


def count_visible(reader: StoreReader, namespace_id: int, *, now: datetime) -> int:
    """Count the active memories that have not expired."""
    params = {"namespace_id": namespace_id, "now": now}
    return int(reader.rows(_SQL["count_visible"], params)[0][0])


def list_visible(reader: StoreReader, namespace_id: int, *, now: datetime) -> list[str]:
    """List the active memories that have not expired, by (created_at, id)."""
    params = {"namespace_id": namespace_id, "now": now}
    return [name for (name,) in reader.rows(_SQL["list_visible"], params)]


def read_facts(reader: StoreReader, namespace_id: int, ids: Collection[str]) -> pa.Table:
    """Read what decisions are frozen on, of the memories with these ids.

    Returns:
        memory_id, revision, status, pinned, importance, salience, access_count, last_accessed_at,
        expires_at, tombstoned_at, text_number, updated_at; by memory_id.
    """
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    return reader.table(_SQL["read_facts"], params)


def read_text_facts(
    reader: StoreReader, namespace_id: int, ids: Collection[str]
) -> dict[str, TextFacts]:
    """Read which texts active memories have, by id."""
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    rows = reader.rows(_SQL["read_text_facts"], params)
    return {memory_id: TextFacts(*facts) for memory_id, *facts in rows}


def find_kept_apart(
    reader: StoreReader, namespace_id: int, ids: Collection[str]
) -> dict[tuple[str, str], JoinedPair]:
    """Find the pairs among these memories that an edge or a mark keeps apart; smaller id first."""
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    rows = reader.rows(_SQL["find_kept_apart"], params)
    return {(one, other): JoinedPair(*kept) for one, other, *kept in rows}


def read_lineage_texts(
    reader: StoreReader, namespace_id: int, ids: Collection[str]
) -> list[LineageText]:
    """Read the texts that merges brought into these memories since anybody else wrote them.

    Those of the losers, and the states of either that a merge gave another text or kind
    (spec/consolidate.md R42).
    """
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    return [LineageText(*row) for row in reader.rows(_SQL["read_lineage_texts"], params)]


def read_kinded_texts(
    reader: StoreReader, namespace_id: int, ids: Collection[str]
) -> dict[str, KindedText]:
    """Read what memories say, by id."""
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    rows = reader.rows(_SQL["read_kinded_texts"], params)
    return {memory_id: KindedText(*text) for memory_id, *text in rows}
