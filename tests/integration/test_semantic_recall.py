"""The semantic branch on real indexes: what it adds, and who publishes meanwhile."""

import pytest
from helpers.asking import NOW, QUERY, TEXTS, Change, ask, assert_lexical, ids, publish_texts
from helpers.children import start_child
from helpers.indexes import (
    MapEmbedder,
    empty_pointers,
    forge_history,
    lean,
    lose_pointers,
    move_pointer,
    publish,
)
from helpers.recalls import list_cases
from helpers.runs import dump_tables
from helpers.sets import SPACE, START, change, change_set, create, evidence

from storage import Store
from storage.lexical import WORD_CJK_BIGRAM_V1
from storage.models import Namespace, format_namespace
from storage.repository import apply_change_set
from tasks.fusion import CONVEX_45
from tasks.recall import Recalled, RecallPolicy, SemanticSource, recall_memories
from tasks.semantic import (
    INDEX_CHANGED,
    INVALID,
    VERIFICATION_FAILED,
    SemanticStep,
    read_semantic_binding,
)
from tasks.session_binding import (
    describe_binding,
    make_binding,
    parse_binding,
    recall_session,
    resume_session,
)

pytestmark = pytest.mark.slow

OTHER = Namespace(tenant="t", principal="p", scope="other")


@pytest.fixture
def embedder(store: Store) -> MapEmbedder:
    return publish_texts(store)


_POINTERS: dict[str, tuple[dict[SemanticStep, Change], str | None]] = {
    "V147": ({"observe_2": move_pointer}, INDEX_CHANGED),
    "V148": ({"observe_3": move_pointer}, INDEX_CHANGED),
    "V149": ({"observe_3": forge_history}, INDEX_CHANGED),
    "V150": ({"observe_1": empty_pointers}, None),
    "V151": ({"observe_1": lose_pointers}, VERIFICATION_FAILED),
}
_OUTCOMES = {
    "semantic used": "used",
    "semantic dropped": "dropped",
    "lexical only, no search": "absent",
}


@pytest.mark.parametrize("name", [case["id"] for case in list_cases("observation")])
def test_three_readings_of_the_pointer_must_agree(
    name: str, store: Store, embedder: MapEmbedder
) -> None:
    expected = next(case["expected"] for case in list_cases("observation") if case["id"] == name)
    changes, warning = _POINTERS.get(name, ({}, None))
    found = ask(store, embedder, changes)
    assert found.semantic == _OUTCOMES[expected]
    if found.semantic == "used":
        assert [(hit.memory_id, hit.channel) for hit in found.hits] == [
            ("words", "hybrid"),
            ("near", "semantic"),
        ]
        return
    assert_lexical(store, found, warning)


def test_history_that_changes_before_the_search_is_noticed(
    store: Store, embedder: MapEmbedder
) -> None:
    assert_lexical(store, ask(store, embedder, {"observe_2": forge_history}), INDEX_CHANGED)


@pytest.mark.parametrize("step", ["observe_1", "search", "observe_2", "observe_3"])
def test_another_process_that_publishes_is_noticed_or_does_not_matter(
    step: SemanticStep, store: Store, embedder: MapEmbedder
) -> None:
    def publish_elsewhere(store: Store) -> None:
        space = format_namespace(SPACE)
        with start_child("publish_again", store.path, space, "sign anew") as child:
            assert child.hear_all() == ["published"]

    found = ask(store, embedder, {step: publish_elsewhere})
    if step == "observe_1":
        assert (found.semantic, found.warning) == ("used", None)
        assert ids(found) == ["words", "added sign anew", "near"]
    else:
        assert_lexical(store, found, INDEX_CHANGED)


@pytest.mark.parametrize("step", ["search", "observe_2", "observe_3"])
def test_publications_of_another_namespace_do_not_disturb(
    step: SemanticStep, store: Store, embedder: MapEmbedder
) -> None:
    def publish_foreign(store: Store) -> None:
        made = change_set("foreign", 1, create("foreign", "sign anew"))
        apply_change_set(store, {**made, "namespace": OTHER.model_dump()})
        publish(store, OTHER, MapEmbedder({"sign anew": lean(1.0)}))

    found = ask(store, embedder, {step: publish_foreign})
    assert (found.semantic, ids(found)) == ("used", ["words", "near"])


def test_memory_that_changes_while_it_is_searched_is_not_served_from_the_index(
    store: Store, embedder: MapEmbedder
) -> None:
    def revise(store: Store) -> None:
        step = change("revise", "near", 1, content="somewhat else", mode="correction")
        step["evidence"] = [evidence("e://2", 1)]
        apply_change_set(store, change_set("revised", 1, step))

    found = ask(store, embedder, {"observe_2": revise})
    assert (found.semantic, ids(found)) == ("used", ["words"])


def test_another_revision_of_the_same_text_is_served(store: Store, embedder: MapEmbedder) -> None:
    annotate = change("annotate", "near", 1, importance=0.9)
    apply_change_set(store, change_set("annotated", 1, annotate))
    found = ask(store, embedder)
    assert [(hit.memory_id, hit.revision) for hit in found.hits] == [("words", 1), ("near", 2)]


def test_fusion_can_be_chosen(store: Store, embedder: MapEmbedder) -> None:
    found = ask(store, embedder, fusion=CONVEX_45)
    assert [(hit.memory_id, round(hit.score, 2)) for hit in found.hits] == [
        ("words", 1.0),
        ("near", 0.0),
    ]


def test_without_index_no_embedder_is_loaded(store: Store) -> None:
    apply_change_set(store, change_set("made", 0, create("words", TEXTS["words"])))

    def load() -> MapEmbedder:
        raise AssertionError

    source = SemanticSource(load=load)
    policy = RecallPolicy()
    found = recall_memories(store, SPACE, QUERY, policy=policy, now=NOW, source=source)
    assert_lexical(store, found, None)


@pytest.mark.parametrize("query", ["", " ?! "])
def test_query_without_words_asks_nobody(store: Store, embedder: MapEmbedder, query: str) -> None:
    source = SemanticSource(load=lambda: embedder)
    policy = RecallPolicy()
    found = recall_memories(store, SPACE, query, policy=policy, now=START, source=source)
    assert found == Recalled([], "absent")
    assert embedder.queries == []


def test_session_searches_the_partition_of_its_binding(store: Store, embedder: MapEmbedder) -> None:
    bound = publish(store, SPACE, embedder, min_score=0.85).binding
    publish(store, SPACE, embedder, min_score=0.4)
    assert ids(ask(store, embedder, binding=bound)) == ["words"]
    assert ids(ask(store, embedder)) == ["words", "near"]
    invalid = {**bound, "authorityDigest": "none"}
    assert_lexical(store, ask(store, embedder, binding=invalid), INVALID)


def test_new_session_is_bound_to_what_is_served_and_goes_on_with_it(
    store: Store, embedder: MapEmbedder
) -> None:
    with store.read() as reader:
        part = read_semantic_binding(reader, SPACE)
        assert read_semantic_binding(reader, OTHER) is None
    binding = make_binding(SPACE, RecallPolicy(), part)
    found = recall_session(store, binding, QUERY, now=NOW, load=lambda: embedder)
    assert found == ask(store, embedder)
    # Another generation is served by now; the session keeps its own.
    publish(store, SPACE, embedder, min_score=0.85)
    resumed = resume_session(describe_binding(binding), binding)
    assert resumed == binding
    assert recall_session(store, binding, QUERY, now=NOW, load=lambda: embedder) == found
    assert ids(ask(store, embedder)) == ["words"]
    assert_lexical(store, recall_session(store, binding, QUERY, now=NOW), None)


def test_session_recalls_by_the_profile_and_policy_of_its_binding(store: Store) -> None:
    apply_change_set(store, change_set("made", 0, create("a", "冷库盘点表")))
    namespace = {"tenantId": "t", "principalId": "p", "scopeId": "s"}
    policy = {"maxResults": 5, "minLexicalScore": 0.4, "maxRelatedLookups": 0}
    legacy = {"namespace": namespace, "mode": "active_recall", "recallPolicy": policy}
    old = parse_binding({**legacy, "schemaVersion": 1})
    profile = {"retrievalProfile": WORD_CJK_BIGRAM_V1}
    new = parse_binding({**legacy, **profile, "schemaVersion": 2})
    answers = [ids(recall_session(store, one, "点表", now=NOW)) for one in (old, new)]
    assert answers == [[], ["a"]]


def test_recall_by_meaning_writes_nothing(store: Store, embedder: MapEmbedder) -> None:
    before = dump_tables(store)
    assert ask(store, embedder).semantic == "used"
    assert dump_tables(store) == before
