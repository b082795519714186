"""Public evaluation sets for recall, replayed unchanged: exact lists and figures."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

import pytest
from helpers.children import start_child
from helpers.recalls import list_cases
from helpers.sets import SPACE, START, change, change_set, create, edge, evidence
from helpers.shared import read_set

from storage import Store
from storage.encoding import format_f32
from storage.models import Namespace
from storage.repository import apply_change_set, read_state
from tasks.contexts import admit, make_item, name_context
from tasks.recall import parse_recall_policy, recall, recall_memories

pytestmark = pytest.mark.slow

FOREIGN = Namespace(tenant="t", principal="p", scope="elsewhere")
Case = dict[str, Any]


def _load(store: Store, nodes: Iterable[Mapping[str, Any]]) -> None:
    nodes = list(nodes)
    made = []
    for node in nodes:
        fields = {name: node[name] for name in ("kind", "status") if name in node}
        made.append(create(node["id"], node["content"], **fields))
    apply_change_set(store, change_set("nodes", 0, *made))
    revisions = {node["id"]: 1 for node in nodes}
    edges = {
        frozenset((node["id"], target)): kind
        for node in nodes
        for kind in ("related_to", "conflicts_with")
        for target in node.get(kind, [])
    }
    steps = []
    for ends, kind in edges.items():
        one, other = sorted(ends)
        for name, target in ((one, other), (other, one)):
            steps.append(change("add_relation", name, revisions[name], **edge(kind, target)))
            revisions[name] += 1
    if steps:
        apply_change_set(store, change_set("edges", 1, *steps))


def _recall(store: Store, query: str, policy: Mapping[str, object]) -> list[str]:
    with store.read() as reader:
        hits = recall(reader, SPACE, query, policy=parse_recall_policy(policy), now=START)
    return [hit.memory_id for hit in hits]


def _rates(found: list[list[str]], relevant: list[list[str]]) -> tuple[float, float]:
    """Give recall at 5 and the mean reciprocal rank."""
    pairs = list(zip(found, relevant, strict=True))
    recalls = [len(set(ids[:5]) & set(wanted)) / len(wanted) for ids, wanted in pairs]
    ranks = [
        next((1 / place for place, name in enumerate(ids, 1) if name in wanted), 0.0)
        for ids, wanted in pairs
    ]
    return round(fmean(recalls), 4), round(fmean(ranks), 4)


@pytest.mark.parametrize(("branch", "lookups"), [("lexical", 0), ("relation", 8)])
def test_v272_retrieval_lists_and_rates_are_exact(store: Store, branch: str, lookups: int) -> None:
    fixture = read_set("retrieval")
    _load(store, fixture["nodes"])
    policy = {**fixture["policy"], "max_related_lookups": lookups}
    found = [_recall(store, query["query"], policy) for query in fixture["queries"]]
    assert found == [query[f"expected_{branch}_ids"] for query in fixture["queries"]]
    relevant = [query["relevant_node_ids"] for query in fixture["queries"]]
    wanted = fixture["expected_summary"][branch]
    assert _rates(found, relevant) == (wanted["recall_at_5"], wanted["mean_reciprocal_rank"])
    for negative in fixture["negative_queries"]:
        ids = _recall(store, negative["query"], policy)
        assert not set(ids) & set(negative["forbidden_node_ids"])


def test_v273_every_language_finds_its_memory_and_nothing_else(store: Store) -> None:
    fixture = read_set("multilingual")
    _load(store, fixture["nodes"])
    foreign = fixture["foreign_node"]
    made = change_set("foreign", 0, create(foreign["id"], foreign["content"]))
    apply_change_set(store, {**made, "namespace": FOREIGN.model_dump()})
    policy, scores, admissions = parse_recall_policy(fixture["policy"]), {}, 0
    for number, query in enumerate(fixture["queries"]):
        (hit,) = recall_memories(store, SPACE, query["query"], policy=policy, now=START).hits
        assert hit.memory_id == query["relevant_node_id"]
        scores[query["language"][:2]] = format_f32(hit.score)
        context_id = name_context("session", "run", query["id"], number)
        items = [make_item(hit)]
        kept = admit(store, SPACE, items, [hit], context_id=context_id, occurred_at=START)
        admissions += len(kept)
    for query in fixture["negative_queries"]:
        assert _recall(store, query["query"], fixture["policy"]) == []
    expected = next(one["expected"] for one in list_cases("fixture") if one["id"] == "V273")
    assert (scores, admissions) == (expected["top_scores"], expected["admissions"])


def test_v276_memory_survives_epochs_of_fresh_processes(store: Store) -> None:
    fixture = read_set("restart-endurance")
    first, second = fixture["active_node"]["revisions"]
    name, hidden = fixture["active_node"]["id"], fixture["candidate_node"]
    candidate = create(hidden["id"], hidden["content"], status="candidate")
    apply_change_set(store, change_set("k1", 0, create(name, first), candidate))
    revise = change("revise", name, 1, content=second, mode="refinement")
    revise["evidence"] = [evidence("e://second", 1)]
    apply_change_set(store, change_set("k2", 1, revise))
    admitted = 0
    for epoch in range(fixture["epochs"]):
        for agent in fixture["agents"]:
            turns = fixture["turns_per_agent_per_epoch"]
            said = (agent["id"], epoch, turns, fixture["query"])
            with start_child("admit_hits", store.path, *said) as child:
                admitted += sum(line == name for line in child.hear_all())
    assert admitted == fixture["thresholds"]["expected_admissions"]
    with store.read() as reader:
        record = read_state(reader, SPACE, name)
        events = reader.rows("SELECT DISTINCT memory_id FROM access_events")
        history = reader.rows("SELECT count(*) FROM revisions WHERE memory_id = $id", {"id": name})
    assert record is not None
    assert (record.revision, history, events) == (2, [(1,)], [(name,)])
