"""The recall and policy vectors that need no vectors of embeddings, on a real store."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from helpers.recalls import START, describe, fill_memories, list_cases

from storage import Store
from storage.errors import AdmissionError
from storage.lexical import WORD_CJK_BIGRAM_V1
from storage.models import DEFAULT_NAMESPACE, MemoryRecord, Relation, RelationKind
from tasks.recall import Hit, list_targets, parse_recall_policy, recall

# A relation is stored in canonical order, so V66, which names another one, is a test of its own.
_RECALL = [
    case
    for case in list_cases("recall")
    if "verified_semantic" not in case["inputs"] and case["id"] != "V66"
]
_POLICY = [case for case in list_cases("policy") if "max_results" in case["inputs"]]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _RECALL])
def test_recall_finds_what_the_vector_says(
    case: Mapping[str, Any], store: Store, namespace_id: int
) -> None:
    inputs = case["inputs"]
    with store.write() as writer:
        fill_memories(writer, namespace_id, inputs["memories"])
    extra = {"decided_only": inputs.get("decided_only", False)}
    policy = parse_recall_policy({**inputs["policy"], **extra})
    with store.read() as reader:
        hits = recall(
            reader,
            DEFAULT_NAMESPACE,
            inputs["query"],
            policy=policy,
            now=START + timedelta(seconds=inputs.get("now", 0)),
            profile=inputs.get("profile", WORD_CJK_BIGRAM_V1),
        )
    assert [describe(hit) for hit in hits] == case["expected"]


def test_v66_a_dead_target_spends_a_lookup() -> None:
    hit = Hit("s", 1, "semantic", "alpha beta", 1.0, "lexical", START)
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
        fill_memories(writer, namespace_id, {"a": memory})
    with store.read() as reader:
        assert recall(reader, DEFAULT_NAMESPACE, "alpha", policy=None, now=START) == []
