"""The recall vectors with a semantic branch: on real indexes, and the verification row by row."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from helpers.indexes import MapEmbedder, lean, move_pointer, publish
from helpers.recalls import FILE, START, Case, describe, fill_memories, list_cases

from storage import Store
from storage.encoding import format_f32
from storage.identities import (
    RECORD_PROFILE,
    UPSTREAM_RECORD_PROFILE,
    digest_content,
    name_record,
)
from storage.instants import parse_instant
from storage.models import DEFAULT_NAMESPACE, Evidence, EvidenceKind, MemoryRecord, Status
from storage.vectors import VectorHit
from tasks.candidates import (
    Candidate,
    Claim,
    Terms,
    judge_candidate,
    judge_claim,
    make_candidate,
    rank_candidates,
    read_claims,
    verify_claims,
)
from tasks.recall import SemanticSource, parse_recall_policy, recall, recall_memories
from tasks.semantic import SemanticStep

_RECALL = [case for case in list_cases("recall") if "verified_semantic" in case["inputs"]]
_CANDIDATES = [case for case in list_cases("candidate") if "hit" in case["inputs"]]
_HIT, _CURRENT = (FILE["defaults"][name] for name in ("candidate_hit", "candidate_current"))
_UPSTREAM = Terms(_HIT["partition"], UPSTREAM_RECORD_PROFILE, 0.8, START)
_OWN = replace(_UPSTREAM, profile=RECORD_PROFILE)


class RefusingEmbedder(MapEmbedder):
    """Embeds documents, but no query."""

    def embed_query(self, text: str) -> Any:  # noqa: ANN401 - it never returns
        raise ConnectionError(text)


def _publish_case(store: Store, inputs: Mapping[str, Any]) -> MapEmbedder:
    """Publish all memories as active ones with the scores of the case; then give their statuses."""
    memories = inputs["memories"]
    with store.write() as writer:
        writer.execute("UPDATE memories SET status = 'active'")
    scores = {one["id"]: one["score"] for one in inputs["verified_semantic"]}
    vectors = {memories[name]["content"]: lean(score) for name, score in scores.items()}
    fails = inputs.get("semantic_error") == "semantic query embedding failed"
    kind = RefusingEmbedder if fails else MapEmbedder
    embedder = kind(vectors | {inputs["query"]: lean(1.0)})
    publish(store, DEFAULT_NAMESPACE, embedder)
    with store.write() as writer:
        for name, memory in memories.items():
            change = "UPDATE memories SET status = $status WHERE id = $id"
            writer.execute(change, {"status": memory["status"], "id": name})
    return embedder


def _disturb(store: Store, inputs: Mapping[str, Any]) -> Callable[[SemanticStep], None]:
    def on_step(step: SemanticStep) -> None:
        changes = inputs.get("semantic_error") == "semantic index revision changed"
        if changes and step == "observe_3":
            move_pointer(store)

    return on_step


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _RECALL])
def test_recall_finds_what_the_vector_says(case: Case, store: Store, namespace_id: int) -> None:
    inputs = case["inputs"]
    with store.write() as writer:
        fill_memories(writer, namespace_id, inputs["memories"])
    embedder = _publish_case(store, inputs)
    source = SemanticSource(load=lambda: embedder, on_step=_disturb(store, inputs))
    policy = parse_recall_policy(inputs["policy"])
    found = recall_memories(
        store, DEFAULT_NAMESPACE, inputs["query"], policy=policy, now=START, source=source
    )
    assert [describe(hit) for hit in found.hits] == case["expected"]
    assert found.warning == inputs.get("semantic_error")
    assert found.semantic == ("dropped" if found.warning else "used")
    if found.warning:
        with store.read() as reader:
            alone = recall(reader, DEFAULT_NAMESPACE, inputs["query"], policy=policy, now=START)
        assert found.hits == alone


def _make(given: Mapping[str, Any]) -> Candidate:
    said = {**_HIT, **given}
    return Candidate(said["partition"], said["id"], float(said["score"]), said["labels"])


def _read(current: Mapping[str, Any] | str | None) -> MemoryRecord | None:
    if current is None:
        return None
    said = dict(_CURRENT if isinstance(current, str) else current)
    if said["expires_at"] is not None:
        said["expires_at"] = parse_instant(said["expires_at"])
    return MemoryRecord.model_validate({**said, "created_at": START, "updated_at": START})


def _judge(candidate: Candidate, record: MemoryRecord | None, terms: Terms) -> str | None:
    claim = judge_candidate(candidate, terms, {})
    return judge_claim(claim, record, terms) if isinstance(claim, Claim) else claim


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in _CANDIDATES])
def test_hit_is_verified_as_the_vector_says(case: Case) -> None:
    inputs = case["inputs"]
    terms = replace(_UPSTREAM, min_score=inputs["min_score"])
    reason = _judge(_make(inputs["hit"]), _read(inputs["current"]), terms)
    assert ("keep" if reason is None else {"drop": reason}) == case["expected"]


def test_v145_of_two_hits_for_a_memory_the_first_counts() -> None:
    first, second = _make({"score": 0.95}), _make({"score": 0.9})
    claims = read_claims([first, second], _UPSTREAM)
    assert judge_candidate(second, _UPSTREAM, claims) == "duplicate"
    record = _read("unchanged")
    assert record is not None
    hits = verify_claims(claims, {record.id: record}, _UPSTREAM)
    assert [(hit.memory_id, format_f32(hit.score)) for hit in hits] == [("alpha", "0.95")]


def _own_hit(**changes: Any) -> VectorHit:  # noqa: ANN401 - columns of a row
    digest = digest_content(_CURRENT["content"])
    row = VectorHit(_OWN.partition, "", "alpha", 1, digest, 0.1)
    name = name_record(RECORD_PROFILE, _OWN.partition, "alpha", 1, digest)
    return replace(row, record_id=name, **changes)


@pytest.mark.parametrize(
    ("changes", "current", "reason"),
    [
        pytest.param({}, {}, None, id="untouched"),
        pytest.param({}, {"revision": 7}, None, id="R64-another-revision-of-the-same-text"),
        pytest.param({"memory_revision": 7}, {}, None, id="R64-its-own-revision-is-no-part-of-it"),
        pytest.param({"memory_revision": -1}, {}, "labels", id="negative-revision"),
        pytest.param({"memory_id": "beta"}, {}, "record_id", id="another-memory"),
        pytest.param({}, {"content": "other"}, "content", id="another-text"),
        pytest.param({}, {"status": "tombstoned"}, "status", id="tombstoned"),
        pytest.param({"distance": -1.1920929e-07}, {}, None, id="identical-vector"),
        pytest.param({"distance": 2.0}, {}, "min_score", id="opposite-vector"),
        pytest.param({"distance": float("nan")}, {}, "score", id="no-distance"),
    ],
)
def test_own_profile_judges_columns_and_content(
    changes: dict[str, Any], current: dict[str, Any], reason: str | None
) -> None:
    candidate = make_candidate(_own_hit(**changes), RECORD_PROFILE)
    assert _judge(candidate, _read({**_CURRENT, **current}), _OWN) == reason


def test_profiles_do_not_read_each_others_rows() -> None:
    upstream = make_candidate(_own_hit(), UPSTREAM_RECORD_PROFILE)
    assert judge_candidate(upstream, _OWN, {}) == "labels"
    assert judge_candidate(_make({}), _OWN, {}) == "labels"


def test_decided_only_drops_what_nobody_decided() -> None:
    terms = replace(_UPSTREAM, decided_only=True)
    proof = Evidence(uri="e://1", digest="d", kind=EvidenceKind.MANUAL, occurred_at=START)
    record = _read("unchanged")
    assert record is not None
    decided = record.model_copy(update={"evidence": (proof,)})
    assert _judge(_make({}), record, terms) == "undecided"
    assert _judge(_make({}), decided, terms) is None


def test_rows_are_judged_in_the_order_of_the_table() -> None:
    record = _read("unchanged")
    assert record is not None
    gone = record.model_copy(update={"status": Status.SUPERSEDED, "content": "other"})
    worst = _make({"partition": "p", "score": "NaN", "labels": {}})
    assert judge_candidate(worst, _UPSTREAM, {}) == "partition"
    assert judge_candidate(worst._replace(partition=_HIT["partition"]), _UPSTREAM, {}) == "score"
    assert _judge(_make({}), gone, _UPSTREAM) == "status"


def test_candidates_are_ranked_by_score_then_record_id() -> None:
    rows = [("c", 0.5), ("b", 0.9), ("n", float("nan")), ("a", 0.9), ("d", 0.1)]
    ranked = rank_candidates([_make({"id": name, "score": score}) for name, score in rows], 4)
    assert [one.record_id for one in ranked] == ["a", "b", "c", "d"]
