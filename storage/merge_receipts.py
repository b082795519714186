"""Receipts of merges, from which they are taken back, and the marks that keep pairs apart then.

A receipt holds ids, revisions, clocks and counts; texts are in the history of the memories.
Source: spec/consolidate.md R41, R57, R59.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
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
# Who was given back, although the canonical still has what it brought of them.
_KEPT_FROM = "kept_from"
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
        released_at: Wall time; None: it was not taken back, or not whole.
    """

    receipt_id: str
    plan_id: str | None
    run_id: str
    canonical_id: str
    revision: int
    losers: Mapping[str, int]
    figures: Mapping[str, Any]
    applied_at: datetime
    released_at: datetime | None = None

    @property
    def former_revision(self) -> int:
        """The revision of the canonical that an undo goes back to."""
        return int(self.figures["former_revision"])

    @property
    def keeps_values(self) -> bool:
        """Whether it was taken back, but the canonical kept the values that it brought."""
        return self.released_at is not None and _KEPT_FROM in self.figures


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


def list_receipts(reader: StoreReader, namespace_id: int, canonical_id: str) -> list[MergeReceipt]:
    """List all merges of a canonical memory, those that were taken back included, in order."""
    params = {"namespace_id": namespace_id, "canonical_id": canonical_id}
    return list(map(_decode, reader.records(_SQL["list_receipts"], params)))


def release_losers(
    writer: StoreWriter,
    receipt: MergeReceipt,
    released: Collection[str],
    *,
    keeps_values: bool,
    clock: datetime,
) -> None:
    """Note which losers a merge has given back; with the last one it is taken back whole.

    `keeps_values`: the canonical does not go back now; a later merge that is undone undoes it, too.
    """
    left = {name: each for name, each in receipt.losers.items() if name not in released}
    figures = dict(receipt.figures)
    was_kept = figures.pop(_KEPT_FROM, [])
    if keeps_values:
        figures[_KEPT_FROM] = sorted({*was_kept, *released})
    params: dict[str, object] = {"receipt_id": receipt.receipt_id, "losers": encode_json(left)}
    params |= {"figures": encode_json(figures), "released_at": None if left else clock}
    writer.execute(_SQL["release_losers"], params)


def drop_evidence(
    writer: StoreWriter, namespace_id: int, memory_id: str, *, after_revision: int
) -> None:
    """Drop the evidence that a memory got after a revision: a merge brought it, and is undone."""
    owner: dict[str, object] = {"namespace_id": namespace_id, "memory_id": memory_id}
    writer.execute(_SQL["drop_evidence"], {**owner, "revision": after_revision})


def keep_apart(
    writer: StoreWriter,
    namespace_id: int,
    digests: Mapping[str, str],
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    clock: datetime,
) -> int:
    """Mark pairs of memories (id to SHA-256 of content) as no duplicates; count them.

    Without `pairs`, all of them.
    """
    chosen = combinations(digests, 2) if pairs is None else pairs
    rows = [
        {
            "memory_id": one,
            "partner_id": other,
            "content_digest": digests[one],
            "partner_digest": digests[other],
        }
        for one, other in map(sorted, chosen)
    ]
    incoming = pa.Table.from_pylist(rows, schema=_MARK_SCHEMA)
    owner: dict[str, object] = {"namespace_id": namespace_id}
    writer.insert(_SQL["drop_marks"], incoming, owner)
    return writer.insert(_SQL["insert_marks"], incoming, {**owner, "clock": clock})


def list_apart(reader: StoreReader, namespace_id: int, memory_id: str) -> list[str]:
    """List the memories with the texts that a mark keeps apart from one, whatever that says now."""
    params = {"namespace_id": namespace_id, "memory_id": memory_id}
    return [name for (name,) in reader.rows(_SQL["list_apart"], params)]


def move_marks(
    writer: StoreWriter, namespace_id: int, memory_id: str, before: str, after: str
) -> None:
    """Let marks on a text of a memory hold for another: an undo gives it back its own."""
    if before == after:
        return
    params: dict[str, object] = {"namespace_id": namespace_id, "memory_id": memory_id}
    params |= {"before": before, "after": after}
    for statement in ("move_own_marks", "move_partner_marks"):
        writer.execute(_SQL[statement], params)


def _decode(row: dict[str, Any]) -> MergeReceipt:
    decoded = {name: json.loads(row[name]) for name in ("losers", "figures")}
    return MergeReceipt(**{**row, **decoded})
