"""The digest of a namespace's active memories, without its payload: what a refresh compares.

The same payload as `storage.snapshots` in the default profile, but encoded in SQL, which is what
makes a million rows bearable; what SQL writes differently is encoded row by row.
"""

from collections.abc import Iterator

import pyarrow.compute as pc

from storage.digests import text_bytes
from storage.encoding import PayloadDigest
from storage.errors import LimitExceededError
from storage.gateway import StoreReader
from storage.models import EvidenceKind, RelationKind, Status
from storage.namespaces import StoredNamespace
from storage.queries import read_statements
from storage.snapshot_pages import BYTES, INSTANT, plan_pages, read_texts
from storage.snapshot_profiles import DEFAULT_PROFILE, PROFILES, encode_head, encode_namespace

_SQL = read_statements("storage.sql", "snapshot_digest")
_MOST_SINGLE = 20
# Escapes that SQL writes with capital digits.
_UNUSUAL = r"[\x00-\x07\x0b\x0e-\x1f]"


def digest_active(
    reader: StoreReader, target: StoredNamespace, *, max_nodes: int, max_bytes: int
) -> tuple[str, int]:
    """Digest the active memories of a namespace; give the digest and the payload's bytes.

    Raises:
        LimitExceededError: More memories, or a longer payload, than the budgets.
    """
    profile = PROFILES[DEFAULT_PROFILE]
    owner = encode_namespace(profile, target.namespace)
    payload = PayloadDigest(profile.domain)
    payload.add(encode_head(profile, owner, (Status.ACTIVE,)).encode())
    is_first = True
    for piece in _read_pieces(reader, target.namespace_id, owner, max_nodes):
        if len(piece) == 0:
            continue
        payload.add(piece[1:] if is_first else piece)
        is_first = False
        _check_bytes(payload, max_bytes)
    payload.add(b"]}")
    _check_bytes(payload, max_bytes)
    return str(payload), payload.byte_count


def _check_bytes(payload: PayloadDigest, max_bytes: int) -> None:
    if payload.byte_count > max_bytes:
        raise LimitExceededError(BYTES, limit=max_bytes, actual=max_bytes + 1)


def _read_pieces(
    reader: StoreReader, namespace_id: int, owner: str, max_nodes: int
) -> Iterator[bytes | memoryview]:
    """Read the texts of the memories, each with a comma before it, a page at a time."""
    scope = {"namespace_id": namespace_id, "statuses": [Status.ACTIVE.value]}
    for first_id, last_id, _ in plan_pages(reader, scope, max_nodes=max_nodes):
        limits = {"first_id": first_id, "last_id": last_id}
        params = {
            "namespace_id": namespace_id,
            "owner": owner,
            "instant": INSTANT,
            "unusual": _UNUSUAL,
            "evidence_kinds": [kind.value for kind in EvidenceKind],
            "relation_kinds": [kind.value for kind in RelationKind],
        }
        page = reader.table(_SQL["read_texts"], {**params, **limits})
        unusual = page.filter(pc.is_null(page.column("text"))).column("id").to_pylist()
        if not unusual:
            yield from map(text_bytes, page.column("text").chunks)
            continue
        if len(unusual) > _MOST_SINGLE:
            yield from read_texts(reader, scope, limits, owner)
            continue
        ids, texts = (page.column(name).to_pylist() for name in ("id", "text"))
        for memory_id, text in zip(ids, texts, strict=True):
            if text is not None:
                yield text.encode()
                continue
            single = {"first_id": memory_id, "last_id": memory_id}
            yield from read_texts(reader, scope, single, owner)
