"""Which ancestors go with their heads: the scalar rule on random graphs, and edges that ended."""

from datetime import datetime
from typing import cast

import pyarrow as pa
import pytest
from helpers.rows import memory_table
from helpers.runs import plan_id_of, read_rows, request_job, run_one
from helpers.vectors import load_vectors
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.rows import Case, Defaults, rows_of
from oracles.rows import carry_ancestors as carry_by_scalar_rule

from storage import Store
from storage.memories import RELATION_SCHEMA, insert_memories, insert_relations
from storage.models import DEFAULT_NAMESPACE
from storage.plans import read_decisions
from tasks.policies import PrunePolicy, SweepPolicy
from tasks.rules.lineage import carry_ancestors

OLD = datetime.fromisoformat("2026-01-01T00:00:00Z")
NAMES = st.sampled_from("abcdef")
EDGES = st.sets(st.tuples(NAMES, NAMES).filter(lambda edge: edge[0] != edge[1]), max_size=16)


@settings(max_examples=400, derandomize=True, database=None, deadline=None)
@example(heads=["a", "b"], edges={("a", "c"), ("c", "d"), ("b", "d")}, superseded={"c", "d"})
@given(heads=st.lists(NAMES, unique=True, max_size=5), edges=EDGES, superseded=st.sets(NAMES))
def test_ancestors_are_carried_as_by_the_scalar_rule(
    heads: list[str], edges: set[tuple[str, str]], superseded: set[str]
) -> None:
    kept = {(successor, ancestor) for successor, ancestor in edges if ancestor in superseded}
    found: dict[str, list[str]] = {head: [] for head in heads}
    for ancestor, place in carry_ancestors(heads, sorted(kept)).items():
        found[heads[place]].append(ancestor)
    rows = [
        {
            "id": name,
            "status": "superseded" if name in superseded else "active",
            "relations": [{"kind": "supersedes", "target_id": a} for s, a in edges if s == name],
        }
        for name in "abcdef"
    ]
    case = cast("Case", {"inputs": {"rows": rows}})
    defaults = cast("Defaults", load_vectors("sweep")["S01"].defaults)
    wanted = carry_by_scalar_rule(rows_of(case, defaults), heads)
    assert {head: sorted(carried) for head, carried in found.items()} == wanted


def link(store: Store, *edges: tuple[object, ...]) -> None:
    """Insert edges: from, kind, to, and the revision that ended it, if any."""
    names = ("memory_id", "kind", "target_id", "until_revision")
    owner = {"namespace_id": 1, "since_revision": 1}
    rows = [{**owner, **dict(zip(names, edge, strict=True))} for edge in edges]
    with store.write() as writer:
        insert_relations(writer, pa.Table.from_pylist(rows, schema=RELATION_SCHEMA))


@pytest.fixture
def chained(store: Store) -> Store:
    """Give a store with a due tombstone, a superseded and two young memories, without edges."""
    due = {"id": "due", "status": "tombstoned", "tombstoned_at": OLD}
    old = {"id": "old", "status": "superseded"}
    with store.write() as writer:
        insert_memories(writer, memory_table(due, old, {"id": "young"}))
    return store


@pytest.mark.parametrize(
    ("edges", "left"),
    [
        pytest.param([("due", "supersedes", "old", None)], ["young"], id="live"),
        pytest.param([("due", "supersedes", "old", 2)], ["old", "young"], id="ended"),
        pytest.param(
            [("due", "supersedes", "old", None), ("young", "supersedes", "old", None)],
            ["old", "young"],
            id="another-live",
        ),
        pytest.param(
            [("due", "supersedes", "old", None), ("young", "supersedes", "old", 2)],
            ["young"],
            id="another-ended",
        ),
    ],
)
def test_only_live_edges_carry_an_ancestor_or_keep_it(
    chained: Store, now: datetime, edges: list[tuple[object, ...]], left: list[str]
) -> None:
    link(chained, *edges)
    run_one(request_job(chained, job="sweep", policy=SweepPolicy(), now=now, mode="apply"))
    assert list(read_rows(chained, DEFAULT_NAMESPACE)) == left


def test_only_live_edges_protect_from_prune(store: Store, now: datetime) -> None:
    rows = [{"id": name, "created_at": OLD} for name in ("live", "ended", "related")]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
    link(
        store,
        ("live", "conflicts_with", "x", None),
        ("ended", "conflicts_with", "x", 2),
        ("related", "related_to", "x", None),
    )
    result = run_one(request_job(store, job="prune", policy=PrunePolicy(), now=now))
    with store.read() as reader:
        decisions = read_decisions(reader, plan_id_of(result))
    assert [decision["id"] for decision in decisions] == ["ended", "related"]
