"""Stale siblings: active memories that still say what a superseded one said."""

from itertools import product
from random import Random

import pytest
from helpers.duplicates import make_texts
from helpers.indexes import MapEmbedder, lean, publish
from helpers.sets import SPACE
from helpers.supersessions import LATER, add, ask, draft, find_stale, list_ids, reach, supersede

from storage import Store
from storage.query import query_memories
from storage.snapshots import take_snapshot
from tasks.recall import RecallPolicy, SemanticSource, recall_memories
from tasks.rules.pairs import PairResult, PairVerdict, judge_pair
from tasks.rules.prepared import Prepared, prepare
from tasks.stale_siblings import StaleSibling
from tasks.supersession import Outdated, Replacement, supersede_memory

QUERY = "deploy window friday"
# Figures would keep texts apart that differ in one word.
_LETTERS = str.maketrans("0123456789", "abcdefghij")


def test_superseded_memory_is_hidden_and_its_copy_reported_until_resolved(store: Store) -> None:
    """C33: A, A' (copy of A), B supersedes A."""
    texts = {"a": "The deploy window is Friday noon", "a2": "the deploy window is friday noon!"}
    add(store, *texts.items(), ("other", "The build window is Friday noon"))
    embedder = MapEmbedder({texts["a"]: lean(1.0), texts["a2"]: lean(0.9), QUERY: lean(1.0)})
    publish(store, SPACE, embedder)
    new = Replacement("b", draft=draft("The deploy window is Monday noon"))
    supersede_memory(store, ask("a", new=new))
    assert list_ids(store) == ["a2", "b", "other"]
    source = SemanticSource(load=lambda: embedder)
    found = recall_memories(store, SPACE, QUERY, policy=RecallPolicy(), now=LATER, source=source)
    assert found.semantic == "used"
    assert {hit.memory_id for hit in found.hits} == {"a2", "b", "other"}
    request = {"namespace": SPACE.model_dump(), "text": QUERY, "limit": 9}
    with store.read() as reader:
        assert "a" not in [hit.memory_id for hit in query_memories(reader, request)]
        snapshot = take_snapshot(reader, SPACE, statuses=["active"], max_nodes=9, max_bytes=99_999)
    assert snapshot.ids == ("a2", "b", "other")
    assert find_stale(store) == [StaleSibling("a2", "a", "b", PairResult.EXACT)]
    supersede_memory(store, ask("a2", new=Replacement("b", revision=reach(store, "b").revision)))
    assert find_stale(store) == []


def test_near_copy_is_a_stale_sibling_and_the_successor_is_none(store: Store) -> None:
    text = "Run nightly ledger export checks after schema changes"
    add(store, ("a", text), ("near", f"{text} too"), ("b", f"{text} also"), ("far", "Run checks"))
    supersede(store, "a", "b")
    assert find_stale(store) == [StaleSibling("near", "a", "b", PairResult.NEAR)]
    add(store, ("c", f"{text} again"))
    supersede(store, "b", "c", minute=2)
    found = [(one.memory_id, one.superseded_id, one.superseded_by) for one in find_stale(store)]
    assert found == [("near", "a", "b")]


def test_lock_is_free_while_texts_are_compared(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Run nightly ledger export checks after schema changes"
    add(store, ("a", text), ("near", f"{text} too"), ("b", f"{text} also"))
    supersede(store, "a", "b")

    def judge_and_write(*pair: Prepared) -> PairVerdict:
        add(store, ("meanwhile", "Something else was said"))
        return judge_pair(*pair)

    monkeypatch.setattr("tasks.stale_siblings.judge_pair", judge_and_write)
    assert [one.memory_id for one in find_stale(store)] == ["near"]
    assert "meanwhile" in list_ids(store)


def test_loser_of_a_merge_has_no_stale_siblings(store: Store) -> None:
    add(store, ("a", "The deploy window is Friday noon"), ("b", "Deploys are on Friday at noon"))
    add(store, ("a2", "the deploy window is friday noon"))
    supersede(store, "a", "b")
    assert [one.memory_id for one in find_stale(store)] == ["a2"]
    with store.write() as writer:
        writer.execute("UPDATE memories SET revision_kind = 'merged' WHERE id = 'b'")
    assert find_stale(store) == []


@pytest.mark.slow
def test_stale_siblings_are_those_of_judging_every_pair(store: Store) -> None:
    made = make_texts(Random(3), 300)  # noqa: S311 - not for secrets
    texts = {f"m{place:03}": text.translate(_LETTERS) for place, text in enumerate(made)}
    for start in range(0, 300, 100):
        add(store, *list(texts.items())[start : start + 100])
    gone = sorted(texts)[::3]
    for start in range(0, 100, 25):
        old = tuple(Outdated(name, 1) for name in gone[start : start + 25])
        supersede_memory(store, ask(old, new=Replacement(f"n{start}", draft=draft())))
    expected = {
        (kept, old)
        for old, kept in product(gone, sorted(texts.keys() - set(gone)))
        if judge(texts[old], texts[kept]) in {PairResult.EXACT, PairResult.NEAR}
    }
    assert len(expected) > 7
    assert {(one.memory_id, one.superseded_id) for one in find_stale(store)} == expected


def judge(old: str, kept: str) -> PairResult:
    pair = (prepare(text, kind="semantic", namespace_id=1) for text in (old, kept))
    return judge_pair(*pair).result
