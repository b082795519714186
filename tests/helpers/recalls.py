"""The recall vectors: their cases, their memories as rows of a store, hits as they write them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from helpers.rows import memory_table
from helpers.vectors import VECTORS

from storage import StoreWriter
from storage.encoding import format_f32
from storage.memories import (
    EVIDENCE_SCHEMA,
    RELATION_SCHEMA,
    insert_evidence,
    insert_memories,
    insert_relations,
)
from storage.terms import insert_terms, term_rows
from tasks.recall import Hit

FILE = json.loads((VECTORS / "recall-vectors.json").read_text(encoding="utf-8"))
START = datetime(2026, 1, 1, tzinfo=UTC)
Case = dict[str, Any]


def list_cases(kind: str) -> list[Case]:
    """List the cases of one type."""
    return [case for case in FILE["cases"] if case["type"] == kind]


def describe(hit: Hit) -> dict[str, object]:
    """Give a hit as the vectors write it."""
    said = {"id": hit.memory_id, "score": format_f32(hit.score), "channel": hit.channel}
    return said | {"related_from": hit.related_from}


def _at(moment: int | None) -> datetime | None:
    return None if moment is None else START + timedelta(seconds=moment)


def fill_memories(writer: StoreWriter, owner: int, memories: Mapping[str, Any]) -> None:
    """Insert memories past admission: a vector may hold what admission refuses."""
    rows = [
        {
            "namespace_id": owner,
            "id": name,
            "content": memory["content"],
            "status": memory["status"],
            "created_at": START,
            "updated_at": _at(memory.get("updated", 0)),
            "expires_at": _at(memory.get("expires")),
        }
        for name, memory in memories.items()
    ]
    edges = [
        {"namespace_id": owner, "memory_id": name, **edge, "since_revision": 1}
        for name, memory in memories.items()
        for edge in memory["relations"]
    ]
    proofs = [
        {
            "namespace_id": owner,
            "memory_id": name,
            "uri": f"e://{name}",
            "digest": "d",
            "kind": "manual" if memory.get("decided", True) else "artifact",
            "occurred_at": START,
            "since_revision": 1,
        }
        for name, memory in memories.items()
    ]
    insert_memories(writer, memory_table(*rows))
    texts = [(name, memory["content"]) for name, memory in memories.items()]
    insert_terms(writer, term_rows(texts, owner))
    insert_relations(writer, pa.Table.from_pylist(edges, schema=RELATION_SCHEMA))
    insert_evidence(writer, pa.Table.from_pylist(proofs, schema=EVIDENCE_SCHEMA))
