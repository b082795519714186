"""Losers of several merges come back one by one, in any order, as they were before all of them."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from helpers.merge_spaces import MergeSpace, kept_fields, make_shared_store, open_space
from helpers.rows import NOW
from helpers.vectors import Json
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import Store
from storage.instants import format_instant

pytestmark = pytest.mark.slow

TEXT = "Run nightly ledger export checks after schema changes."
_OUTSIDERS = {"x": "harbour lights glow", "y": "winter came early", "z": "seven tall ships"}
_FORMS = (str, str.upper, "{}!".format, "- {}".format)
_MOST = 6
_quiet = settings(deadline=None, derandomize=True, database=None, max_examples=20)
Edge = tuple[str, str, str]
# Members, in the parts that come in one after the other; edges; in which order they go back.
Family = tuple[list[list[str]], list[Edge], list[str]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Give one store for many namespaces."""
    return make_shared_store(tmp_path_factory.mktemp("orders"))


def describe_member(name: str) -> Json:
    """Describe a memory of which every field differs from that of the others; m0 is the oldest."""
    place = int(name[1:])
    said = f"e://{name}"
    return {
        "id": name,
        "content": _FORMS[place % len(_FORMS)](TEXT),
        "kind": "episodic" if place == 1 else "semantic",
        "importance": 0.25 + place * 5 % 7 / 10,
        "confidence": place / 10,
        "salience": 0.5 + place * 3 % 5 / 4,
        "tags": [f"tag-{name}"],
        "metadata": {"source": name, f"key-{name}": "v"},
        "evidence": [{"uri": said, "digest": "d", "kind": "manual", "occurred_at": at(30)}],
        "access_count": place * 7 % 11,
        "last_accessed_at": at(1 + place),
        "created_at": at(20 - place),
        "content_at": at(10 + place * 3 % 7),
    }


def at(days: float) -> str:
    return format_instant(NOW - timedelta(days=days))


def describe(names: Iterable[str], edges: list[Edge]) -> list[Json]:
    """Describe memories, with the edges among them and to those that are there already."""
    lines = []
    for name in names:
        line = describe_member(name) if name[0] == "m" else {"id": name, "created_at": at(40)}
        line.setdefault("content", _OUTSIDERS.get(name, ""))
        own = [{"kind": kind, "target_id": target} for one, kind, target in edges if one == name]
        lines.append(line | {"relations": own})
    return lines


@st.composite
def families(draw: st.DrawFn) -> Family:
    """Draw a family that grows part by part, in which anybody may be the oldest."""
    members = draw(st.permutations([f"m{place}" for place in range(draw(st.integers(2, _MOST)))]))
    cuts = sorted(draw(st.sets(st.integers(1, len(members)), max_size=3)))
    parts = [members[a:b] for a, b in zip([0, *cuts], [*cuts, len(members)], strict=True) if b > a]
    kinds = st.sampled_from(["related_to", "conflicts_with"])
    edges = draw(
        st.sets(st.tuples(st.sampled_from(members), kinds, st.sampled_from([*_OUTSIDERS])))
    )
    for part in parts:
        ends = st.tuples(st.sampled_from(part), st.just("related_to"), st.sampled_from(part))
        edges |= {edge for edge in draw(st.sets(ends, max_size=2)) if edge[0] < edge[2]}
    return parts, sorted(edges), draw(st.permutations(members))


_CHAIN = [["m1", "m2"], ["m0"]]
_STAR = [["m0", "m1"], ["m2"]]
_EDGES = [
    ("m1", "related_to", "x"),
    ("m2", "related_to", "y"),
    ("m1", "related_to", "y"),
    ("m2", "conflicts_with", "z"),
]


@pytest.mark.parametrize("order", [["m1", "m2"], ["m2", "m1"]])
@pytest.mark.parametrize("parts", [_CHAIN, _STAR], ids=["chain", "star"])
def test_two_merges_are_taken_back_in_either_order(
    shared: Store, parts: list[list[str]], order: list[str]
) -> None:
    assert_all_comes_back(shared, (parts, _EDGES, order))


def test_edge_between_losers_of_two_merges_comes_back(shared: Store) -> None:
    edges = [("m2", "related_to", "m1")]
    assert_all_comes_back(shared, ([["m0", "m1", "m2"]], edges, ["m1", "m2"]))


@_quiet
@given(family=families())
def test_any_order_gives_back_all(shared: Store, family: Family) -> None:
    assert_all_comes_back(shared, family)


def assert_all_comes_back(store: Store, family: Family) -> None:
    """Merge a family part by part, take it back loser by loser, compare with one never merged."""
    parts, edges, order = family
    space, apart = open_space(store), open_space(store)
    bring(apart, parts, edges)
    before = kept_fields(apart.read())
    bring(space, parts, edges, merges=True)
    waiting = [name for name in sorted(before, key=[*order, *before].index) if name[0] == "m"]
    for _ in parts:
        waiting = [name for name in waiting if space.part(name).end.skipped.get("taken")]
        space.assert_sound()
    assert not waiting
    assert kept_fields(space.read()) == before
    assert space.consolidate().end.outcome == "unchanged"


def bring(
    space: MergeSpace, parts: list[list[str]], edges: list[Edge], *, merges: bool = False
) -> None:
    """Let memories come in part by part, each time followed by a run if they merge."""
    space.bring(describe(_OUTSIDERS, []))
    for part in parts:
        space.bring(describe(part, edges))
        if merges:
            assert space.consolidate().end.failed == 0
