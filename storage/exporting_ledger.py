"""The ledger of an exported memory comes back: accesses, merges, marks, and what its source said.

It is bound to the import that brings its memory in: a memory that was known before keeps its own.
Source: DESIGN 10.9; spec/repository.md R26, spec/consolidate.md R41, R54, R59.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import AfterValidator, Field, StrictInt

from storage.digests import encode_json
from storage.gateway import StoreWriter
from storage.instants import parse_instant
from storage.models import MAX_COUNT, Identifier, Instant, Revision, Row
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "exporting_ledger")
_INSTANT = pa.timestamp("us", tz="UTC")
_DIGEST = re.compile(r"(sha256:)?[0-9a-f]{64}")
_CLOCKS = ("created_at", "content_at")
_ACCESSES = ("last_accessed_at", "merged_accessed_at")
_COUNTS = ("former_revision", "former_uses", "merged_uses")


def _check_digest(text: str) -> str:
    if _DIGEST.fullmatch(text) is None:
        message = "must be a SHA-256 digest"
        raise ValueError(message)
    return text


def _check_figures(figures: dict[str, Any]) -> dict[str, Any]:
    """Refuse figures that a merge could not be taken back from."""
    needed = {*_CLOCKS, *_ACCESSES, *_COUNTS}
    if not needed <= figures.keys() or any(type(figures[name]) is not int for name in _COUNTS):
        message = "must say what the memory was before the merge"
        raise ValueError(message)
    for name in (*_CLOCKS, *_ACCESSES):
        if figures[name] is not None or name in _CLOCKS:
            parse_instant(figures[name])
    return figures


Digest = Annotated[str, AfterValidator(_check_digest)]
Position = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]


class LedgerEvent(Row):
    """An admission or a use of the memory."""

    event_kind: Literal["admission", "use"]
    event_id: Identifier
    revision: Revision
    occurred_at: Instant
    context_id: Identifier | None = None
    actor: Identifier | None = None


class LedgerSource(Row):
    """An id that the memory has taken in, and what the merge lost."""

    revision: Revision
    position: Position
    source_id: Identifier
    losses: dict[str, Any]


class LedgerReceipt(Row):
    """A merge that the memory is the canonical one of."""

    receipt_id: Identifier
    position: Annotated[StrictInt, Field(ge=0, le=MAX_COUNT)]
    plan_id: Identifier | None = None
    run_id: Identifier
    revision: Revision
    losers: dict[Identifier, Revision]
    figures: Annotated[dict[str, Any], AfterValidator(_check_figures)]
    applied_at: Instant
    released_at: Instant | None = None


class LedgerMark(Row):
    """Another memory that is no duplicate of this one."""

    partner_id: Identifier
    content_digest: Digest
    partner_digest: Digest
    noted_at: Instant


class Ledger(Row):
    """What a store knows of a memory beside its states."""

    origin_digest: Annotated[str, AfterValidator(_check_digest)] | None = None
    access_events: tuple[LedgerEvent, ...] = ()
    merge_sources: tuple[LedgerSource, ...] = ()
    merge_receipts: tuple[LedgerReceipt, ...] = ()
    kept_apart: tuple[LedgerMark, ...] = ()


_MEMORY = ("memory_id", pa.string())
_SCHEMAS = {
    "access_events": pa.schema(
        [
            _MEMORY,
            ("event_kind", pa.string()),
            ("event_id", pa.string()),
            ("revision", pa.int64()),
            ("occurred_at", _INSTANT),
            ("context_id", pa.string()),
            ("actor", pa.string()),
        ]
    ),
    "merge_sources": pa.schema(
        [
            _MEMORY,
            ("revision", pa.int64()),
            ("position", pa.int32()),
            ("source_id", pa.string()),
            ("losses", pa.string()),
        ]
    ),
    "merge_receipts": pa.schema(
        [
            _MEMORY,
            ("receipt_id", pa.string()),
            ("position", pa.int64()),
            ("plan_id", pa.string()),
            ("run_id", pa.string()),
            ("revision", pa.int64()),
            ("losers", pa.string()),
            ("figures", pa.string()),
            ("applied_at", _INSTANT),
            ("released_at", _INSTANT),
        ]
    ),
    "kept_apart": pa.schema(
        [
            _MEMORY,
            ("partner_id", pa.string()),
            ("content_digest", pa.string()),
            ("partner_digest", pa.string()),
            ("noted_at", _INSTANT),
        ]
    ),
}
_ORIGIN_SCHEMA = pa.schema([_MEMORY, ("origin_digest", pa.string())])


def attach_ledgers(writer: StoreWriter, namespace_id: int, ledgers: Mapping[str, Ledger]) -> None:
    """Give memories that this transaction has imported their ledgers.

    An event or receipt whose id the store has already stays as it is there.

    Args:
        writer: The transaction of the import.
        namespace_id: Whose memories they are.
        ledgers: By memory; those of memories that do not exist are left out.
    """
    owner = {"namespace_id": namespace_id}
    for name, schema in _SCHEMAS.items():
        rows = [
            {"memory_id": memory_id, **_encode(item)}
            for memory_id, ledger in ledgers.items()
            for item in getattr(ledger, name)
        ]
        if rows:
            writer.insert(_SQL[f"attach_{name}"], pa.Table.from_pylist(rows, schema=schema), owner)
    origins = [
        {"memory_id": memory_id, "origin_digest": ledger.origin_digest}
        for memory_id, ledger in ledgers.items()
        if ledger.origin_digest is not None
    ]
    if origins:
        incoming = pa.Table.from_pylist(origins, schema=_ORIGIN_SCHEMA)
        writer.insert(_SQL["attach_origins"], incoming, owner)


def _encode(item: Row) -> dict[str, Any]:
    return {
        name: encode_json(value) if isinstance(value, dict) else value
        for name, value in item.model_dump().items()
    }
