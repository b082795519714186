"""Public evaluation set of two agents that share one memory: who is shown what, counted once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers.runs import dump_tables
from helpers.sets import SPACE, START, change_set, create
from helpers.shared import read_set

from storage import Store, open_store
from storage.access import AccessEvent, Usage, parse_event, read_usage, record_event, record_events
from storage.change_errors import AdmissionNotAllowedError
from storage.encoding import format_f32
from storage.errors import MaintenanceError, MemoryNotFoundError
from storage.models import Namespace
from storage.query import query_memories
from storage.repository import apply_change_set
from tasks.recall import Hit, parse_recall_policy, recall

pytestmark = pytest.mark.slow

FOREIGN = Namespace(tenant="t", principal="someone-else", scope="s")
# Low enough for every text of the set: only status and namespace keep them apart.
POLICY = {"max_results": 3, "min_lexical_score": 0.2}
COVERAGE = "0.5714286"
Fixture = dict[str, Any]


@pytest.fixture
def fixture(store: Store) -> Fixture:
    """Load the set into the store and give it."""
    found = read_set("multi-agent")
    candidate = create(**_name(found["candidate_node"]), status="candidate")
    shared = create(**_name(found["shared_node"]))
    apply_change_set(store, change_set("seed", 0, shared, candidate))
    foreign = change_set("seed", 0, create(**_name(found["foreign_node"])))
    apply_change_set(store, {**foreign, "namespace": FOREIGN.model_dump()})
    return found


def _name(node: dict[str, str]) -> dict[str, str]:
    return {"memory_id": node["id"], "content": node["content"], "kind": "procedural"}


def _recall(store: Store, query: str, space: Namespace = SPACE) -> list[Hit]:
    with store.read() as reader:
        return recall(reader, space, query, policy=parse_recall_policy(POLICY), now=START)


def _make_events(hits: list[Hit], agent: dict[str, str], number: int) -> list[AccessEvent]:
    """Give the admissions of one context; every session counts its contexts from one."""
    context_id = f"{agent['session_id']}/{number}"
    return [
        AccessEvent(
            id=f"{context_id}/{hit.memory_id}/{hit.revision}",
            namespace=SPACE,
            memory_id=hit.memory_id,
            revision=hit.revision,
            occurred_at=START,
            context_id=context_id,
            actor=agent["id"],
        )
        for hit in hits
    ]


def _show(store: Store, query: str, agent: dict[str, str], number: int) -> list[AccessEvent]:
    """Recall in a context of an agent's and admit every hit."""
    events = _make_events(_recall(store, query), agent, number)
    assert record_events(store, "admission", events) == [None] * len(events)
    return events


def _run_contexts(store: Store, fixture: Fixture) -> list[list[AccessEvent]]:
    """Let both agents ask at once, and the first one again when the other has gone."""
    query, (alpha, beta) = fixture["query"], fixture["agents"]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda agent: _show(store, query, agent, 1), (alpha, beta)))
    return [*both, _show(store, query, alpha, 2)]


def _count(store: Store, memory_id: str, space: Namespace = SPACE) -> Usage:
    """Count the events of a memory in a store that is opened anew."""
    with open_store(store.path).read() as reader:
        return read_usage(reader, space, memory_id)


def _try(store: Store, values: dict[str, Any]) -> bool | MaintenanceError:
    try:
        with store.write() as writer:
            return record_event(writer, "admission", parse_event(values))
    except MaintenanceError as error:
        return error


def test_v275_each_context_admits_the_shared_memory_and_nothing_else(
    store: Store, fixture: Fixture
) -> None:
    contexts = _run_contexts(store, fixture)
    thresholds = fixture["thresholds"]
    shown = [[event.memory_id for event in events] for events in contexts]
    assert shown == [[fixture["shared_node"]["id"]]] * thresholds["expected_model_calls"]
    forbidden = {fixture["candidate_node"]["id"], fixture["foreign_node"]["id"]}
    hits = sum(name in forbidden for names in shown for name in names)
    assert hits == thresholds["maximum_forbidden_context_hits"]
    shared = _count(store, fixture["shared_node"]["id"])
    assert shared == Usage(admissions=thresholds["expected_shared_admissions"], uses=0)
    candidate = _count(store, fixture["candidate_node"]["id"])
    assert candidate == Usage(admissions=thresholds["expected_candidate_admissions"], uses=0)
    assert _count(store, fixture["foreign_node"]["id"], FOREIGN) == Usage(admissions=0, uses=0)


def test_v275_replayed_admissions_change_nothing(store: Store, fixture: Fixture) -> None:
    contexts = _run_contexts(store, fixture)
    before = dump_tables(store)
    for events in contexts:
        assert record_events(open_store(store.path), "admission", events) == [None]
        assert [_try(store, event.model_dump()) for event in events] == [False]
    assert dump_tables(store) == before


def test_v275_only_status_and_namespace_keep_the_texts_apart(
    store: Store, fixture: Fixture
) -> None:
    query, shared, foreign = fixture["query"], fixture["shared_node"], fixture["foreign_node"]
    statuses = ["active", "candidate"]
    with store.read() as reader:
        own = query_memories(reader, {"namespace": SPACE, "text": query, "statuses": statuses})
    assert {hit.memory_id for hit in own} == {shared["id"], fixture["candidate_node"]["id"]}
    found = _recall(store, query, FOREIGN)
    assert [hit.memory_id for hit in found] == [foreign["id"]]
    scores = [hit.score for hit in own] + [hit.score for hit in found]
    assert {format_f32(score) for score in scores} == {COVERAGE}


def test_v275_nobody_can_admit_what_is_not_served_to_them(store: Store, fixture: Fixture) -> None:
    ((shown,), *_) = _run_contexts(store, fixture)
    event = {**shown.model_dump(), "id": "forced"}
    refusals = [
        _try(store, {**event, "memory_id": fixture[node]["id"]})
        for node in ("candidate_node", "foreign_node")
    ]
    assert [type(one) for one in refusals] == [AdmissionNotAllowedError, MemoryNotFoundError]
    # Event ids are those of a namespace: the same one is free in the other.
    other = {"namespace": FOREIGN, "memory_id": fixture["foreign_node"]["id"]}
    assert _try(store, {**shown.model_dump(), **other}) is True
    assert _count(store, shown.memory_id).admissions == 3
    assert _count(store, fixture["foreign_node"]["id"], FOREIGN).admissions == 1
