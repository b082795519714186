"""The recall and policy vectors that need no vectors of embeddings, on a real store."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.rows import memory_table

from storage import Store, StoreWriter
from storage.encoding import format_f32
from storage.errors import AdmissionError
from storage.lexical import WORD_CJK_BIGRAM_V1
from storage.memories import (
    EVIDENCE_SCHEMA,
    RELATION_SCHEMA,
    insert_evidence,
    insert_memories,
    insert_relations,
)
from storage.models import DEFAULT_NAMESPACE, MemoryRecord, Relation, RelationKind
from storage.terms import insert_terms, term_rows
from tasks.recall import Hit, list_targets, parse_recall_policy, recall

_FILE = Path(__file__).parent.parent / "vectors" / "recall-vectors.json"
_ALL = json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
# A relation is stored in canonical order, so V66, which names another one, is a test of its own.
_RECALL = [
    case
    for case in _ALL
    if case["type"] == "recall"
    and "verified_semantic" not in case["inputs"]
    and case["id"] != "V66"
]
_POLICY = [case for case in _ALL if case["type"] == "policy" and "max_results" in case["inputs"]]
_START = datetime(2026, 1, 1, tzinfo=UTC)


def _at(moment: int | None) -> datetime | None:
    return None if moment is None else _START + timedelta(seconds=moment)


def _fill(writer: StoreWriter, owner: int, memories: Mapping[str, Any]) -> None:
    rows = [
        {
            "namespace_id": owner,
            "id": name,
            "content": memory["content"],
            "status": memory["status"],
            "created_at": _START,
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
            "occurred_at": _START,
            "since_revision": 1,
        }
        for name, memory in memories.items()
    ]
    insert_memories(writer, memory_table(*rows))
    texts = [(name, memory["content"]) for name, memory in memories.items()]
    insert_terms(writer, term_rows(texts, owner))
    insert_relations(writer, pa.Table.from_pylist(edges, schema=RELATION_SCHEMA))
    insert_evidence(writer, pa.Table.from_pylist(proofs, schema=EVIDENCE_SCHEMA))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _RECALL])
def test_recall_finds_what_the_vector_says(
    case: Mapping[str, Any], store: Store, namespace_id: int
) -> None:
    inputs = case["inputs"]
    with store.write() as writer:
        _fill(writer, namespace_id, inputs["memories"])
    extra = {"decided_only": inputs.get("decided_only", False)}
    policy = parse_recall_policy({**inputs["policy"], **extra})
    with store.read() as reader:
        hits = recall(
            reader,
            DEFAULT_NAMESPACE,
            inputs["query"],
            policy=policy,
            now=_START + timedelta(seconds=inputs.get("now", 0)),
            profile=inputs.get("profile", WORD_CJK_BIGRAM_V1),
        )
    found = [
        {
            "id": hit.memory_id,
            "score": format_f32(hit.score),
            "channel": hit.channel,
            "related_from": hit.related_from,
        }
        for hit in hits
    ]
    assert found == case["expected"]


def test_v66_a_dead_target_spends_a_lookup() -> None:
    hit = Hit("s", 1, "semantic", "alpha beta", 1.0, "lexical", _START)
    edges = tuple(Relation(kind=RelationKind.RELATED_TO, target_id=name) for name in ("x", "ok"))
    seeds = {"s": MemoryRecord(id="s", content="alpha beta", relations=edges)}
    assert [target for _, target in list_targets([hit], seeds, budget=1)] == ["x"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _POLICY])
def test_policy_is_refused_by_name(case: Mapping[str, Any]) -> None:
    values = {
        name: float("nan") if value == "NaN" else value for name, value in case["inputs"].items()
    }
    if case["expected"] == "ok":
        assert parse_recall_policy(values).max_results == values["max_results"]
        return
    with pytest.raises(AdmissionError) as caught:
        parse_recall_policy(values)
    assert caught.value.field == case["expected"]["error"]["field"]


def test_without_policy_nothing_is_recalled(store: Store, namespace_id: int) -> None:
    memory = {"content": "alpha", "status": "active", "relations": []}
    with store.write() as writer:
        _fill(writer, namespace_id, {"a": memory})
    with store.read() as reader:
        assert recall(reader, DEFAULT_NAMESPACE, "alpha", policy=None, now=_START) == []
