"""Receipts of merges, from which they are taken back, and the marks that keep pairs apart then.

A receipt holds ids, revisions, clocks and counts; texts are in the history of the memories.
Source: spec/consolidate.md R41, R57, R59.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from storage.digests import encode_json
from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "merge_receipts")
_INSTANT = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        ("place", pa.int64()),
        ("receipt_id", pa.string()),
        ("plan_id", pa.string()),
        ("run_id", pa.string()),
        ("canonical_id", pa.string()),
        ("revision", pa.int64()),
        ("losers", pa.string()),
        ("figures", pa.string()),
        ("applied_at", _INSTANT),
    ]
)
_MARK_SCHEMA = pa.schema(
    [
        ("memory_id", pa.string()),
        ("partner_id", pa.string()),
        ("content_digest", pa.string()),
        ("partner_digest", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class MergeReceipt:
    """One change set of a merge.

    Attributes:
        receipt_id: Its key; the same plan or request makes the same one.
        plan_id: None for a merge by hand.
        run_id: The run, or the caller's name for a merge by hand.
        canonical_id: Who took the others in.
        revision: The canonical's after it.
        losers: Those still merged, each with its revision after it; none where a text was adopted.
        figures: What the canonical was before, as far as its history does not say.
        applied_at: Wall time.
    """

    receipt_id: str
    plan_id: str | None
    run_id: str
    canonical_id: str
    revision: int
    losers: Mapping[str, int]
    figures: Mapping[str, Any]
    applied_at: datetime


def insert_receipts(
    writer: StoreWriter, namespace_id: int, receipts: Iterable[MergeReceipt]
) -> None:
    """Insert the receipts of merges, in the transaction of these."""
    rows = [
        {
            **{name: getattr(one, name) for name in _SCHEMA.names if name != "place"},
            "place": place,
            "losers": encode_json(dict(one.losers)),
            "figures": encode_json(dict(one.figures)),
        }
        for place, one in enumerate(receipts, 1)
    ]
    incoming = pa.Table.from_pylist(rows, schema=_SCHEMA)
    writer.insert(_SQL["insert_receipts"], incoming, {"namespace_id": namespace_id})


def count_change_sets(
    reader: StoreReader, plan_id: str, canonical_ids: Collection[str]
) -> dict[str, int]:
    """Count the change sets that a plan has made, by canonical; those without any are left out."""
    params = {"plan_id": plan_id, "ids": list(canonical_ids)}
    return dict(reader.rows(_SQL["count_change_sets"], params))


def read_adoptions(
    reader: StoreReader, namespace_id: int, ids: Collection[str]
) -> dict[str, MergeReceipt]:
    """Read, by memory, the receipts of texts that were adopted at the revisions they have now."""
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    found = map(_decode, reader.records(_SQL["read_adoptions"], params))
    return {one.canonical_id: one for one in found}


def find_receipts(
    reader: StoreReader,
    namespace_id: int,
    *,
    loser_ids: Collection[str] = (),
    run_id: str | None = None,
    since: datetime | None = None,
) -> list[MergeReceipt]:
    """Find merges and adopted texts that were not taken back, the last one first.

    Args:
        reader: An open handle.
        namespace_id: Whose merges.
        loser_ids: Those that took one of these in.
        run_id: Those of a run.
        since: Those since an instant, wall time.
    """
    params: dict[str, object] = {"namespace_id": namespace_id, "ids": list(loser_ids)}
    params |= {"run_id": run_id, "since": since}
    return list(map(_decode, reader.records(_SQL["find_receipts"], params)))


def release_losers(
    writer: StoreWriter,
    receipt: MergeReceipt,
    released: Collection[str],
    *,
    revision: int,
    clock: datetime,
) -> None:
    """Note which losers a merge has given back; with the last one it is taken back whole.

    `revision` is the one at which the canonical is still what the merge made of it.
    """
    left = {name: each for name, each in receipt.losers.items() if name not in released}
    params: dict[str, object] = {"receipt_id": receipt.receipt_id, "losers": encode_json(left)}
    params |= {"revision": revision, "released_at": None if left else clock}
    writer.execute(_SQL["release_losers"], params)


def drop_evidence(
    writer: StoreWriter, namespace_id: int, memory_id: str, *, after_revision: int
) -> None:
    """Drop the evidence that a memory got after a revision: a merge brought it, and is undone."""
    owner: dict[str, object] = {"namespace_id": namespace_id, "memory_id": memory_id}
    writer.execute(_SQL["drop_evidence"], {**owner, "revision": after_revision})


def keep_apart(
    writer: StoreWriter, namespace_id: int, digests: Mapping[str, str], *, clock: datetime
) -> int:
    """Mark all pairs of these memories (id to SHA-256 of content) as no duplicates; count them."""
    names = sorted(digests)
    rows = [
        {
            "memory_id": one,
            "partner_id": other,
            "content_digest": digests[one],
            "partner_digest": digests[other],
        }
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    ]
    incoming = pa.Table.from_pylist(rows, schema=_MARK_SCHEMA)
    owner: dict[str, object] = {"namespace_id": namespace_id}
    writer.insert(_SQL["drop_marks"], incoming, owner)
    return writer.insert(_SQL["insert_marks"], incoming, {**owner, "clock": clock})


def _decode(row: dict[str, Any]) -> MergeReceipt:
    decoded = {name: json.loads(row[name]) for name in ("losers", "figures")}
    return MergeReceipt(**{**row, **decoded})
