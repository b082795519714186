"""Public evaluation set without a word in common: found by meaning, checked in the store."""

from typing import Any

import pytest
from helpers.indexes import MapEmbedder, publish
from helpers.runs import dump_tables
from helpers.sets import SPACE, START, change, change_set, create, evidence
from helpers.shared import read_set

from storage import Store
from storage.models import Namespace
from storage.repository import apply_change_set
from tasks.contexts import admit, make_item, name_context
from tasks.providers.embedder import EmbeddingIdentity
from tasks.recall import Recalled, SemanticSource, parse_recall_policy, recall_memories

pytestmark = pytest.mark.slow

FOREIGN = Namespace(tenant="t", principal="someone-else", scope="s")
Fixture = dict[str, Any]


def _make(node: Fixture, content: str) -> Fixture:
    """Create a memory as an active one: the candidate is made one when it has been indexed."""
    return create(node["id"], content, kind=node["kind"])


@pytest.fixture
def fixture(store: Store) -> Fixture:
    """Load the set, publish it, then let the store move on without the index."""
    found = read_set("semantic")
    stale, candidate, foreign = (
        found[f"{name}_node"] for name in ("stale", "candidate", "foreign")
    )
    nodes = [*found["nodes"], candidate]
    made = [_make(node, node["content"]) for node in nodes]
    made.append(_make(stale, stale["indexed_content"]))
    apply_change_set(store, change_set("seed", 0, *made))
    others = change_set("seed", 0, _make(foreign, foreign["content"]))
    apply_change_set(store, {**others, "namespace": FOREIGN.model_dump()})
    for space in (SPACE, FOREIGN):
        policy = found["semantic_policy"]
        limits = {"candidate_limit": policy["candidate_limit"], "min_score": policy["min_score"]}
        authority = found["embedding"]["authority_digest"]
        publish(store, space, make_embedder(found), authority=authority, **limits)
    with store.write() as writer:
        writer.execute(
            "UPDATE memories SET status = 'candidate' WHERE id = $id", {"id": candidate["id"]}
        )
    revise = change("revise", stale["id"], 1, content=stale["current_content"], mode="correction")
    revise["evidence"] = [evidence("e://current", 1)]
    apply_change_set(store, change_set("revised", 1, revise))
    return found


def make_embedder(fixture: Fixture) -> MapEmbedder:
    said = fixture["embedding"]
    names = {name: said[name] for name in ("provider", "model", "revision", "dimension")}
    nodes = [*fixture["nodes"], fixture["candidate_node"], fixture["foreign_node"]]
    vectors = {node["content"]: node["embedding"] for node in nodes}
    vectors[fixture["stale_node"]["indexed_content"]] = fixture["stale_node"]["embedding"]
    for query in (*fixture["queries"], *fixture["negative_queries"]):
        vectors[query["query"]] = query["embedding"]
    return MapEmbedder(vectors, EmbeddingIdentity(**names, normalisation="unit"))


def ask(store: Store, fixture: Fixture, query: str, embedder: MapEmbedder | None) -> Recalled:
    source = SemanticSource(load=lambda: embedder) if embedder is not None else None
    policy = parse_recall_policy(fixture["recall_policy"])
    return recall_memories(store, SPACE, query, policy=policy, now=START, source=source)


def test_v274_words_find_nothing(store: Store, fixture: Fixture) -> None:
    answers = [ask(store, fixture, query["query"], None) for query in fixture["queries"]]
    hits = sum(len(answer.hits) for answer in answers)
    assert hits <= fixture["thresholds"]["maximum_lexical_positive_hits"]


def test_v274_meaning_finds_each_memory_and_each_is_admitted_once(
    store: Store, fixture: Fixture
) -> None:
    thresholds = fixture["thresholds"]
    right = admissions = 0
    for number, query in enumerate(fixture["queries"]):
        embedder = make_embedder(fixture)
        found = ask(store, fixture, query["query"], embedder)
        assert (found.semantic, [hit.channel for hit in found.hits]) == ("used", ["semantic"])
        assert len(embedder.queries) <= thresholds["maximum_model_calls_per_query"]
        right += found.hits[0].memory_id == query["relevant_node_id"]
        kept = admit(
            store,
            SPACE,
            [make_item(hit) for hit in found.hits],
            found.hits,
            context_id=name_context("session", "run", query["id"], number),
            occurred_at=START,
        )
        assert len(kept) <= thresholds["maximum_context_nodes_per_query"]
        admissions += len(kept)
    assert right / len(fixture["queries"]) >= thresholds["minimum_semantic_recall_at_1"]
    assert admissions == thresholds["expected_admissions"]
    with store.read() as reader:
        counted = reader.rows("SELECT event_kind, count(*) FROM access_events GROUP BY event_kind")
    assert counted == [("admission", thresholds["expected_admissions"])]


def test_v274_candidate_foreign_and_stale_memories_stay_hidden(
    store: Store, fixture: Fixture
) -> None:
    before = dump_tables(store)
    answers = [
        ask(store, fixture, query["query"], make_embedder(fixture))
        for query in fixture["negative_queries"]
    ]
    assert [answer.semantic for answer in answers] == ["used"] * len(answers)
    hits = sum(len(answer.hits) for answer in answers)
    assert hits <= fixture["thresholds"]["maximum_negative_hits"]
    assert dump_tables(store) == before


def test_v274_the_index_alone_would_have_served_them(store: Store, fixture: Fixture) -> None:
    """The vectors are there: without the checks in the store all but the foreign one would be."""
    stale, candidate = fixture["stale_node"], fixture["candidate_node"]
    with store.write() as writer:
        writer.execute(
            "UPDATE memories SET status = 'active' WHERE id = $id", {"id": candidate["id"]}
        )
        values = {"id": stale["id"], "content": stale["indexed_content"]}
        writer.execute("UPDATE memories SET content = $content WHERE id = $id", values)
    found = [
        [hit.memory_id for hit in ask(store, fixture, query["query"], make_embedder(fixture)).hits]
        for query in fixture["negative_queries"]
    ]
    assert found == [[candidate["id"]], [], [stale["id"]]]
