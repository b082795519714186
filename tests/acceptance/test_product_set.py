"""Public evaluation set of a product: what memory does for ten tasks, and one captured conflict."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from helpers.sets import SPACE, START, change, change_set, create, edge, evidence
from helpers.shared import read_set

from storage import Store
from storage.models import MemoryRecord, round_to_f32
from storage.query import query_memories
from storage.repository import apply_change_set, read_state
from tasks.memory_store import DuckMemoryStore
from tasks.recall import Hit, RecallPolicy, parse_recall_policy, recall

pytestmark = pytest.mark.slow

TOKEN_BYTES = 4  # spec/recall.md R14
Node = Mapping[str, Any]


def _load(store: Store, nodes: Iterable[Node]) -> None:
    """Create all memories in one change set, with both ends of their edges."""
    nodes = list(nodes)
    edges: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for node in nodes:
        for kind in ("related_to", "conflicts_with"):
            for target in node[kind]:
                edges[node["id"]].add((kind, target))
                edges[target].add((kind, node["id"]))
    made = []
    for node in nodes:
        relations = [edge(*ends)["relation"] for ends in edges[node["id"]]]
        fields = {name: node[name] for name in ("kind", "status")}
        made.append(create(node["id"], node["content"], relations=relations, **fields))
    apply_change_set(store, change_set("nodes", 0, *made))


def _recall(store: Store, query: str, policy: RecallPolicy | None) -> list[Hit]:
    with store.read() as reader:
        return recall(reader, SPACE, query, policy=policy, now=START)


def _count_tokens(hits: Iterable[Hit]) -> int:
    return sum(max(1, len(hit.content.encode()) // TOKEN_BYTES) for hit in hits)


@pytest.mark.parametrize("arm", ["no_memory", "v2"])
def test_v277_memory_solves_the_expected_share_of_tasks(store: Store, arm: str) -> None:
    thresholds, tasks = read_set("product")["thresholds"], read_set("retrieval")
    _load(store, tasks["nodes"])
    policy = None if arm == "no_memory" else parse_recall_policy(tasks["policy"])
    solved = 0
    for task in tasks["queries"]:
        hits = _recall(store, task["query"], policy)
        solved += task["relevant_node_ids"][0] in {hit.memory_id for hit in hits}
        assert _count_tokens(hits) <= thresholds["maximum_memory_context_tokens_per_task"]
    assert solved / len(tasks["queries"]) == thresholds["expected_task_success"][arm]


def test_v277_search_of_the_store_api_solves_what_words_alone_can(store: Store) -> None:
    thresholds, tasks = read_set("product")["thresholds"], read_set("retrieval")
    _load(store, tasks["nodes"])
    memory = DuckMemoryStore(store, SPACE, clock=lambda: START, new_id=lambda: "unused")
    solved = 0
    for task in tasks["queries"]:
        found = memory.search(task["query"], tasks["policy"]["max_results"])
        solved += task["relevant_node_ids"][0] in {item.id for item in found}
    assert solved / len(tasks["queries"]) == thresholds["expected_task_success"]["v1"]


def _capture(store: Store) -> tuple[dict[str, Any], dict[str, MemoryRecord]]:
    """Store the first proposal beside the memory that it conflicts with; give it and both."""
    capture = read_set("product")["capture"]
    held, item = capture["old_memory"], capture["items"][0]
    assert (item["expected_accepted"], item["conflicts_with"]) == (True, ["$OLD_MEMORY_ID"])
    labels = {name: held[name] for name in ("importance", "tags")}
    apply_change_set(store, change_set("held", 0, create("held", held["content"], **labels)))
    proposal = create(
        "proposed",
        item["content"],
        kind=item["memory_type"],
        status="candidate",
        relations=[edge("conflicts_with", "held")["relation"]],
        evidence=[evidence(f"session:{capture['session_id']}", kind="session_turn")],
        **{name: item[name] for name in ("importance", "confidence", "tags")},
    )
    other_end = change("add_relation", "held", 1, **edge("conflicts_with", "proposed"))
    apply_change_set(store, change_set("capture", 1, proposal, other_end))
    with store.read() as reader:
        states = {name: read_state(reader, SPACE, name) for name in ("held", "proposed")}
    return item, {name: state for name, state in states.items() if state is not None}


def test_v277_a_captured_proposal_is_a_candidate_with_its_conflict_on_both_sides(
    store: Store,
) -> None:
    item, states = _capture(store)
    held, proposed = states["held"], states["proposed"]
    assert (proposed.status, proposed.kind, held.status) == ("candidate", "semantic", "active")
    for name in ("importance", "confidence"):
        assert getattr(proposed, name) == round_to_f32(item[name])
    assert (proposed.content, list(proposed.tags)) == (item["content"], item["tags"])
    edges = [(edge.kind, edge.target_id) for one in (held, proposed) for edge in one.relations]
    assert edges == [("conflicts_with", "proposed"), ("conflicts_with", "held")]


def test_v277_a_captured_proposal_is_not_served(store: Store) -> None:
    item, _ = _capture(store)
    text = {"namespace": SPACE, "text": item["content"]}
    with store.read() as reader:
        served = query_memories(reader, text)
        asked = query_memories(reader, {**text, "statuses": ["candidate"]})
    assert [hit.memory_id for hit in served] == ["held"]
    assert [hit.memory_id for hit in asked] == ["proposed"]
    hits = _recall(store, item["content"], RecallPolicy(max_related_lookups=8))
    assert "proposed" not in {hit.memory_id for hit in hits}
