"""Active memories that look like a superseded one, found by a join over the stored tokens.

Superseded texts have no stored tokens: theirs are given, and only texts that share a rare one are
compared. Source: spec/consolidate.md R60, R61, R84.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from storage.candidates import LARGEST_FAMILY, LONGEST_IN_PAIRS
from storage.gateway import StoreReader
from storage.lexical import hash_term
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "siblings")
_BOUNDS = read_statements("storage.sql", "candidates")["define_bounds"]
_ASKED = pa.schema([("memory_id", pa.string()), ("terms", pa.list_(pa.int64()))])


class SupersededText(NamedTuple):
    """What a superseded memory said, and which memory supersedes it now."""

    memory_id: str
    kind: str
    content: str
    superseded_by: str


class Sibling(NamedTuple):
    """An active memory whose tokens are alike to those of a superseded one; not judged yet."""

    superseded_id: str
    memory_id: str
    kind: str
    content: str


def list_superseded(reader: StoreReader, namespace_id: int) -> list[SupersededText]:
    """List the memories that were superseded, but not by a merge, in order of their ids."""
    rows = reader.rows(_SQL["list_superseded"], {"namespace_id": namespace_id})
    return [SupersededText(*row) for row in rows]


def find_siblings(
    reader: StoreReader,
    namespace_id: int,
    tokens: Mapping[str, Collection[str]],
    *,
    profile: str,
    now: datetime,
) -> list[Sibling]:
    """Find active memories with tokens like those of superseded ones, in order of both ids.

    Of each superseded one's siblings, the first `LARGEST_FAMILY`.

    Args:
        reader: An open handle; nothing is stored.
        namespace_id: The only namespace that is read.
        tokens: The token set of each superseded memory, by id.
        profile: The detection profile that active texts have to be stored under.
        now: The instant that expiry is judged at.
    """
    asked = [
        {"memory_id": memory_id, "terms": sorted(map(hash_term, found))}
        for memory_id, found in tokens.items()
        if found
    ]
    if not asked:
        return []
    reader.define(_BOUNDS)
    limits = {"longest": LONGEST_IN_PAIRS, "largest_family": LARGEST_FAMILY}
    params = {"namespace_id": namespace_id, "profile": profile, "now": now, **limits}
    incoming = pa.Table.from_pylist(asked, schema=_ASKED)
    found = reader.table(_SQL["find_siblings"], params, incoming=incoming)
    columns = (found.column(name).to_pylist() for name in Sibling._fields)
    return [Sibling(*row) for row in zip(*columns, strict=True)]
