"""Retention: rows that only tell what once happened go when they are old, nothing else does.

What is counted and what is deleted is found by one statement; a batch is one transaction of the
caller. Source: spec/refresh.md R59, spec/maintenance.md R37.
"""

from datetime import datetime
from typing import Literal, NamedTuple

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "retention")
BATCH_ROWS = 10_000
_ALL = 2**62

Kind = Literal["receipts", "publications", "apply_receipts", "plans", "runs"]


class Terms(NamedTuple):
    """How many postings the term index holds, and how many of them belong to no memory."""

    held: int
    dead: int


def count_old(reader: StoreReader, kind: Kind, *, before: datetime) -> int:
    """Count the rows of a kind that can go; plans without their decisions."""
    return len(_list_old(reader, kind, before, _ALL))


def delete_old(writer: StoreWriter, kind: Kind, *, before: datetime) -> int:
    """Delete one batch of the rows that can go and count them; 0: there are no more."""
    ids = _list_old(writer, kind, before, BATCH_ROWS)
    if kind == "plans":
        for part in ("decisions", "pairs"):
            writer.execute(_SQL[f"delete_{part}"], {"ids": ids})
    return writer.execute(_SQL[f"delete_{kind}"], {"ids": ids})


def count_terms(reader: StoreReader) -> Terms:
    """Count the postings of the term index."""
    return Terms(*reader.rows(_SQL["count_terms"])[0])


def _list_old(reader: StoreReader, kind: Kind, before: datetime, limit: int) -> list[str]:
    params = {"before": before, "limit": limit}
    return [name for (name,) in reader.rows(_SQL[f"list_old_{kind}"], params)]
