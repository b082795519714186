"""Derived names and digests of the vector index: equal inputs are equal ids, in every process.

Source: spec/refresh.md R1, R2; spec/recall.md 4.3. A digest is written ``sha256:`` and 64 lowercase
hex digits; unsigned integers enter hashes as little-endian bytes, uuids as their 16 bytes.
"""

import re
import struct
import uuid
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, Literal

from storage.digests import digest_parts
from storage.encoding import encode_canonical
from storage.errors import AdmissionError
from storage.models import Namespace

RECORD_PROFILE: Final = "memtend.record.v1"
UPSTREAM_RECORD_PROFILE: Final = "a3s.code.memory.semantic-record.v1"
RecordProfile = Literal["memtend.record.v1", "a3s.code.memory.semantic-record.v1"]
CasScope = Literal["partition", "index"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_RECORD_PREFIX = {
    RECORD_PROFILE: "mtr_",
    UPSTREAM_RECORD_PROFILE: "a3s-memory-semantic-record-",
}


def is_digest(text: str) -> bool:
    """Tell whether a text is a digest in its one written form."""
    return _DIGEST.fullmatch(text) is not None


def check_digest(field: str, text: str) -> str:
    """Give the digest back, or refuse it by the name of its field."""
    if not is_digest(text):
        raise AdmissionError(field, "must be sha256: and 64 lowercase hex digits")
    return text


def digest_content(content: str) -> str:
    """Digest the content of a memory."""
    return f"sha256:{sha256(content.encode()).hexdigest()}"


def digest_execution(bounds: Mapping[str, int]) -> str:
    """Digest how texts are sent to an embedder: the 14 integers of R37, in order."""
    return _domain("a3s.code.memory.semantic-embedding-execution.v1", encode_canonical(bounds))


def digest_generation(binding: Mapping[str, object]) -> str:
    """Digest everything that shapes a vector: the binding, its keys in their order."""
    return _domain("a3s.code.memory.semantic-serving-generation.v1", encode_canonical(binding))


def digest_embedding(embedding: Mapping[str, object]) -> str:
    """Digest what a binding says of the embedder: equal ones make equal vectors."""
    return _domain("memtend.embedding-identity.v1", encode_canonical(embedding))


def derive_authority(store_uuid: str) -> str:
    """Derive the authority digest of a store's own bindings from its uuid (DESIGN 10.23)."""
    return "sha256:" + digest_parts("memtend.authority.v1", [_uuid(store_uuid)]).hex()


def name_partition(namespace: Namespace, generation: str) -> str:
    """Name the partition of a namespace under a serving generation."""
    parts: list[bytes] = []
    for label, value in namespace.model_dump().items():
        parts += [label.encode(), sha256(value.encode()).digest()]
    parts += [b"serving-generation", generation.encode()]
    hexed = digest_parts("a3s.code.memory.semantic-partition.v1", parts).hex()
    return f"a3s-memory-semantic-{hexed}"


def name_record(
    profile: RecordProfile, partition: str, memory_id: str, revision: int, content_digest: str
) -> str:
    """Name a vector row; the default profile leaves the revision of its memory out."""
    parts = [partition.encode(), sha256(memory_id.encode()).digest()]
    if profile == UPSTREAM_RECORD_PROFILE:
        parts.append(struct.pack("<Q", revision))
    parts.append(content_digest.encode())
    return _RECORD_PREFIX[profile] + digest_parts(profile, parts).hex()


def digest_row(record_id: str, vector: bytes | memoryview) -> str:
    """Digest a vector row; `vector` holds its float32 values as little-endian bytes."""
    size = struct.pack("<I", len(vector) // 4)
    digest = sha256(b"memtend.vector-row.v1\0" + record_id.encode() + b"\0" + size)
    digest.update(vector)
    return f"sha256:{digest.hexdigest()}"


def digest_set(rows: Iterable[tuple[str, str]]) -> str:
    """Digest the (record id, row digest) pairs of a publication, in any order."""
    ordered = sorted(rows)
    digest = sha256(b"memtend.publication-set.v1\0" + struct.pack("<Q", len(ordered)))
    for record_id, row_digest in ordered:
        digest.update(f"\0{record_id}\0{row_digest}".encode())
    return f"sha256:{digest.hexdigest()}"


def digest_store_history(store_uuid: str) -> str:
    """Digest the history of a store: a copied database gets another uuid, so another history."""
    return "sha256:" + digest_parts("memtend.store-history.v1", [_uuid(store_uuid)]).hex()


def digest_index_history(
    scope: CasScope, *, store_uuid: str, lance_uuid: str, pointer_uuid: str
) -> str:
    """Digest what an index revision belongs to: store, vector directory and pointer row."""
    uuids = b"".join(_uuid(text) for text in (store_uuid, lance_uuid, pointer_uuid))
    return "sha256:" + digest_parts("memtend.index-history.v1", [scope.encode(), uuids]).hex()


def name_vector_table(store_history: str, dimension: int, rebuild: int = 0) -> str:
    """Name the Lance table of a store history and dimension; `rebuild` counts given-up tables."""
    name = f"mv_{store_history.removeprefix('sha256:')[:16]}_d{dimension}"
    return f"{name}_r{rebuild}" if rebuild else name


def _domain(domain: str, text: str) -> str:
    return "sha256:" + digest_parts(domain, [text.encode()]).hex()


def _uuid(text: str) -> bytes:
    return uuid.UUID(text).bytes
