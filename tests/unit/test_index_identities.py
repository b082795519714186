"""The identities of the vector index are the golden ones; checkpoints name their first fault."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.vectors import VECTORS

from storage.digests import lease_key, namespace_key
from storage.errors import AdmissionError
from storage.identities import (
    RECORD_PROFILE,
    UPSTREAM_RECORD_PROFILE,
    check_digest,
    digest_content,
    digest_generation,
    digest_index_history,
    digest_row,
    digest_set,
    digest_store_history,
    name_partition,
    name_record,
    name_vector_table,
)
from storage.models import MemoryRecord, Namespace
from storage.receipts import parse_checkpoint
from storage.snapshots import SnapshotRequest, snapshot_from_rows
from tasks.providers.bounds import ExecutionBounds
from tasks.refresh.binding import digest_bounds
from tasks.refresh.publish import count_bytes
from tasks.refresh.rows import row_schema

Json = dict[str, Any]
FILE: Json = json.loads((VECTORS / "refresh-vectors.json").read_text(encoding="utf-8"))
IDENTITIES = {case["id"]: case for case in FILE["identities"]}
CHECKPOINTS = FILE["checkpoint_cases"]


def derive(what: str, given: Json) -> object:
    """Derive the identity that a case calls by its first words."""
    makers: dict[str, Callable[[], object]] = {
        "content digest": lambda: digest_content(given["content"]),
        "namespace key": lambda: namespace_key(Namespace(**given)),
        "serving generation": lambda: digest_generation(given["binding"]),
        "execution digest": lambda: digest_bounds(
            ExecutionBounds(max_retries=given["overrides"].get("maxRetries", 2))
        ),
        "partition": lambda: name_partition(
            Namespace(**{name: given[name] for name in Namespace.model_fields}),
            given["generation"],
        ),
        "record id": lambda: name_record(
            UPSTREAM_RECORD_PROFILE if "revision" in given else RECORD_PROFILE,
            given["partition"],
            given["memory_id"],
            given.get("revision", 9),
            given["content_digest"],
        ),
        "row digest": lambda: digest_row(given["record_id"], bytes.fromhex(given["vector_le_hex"])),
        "set digest": lambda: digest_set(tuple(row) for row in reversed(given["rows"])),
        "store history": lambda: digest_store_history(given["store_uuid"]),
        "index history digest, scope": lambda: digest_index_history(
            given["scope"],
            store_uuid=given["store_uuid"],
            lance_uuid=given["lance_uuid"],
            pointer_uuid=given["pointer_uuid"],
        ),
        "Lance table": lambda: name_vector_table(
            digest_store_history(given["store_uuid"]), given["dimension"]
        ),
        "lease key": lambda: lease_key(given["store_id"], given["namespace_key"], given["job"]),
        "snapshot": lambda: describe_snapshot(given),
    }
    what = "record id" if what.startswith("the same at revision") else what
    (maker,) = (make for name, make in makers.items() if what.startswith(name))
    return maker()


def describe_snapshot(given: Json) -> Json:
    namespace = Namespace(**dict(zip(Namespace.model_fields, given["namespace"], strict=True)))
    records = [MemoryRecord.model_validate(memory) for memory in given["memories"]]
    request = SnapshotRequest(namespace, statuses=given["statuses"])
    snapshot = snapshot_from_rows(request, records, keep_payload=True)
    said = {"digest": snapshot.digest, "bytes": snapshot.byte_count}
    assert snapshot.payload is not None
    return {**said, "payload": snapshot.payload.decode()}


# The history of an index whose uuid is upstream's own; memtend's indexes have none.
@pytest.mark.parametrize("name", sorted(IDENTITIES.keys() - {"V33"}))
def test_identity_is_the_golden_one(name: str) -> None:
    case = IDENTITIES[name]
    derived, expected = derive(case["what"], case["inputs"]), case["expected"]
    if isinstance(expected, dict):
        assert isinstance(derived, dict)
        derived = {part: derived[part] for part in expected}
    assert derived == expected


@pytest.mark.parametrize("text", ["sha256:" + "A" * 64, "sha256:" + "0" * 63, "0" * 64, ""])
def test_digest_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        check_digest("receipt.snapshot_digest", text)
    assert caught.value.field == "receipt.snapshot_digest"


@pytest.mark.parametrize("case", CHECKPOINTS["cases"], ids=lambda case: case["id"])
def test_checkpoint_is_read_or_names_its_first_fault(case: Json) -> None:
    values = dict(CHECKPOINTS["base"])
    for name, value in case["change"].items():
        if name.startswith("-"):
            del values[name[1:]]
        else:
            values[name.removeprefix("+")] = value
    if case["expected"].startswith("ok"):
        assert parse_checkpoint(values).active_count == values["active_count"]
        return
    with pytest.raises(AdmissionError) as caught:
        parse_checkpoint(values)
    assert caught.value.field == case["expected"]


def test_bytes_of_a_publication_are_those_of_its_ids_digests_and_vectors() -> None:
    (case,) = FILE["byte_cases"]
    texts, partition = FILE["defaults"]["texts"], IDENTITIES["V12"]["expected"]
    rows = []
    for memory_id, dimension in case["rows"]:
        digest = digest_content(texts[memory_id.upper()])
        record_id = name_record(RECORD_PROFILE, partition, memory_id, 1, digest)
        vector = np.ones(dimension, np.float32)
        rows.append(
            {
                "memory_id": memory_id,
                "revision": 1,
                "content_digest": digest,
                "record_id": record_id,
                "row_digest": digest_row(record_id, vector.tobytes()),
                "vector": vector,
            }
        )
    table = pa.Table.from_pylist(rows, schema=row_schema(2))
    assert count_bytes(table, 2) == case["byte_count"]
