"""Verdicts on pairs of texts, stored: a pair is judged once for the kinds that its memories have.

Texts never change under their number, so a verdict holds for good; it goes with either text.
Source: DESIGN 10.17.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa

from storage.candidates import OpenPair
from storage.digests import encode_json
from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "verdicts")
_SCHEMA = pa.schema(
    [
        ("text_number", pa.int64()),
        ("partner_number", pa.int64()),
        ("kind", pa.string()),
        ("partner_kind", pa.string()),
        ("result", pa.string()),
        ("reasons", pa.string()),
        ("conflict_class", pa.string()),
        ("shared", pa.int64()),
        ("union_size", pa.int64()),
    ]
)


class Verdict(NamedTuple):
    """A verdict on a pair: its result, why, and the tokens that both and either have."""

    pair: OpenPair
    result: str
    reasons: tuple[str, ...]
    conflict_class: str | None
    shared: int
    union_size: int


def read_texts(reader: StoreReader, namespace_id: int, numbers: Collection[int]) -> dict[int, str]:
    """Read the contents of active memories by the numbers of their texts."""
    params = {"namespace_id": namespace_id, "numbers": list(numbers)}
    return dict(reader.rows(_SQL["read_texts"], params))


def store_verdicts(writer: StoreWriter, namespace_id: int, verdicts: Iterable[Verdict]) -> int:
    """Store verdicts; a pair that has one meanwhile keeps it. Give how many were new."""
    rows = [
        {
            **one.pair._asdict(),
            "result": one.result,
            "reasons": encode_json(list(one.reasons)),
            "conflict_class": one.conflict_class,
            "shared": one.shared,
            "union_size": one.union_size,
        }
        for one in verdicts
    ]
    if not rows:
        return 0
    incoming = pa.Table.from_pylist(rows, schema=_SCHEMA)
    return writer.insert(_SQL["insert_verdicts"], incoming, {"namespace_id": namespace_id})
