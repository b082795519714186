"""Near vectors of published indexes: which pairs are found, which vectors do not count, and why."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import lancedb
import numpy as np
import pytest
from helpers.asking import NOW
from helpers.consolidation import cases
from helpers.embedders import IDENTITY
from helpers.indexes import MapEmbedder, empty_pointers, lean, publish
from helpers.runs import dump_tables
from helpers.sets import SPACE, change, change_set, create, evidence

from storage import Store
from storage.models import Namespace
from storage.partitions import Partition
from storage.repository import apply_change_set
from storage.vectors import VectorStore
from tasks.providers.checks import normalise_vector
from tasks.rules.clusters import form_clusters
from tasks.rules.conflicts import ConflictClass
from tasks.rules.cosine import compare_vectors
from tasks.rules.prepared import prepare
from tasks.rules.semantic_pairs import SemanticResult, SemanticVerdict, judge_semantic_pair
from tasks.semantic_pairs import SCHEMA, SemanticPairs, find_semantic_pairs

Json = dict[str, Any]
Vectors = dict[str, list[float]]
OTHER = Namespace(tenant="t", principal="p", scope="other")
PLAIN = IDENTITY.model_copy(update={"normalisation": "none"})


def serve(store: Store, vectors: Vectors, space: Namespace = SPACE, **fields: object) -> Partition:
    """Publish memories whose texts have these vectors; their ids are the texts."""
    made = (create(text, text, **fields) for text in vectors)
    values = change_set(f"made-{min(vectors)}", 0, *made)
    apply_change_set(store, {**values, "namespace": space.model_dump()})
    return publish(store, space, MapEmbedder(vectors, PLAIN))


def find(store: Store, threshold: float = 0.95, **options: int) -> SemanticPairs:
    return find_semantic_pairs(store, SPACE, threshold=threshold, now=NOW, **options)


def rows(found: SemanticPairs) -> list[tuple[str, str, float]]:
    assert found.pairs.schema == SCHEMA
    listed = found.pairs.to_pylist()
    return [(row["memory_id"], row["partner_id"], row["cosine"]) for row in listed]


def ids(found: SemanticPairs) -> list[tuple[str, str]]:
    return [(one, other) for one, other, _ in rows(found)]


def change_vector(store: Store, memory_id: str, vector: list[float]) -> None:
    """Change a stored vector behind everybody's back."""
    database = lancedb.connect(store.path / "vectors")
    (name,) = VectorStore(store.path).tables()
    where = f"memory_id = '{memory_id}'"
    database.open_table(name).update(where=where, values={"vector": vector})


def revise(store: Store, memory_id: str) -> None:
    step = change("revise", memory_id, 1, content="another text", mode="correction")
    step["evidence"] = [evidence("e://2", 1)]
    apply_change_set(store, change_set(f"revised-{memory_id}", 1, step))


def judge(one: str, other: str, **fields: str | None) -> SemanticVerdict:
    pair = [prepare(text, kind="semantic", namespace_id=1, **fields) for text in (one, other)]
    found = judge_semantic_pair(*pair)
    assert found == judge_semantic_pair(*reversed(pair))
    return found


@cases("cosine")
def test_stored_vectors_are_compared_as_the_vector_says(case: Json, store: Store) -> None:
    given, expected = case["input"], case["expect"]
    serve(store, {"a": given["a"], "b": given["b"]})
    found = find(store, given["threshold"])
    assert len(rows(found)) == int(expected["candidate"])
    if expected["cosine"] is None:
        assert (found.compared, found.unembeddable) == (1, 1)
    else:
        assert rows(find(store, expected["cosine"])) == [("a", "b", expected["cosine"])]


def test_memories_that_are_near_in_a_chain_are_no_clique(store: Store) -> None:
    """C29: cosines .898384, .890399, .6."""
    serve(store, {"a": [1.0, 0.0], "b": [0.9, 0.44], "c": [0.6, 0.8]})
    found = find(store, 0.85)
    assert rows(found) == [("a", "b", 0.898384), ("b", "c", 0.890399)]
    assert rows(find(store, 0.6)) == [
        ("a", "b", 0.898384),
        ("a", "c", 0.6),
        ("b", "c", 0.890399),
    ]
    clusters = form_clusters(["a", "b", "c"], ids(found))
    assert (clusters.merges, clusters.parted) == ((("a", "b"),), (("b", "c"),))


def test_vectors_without_a_direction_do_not_count(store: Store) -> None:
    serve(store, {"a": lean(1.0), "b": lean(0.99), "zero": lean(0.98)})
    change_vector(store, "zero", [0.0, 0.0])
    found = find(store)
    assert ids(found) == [("a", "b")]
    assert (found.compared, found.unembeddable, found.stale) == (2, 1, 0)
    before = dump_tables(store)
    assert find(store) == replace(found, searched=0)
    assert dump_tables(store) == before


def test_vector_that_loses_its_direction_does_not_count_any_more(store: Store) -> None:
    serve(store, {"a": lean(1.0), "b": lean(0.99), "zero": lean(0.98)})
    assert find(store).compared == 3
    serve(store, {"new": lean(0.97)})
    change_vector(store, "zero", [0.0, 0.0])
    found = find(store)
    assert ids(found) == [("a", "b"), ("a", "new"), ("b", "new")]
    assert (found.searched, found.compared, found.unembeddable) == (1, 3, 1)


def test_memory_without_a_vector_is_counted(store: Store) -> None:
    serve(store, {"a": lean(1.0), "b": lean(0.99)})
    apply_change_set(store, change_set("late", 1, create("late", "not yet published")))
    found = find(store)
    assert (found.compared, found.unembeddable, found.stale) == (2, 1, 0)


def test_vector_of_an_earlier_text_does_not_count(store: Store) -> None:
    serve(store, {"a": lean(1.0), "b": lean(0.99), "c": lean(0.98)})
    revise(store, "b")
    found = find(store)
    assert ids(found) == [("a", "c")]
    assert (found.compared, found.unembeddable, found.stale) == (2, 0, 1)


def test_vectors_that_do_not_count_crowd_nobody_out(store: Store) -> None:
    stale = {f"s{number}": lean(1.0) for number in range(5)}
    serve(store, {"a": lean(1.0), "z": lean(0.99), **stale})
    for name in stale:
        revise(store, name)
    assert ids(find(store, k=1)) == [("a", "z")]


def test_only_living_memories_take_part(store: Store) -> None:
    serve(store, {"a": lean(1.0), "b": lean(0.99)})
    serve(store, {"gone": lean(1.0)}, expires_at="2026-01-01T01:00:00Z")
    apply_change_set(
        store, change_set("dead", 1, change("set_status", "b", 1, status="tombstoned"))
    )
    found = find(store)
    assert (found.compared, rows(found)) == (1, [])


def test_vector_of_a_cut_text_is_marked(store: Store) -> None:
    vectors = {"a": lean(1.0), "b": lean(0.99), "cut": lean(0.98)}
    marked = create("cut", "cut", metadata={"embedding_truncated": "true"})
    apply_change_set(store, change_set("made", 0, create("a", "a"), create("b", "b"), marked))
    publish(store, SPACE, MapEmbedder(vectors, PLAIN))
    found = find(store)
    assert ids(found) == [("a", "b"), ("a", "cut"), ("b", "cut")]
    assert found.pairs.column("is_truncated").to_pylist() == [False, True, True]
    assert found.truncated == 1


def test_other_namespaces_are_never_partners(store: Store) -> None:
    serve(store, {"a": lean(1.0)})
    serve(store, {"b": lean(1.0)}, space=OTHER)
    found = find(store)
    assert (found.compared, rows(found)) == (1, [])


def test_nothing_is_looked_for_unless_something_is_served(store: Store) -> None:
    nothing = SemanticPairs(SCHEMA.empty_table(), "not_served")
    assert find(store) == nothing
    serve(store, {"a": lean(1.0), "b": lean(0.99)})
    assert find(store).obstacle is None
    empty_pointers(store)
    assert find(store) == nothing


def test_index_of_another_history_is_not_believed(store: Store) -> None:
    serve(store, {"a": lean(1.0), "b": lean(0.99)})
    with store.write() as writer:
        writer.execute("UPDATE publications SET store_history = 'sha256:other'")
    assert find(store).obstacle == "not_served"


def test_only_what_searches_found_is_written(store: Store) -> None:
    serve(store, {"a": lean(1.0), "b": lean(0.99)})
    before, vectors = dump_tables(store), VectorStore(store.path)
    (table,) = vectors.tables()
    versions = vectors.figures(table).versions
    find(store)
    after = dump_tables(store)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"semantic_states", "semantic_searches", "semantic_pairs"}
    assert vectors.figures(table).versions == versions


@pytest.mark.slow
def test_pairs_are_those_of_comparing_every_vector(store: Store) -> None:
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(60, 8))
    identity = PLAIN.model_copy(update={"dimension": 8})
    made = centres[rng.integers(0, 60, 600)] + 0.2 * rng.normal(size=(600, 8))
    vectors = {f"m{place:03}": vector.tolist() for place, vector in enumerate(made)}
    names = [f"m{place:03}" for place in rng.permutation(600)]
    for start in range(0, len(names), 100):
        some = (create(name, name) for name in names[start : start + 100])
        apply_change_set(store, change_set(f"some-{start}", 0, *some))
    publish(store, SPACE, MapEmbedder(vectors, identity))
    unit = np.array([normalise_vector(vector, identity) for vector in made.astype(np.float32)])
    expected = []
    for one, other in combinations(range(len(unit)), 2):
        (cosine,) = compare_vectors(unit[[one]], unit[[other]])
        if cosine >= 0.95:
            expected.append((f"m{one:03}", f"m{other:03}", cosine))
    assert len(expected) > 300
    found = find(store, k=50)
    assert rows(found) == sorted(expected, key=lambda pair: (pair[1], pair[0]))
    assert found.compared == 600


def test_each_memory_has_at_most_k_partners_of_its_own(store: Store) -> None:
    serve(store, {f"m{number}": lean(1 - number / 1_000) for number in range(6)})
    assert ids(find(store, k=1)) == [
        ("m0", "m1"),
        ("m1", "m2"),
        ("m2", "m3"),
        ("m3", "m4"),
        ("m4", "m5"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(
            "we ship on fridays",
            "friday is the day of our releases",
            ("semantic", ()),
            id="paraphrase",
        ),
        pytest.param(
            "copy the ledger from primary to replica",
            "copy the ledger from replica to primary",
            ("semantic", ()),
            id="order-does-not-apply",
        ),
        pytest.param(
            "we ship on day 5", "shipping happens on day 6", ("similar", ("figures",)), id="figures"
        ),
        pytest.param(
            "we only ship on fridays",
            "fridays we ship",
            ("similar", ("qualifier",)),
            id="qualifier",
        ),
        pytest.param(
            "they met Ann today", "today they met Bea", ("similar", ("names",)), id="names"
        ),
        pytest.param("are we done?", "we are done", ("similar", ("marks",)), id="marks"),
        pytest.param("!!!", "???", ("none", ("empty",)), id="no-tokens"),
    ],
)
def test_guards_but_those_of_wording_apply(
    one: str, other: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    found = judge(one, other)
    assert (found.result.value, found.reasons, found.conflict_class) == (*expected, None)


def test_contradictions_stay_contradictions() -> None:
    """C28, and a slot whose values no guard tells apart."""
    oslo = judge("Acme HQ is in Oslo", "Acme HQ is in Bergen")
    assert (oslo.result, oslo.conflict_class) == (SemanticResult.CONFLICT, ConflictClass.SLOT)
    assert judge("Ann is CEO of Acme", "Bea is CTO of Acme").result == SemanticResult.SIMILAR
    flag = judge("Feature flag Z is enabled", "Feature flag Z is disabled")
    assert (flag.result, flag.conflict_class) == (SemanticResult.CONFLICT, ConflictClass.POLARITY)
    door = judge("the front door is painted red", "the front door is painted blue")
    assert (door.reasons, door.conflict_class) == ((), ConflictClass.SLOT)
    drink = judge("Sam drinks coffee", "coffee is for Sam", declared_slot="sam.drink")
    assert drink.conflict_class == ConflictClass.DECLARED


def test_namespaces_are_never_compared() -> None:
    pair = [prepare("one fact", kind="semantic", namespace_id=owner) for owner in (1, 2)]
    assert judge_semantic_pair(*pair).result == SemanticResult.NONE
