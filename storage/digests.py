"""Canonical encodings and their SHA-256 digests; keys are hashes of length-safe parts."""

import hashlib
import json
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from storage.models import MemoryRecord, Namespace

# json.dumps() would build one for each value.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def encode_json(value: object) -> str:
    """Encode lists and maps for a column: compact, sorted keys; equal values are equal text."""
    return _ENCODER.encode(value)


def digest_parts(domain: str, parts: Iterable[bytes]) -> bytes:
    """Hash a domain name and parts, each part after one zero byte (spec/refresh.md R2)."""
    digest = hashlib.sha256(domain.encode())
    for part in parts:
        digest.update(b"\0" + part)
    return digest.digest()


def namespace_key(namespace: Namespace) -> str:
    """Derive the key of a namespace (spec/refresh.md R2)."""
    parts: list[bytes] = []
    for label, value in namespace.model_dump().items():
        parts += [label.encode(), hashlib.sha256(value.encode()).digest()]
    return "mtn_" + digest_parts("memtend.namespace.v1", parts).hex()


def lease_key(store_id: str, key_of_namespace: str, job: str) -> str:
    """Derive the key of the lease on (store, namespace, job) (spec/refresh.md R2)."""
    parts = [hashlib.sha256(store_id.encode()).digest(), key_of_namespace.encode()]
    return "mtl_" + digest_parts("memtend.lease.v1", [*parts, job.encode()]).hex()


def digest_values(values: object) -> str:
    """Digest what a source said, as JSON values."""
    return "sha256:" + hashlib.sha256(encode_json(values).encode()).hexdigest()


def digest_record(record: MemoryRecord) -> str:
    """Digest everything that a record says about the current state of its memory."""
    said = record.model_dump(mode="json", exclude={"history", "namespace", "origin"})
    said["evidence"].sort(key=lambda item: item["uri"])
    said["relations"].sort(key=lambda item: (item["kind"], item["target_id"]))
    return digest_values(said)


def digest_table(header: object, table: pa.Table) -> str:
    """Digest a JSON header and the rows of an Arrow table, independent of its buffers' layout.

    Fixed-width columns are hashed as their values, text as lengths and bytes, NULLs as a mask.
    """
    digest = hashlib.sha256(encode_json(header).encode())
    for name in table.column_names:
        column = table.column(name)
        digest.update(f"\0{name}\0{column.type}\0{len(column)}\0".encode())
        digest.update(_fixed_bytes(pc.is_null(column).cast(pa.int8())))
        if pa.types.is_string(column.type):
            filled = column.fill_null("")
            digest.update(_fixed_bytes(pc.binary_length(filled)))
            for chunk in filled.chunks:
                digest.update(text_bytes(chunk))
        else:
            digest.update(_fixed_bytes(_as_numbers(column)))
    return digest.hexdigest()


def text_bytes(chunk: pa.StringArray) -> memoryview:
    """Give the bytes of all texts of an array, one after the other."""
    _, ends, data = chunk.buffers()
    if data is None:
        return memoryview(b"")
    places = memoryview(ends).cast("i")
    return memoryview(data)[places[chunk.offset] : places[chunk.offset + len(chunk)]]


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).fill_null(0)
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8()).fill_null(0)
    return column.fill_null(0)


def _fixed_bytes(column: pa.ChunkedArray) -> bytes:
    parts = []
    for chunk in column.chunks:
        width = chunk.type.bit_width // 8
        data = memoryview(chunk.buffers()[1])
        parts.append(bytes(data[chunk.offset * width : (chunk.offset + len(chunk)) * width]))
    return b"".join(parts)
