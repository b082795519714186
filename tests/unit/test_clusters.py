"""Clusters are cliques, formed first fit in order; nothing joins by way of a third memory."""

from collections.abc import Iterable
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.rules.clusters import (
    Clustering,
    add_copies,
    form_clusters,
    judge_lineages,
)

Pair = tuple[str, str]
_NAMES = "abcdefgh"


def form_plainly(order: Iterable[str], passing: set[frozenset[str]]) -> list[list[str]]:
    """Form clusters as the rule says, by asking every cluster about every member."""
    clusters: list[list[str]] = []
    for name in order:
        for cluster in clusters:
            if all(frozenset((name, member)) in passing for member in cluster):
                cluster.append(name)
                break
        else:
            clusters.append([name])
    return clusters


orders = st.permutations(_NAMES).flatmap(
    lambda order: st.integers(1, len(order)).map(lambda size: order[:size])
)
pairs = st.sets(st.sampled_from(list(combinations(_NAMES, 2))))
quiet = settings(deadline=None, derandomize=True, database=None)


@quiet
@given(order=orders, passing=pairs, swapped=st.booleans())
def test_clusters_are_those_of_the_plain_rule(
    order: list[str], passing: set[Pair], *, swapped: bool
) -> None:
    given_pairs = [(other, one) for one, other in passing] if swapped else passing
    found = form_clusters(order, given_pairs)
    expected = form_plainly(order, set(map(frozenset, passing)))
    assert [list(cluster) for cluster in found.clusters] == expected


@quiet
@given(order=orders, passing=pairs)
def test_every_passing_pair_is_in_one_cluster_or_parted(
    order: list[str], passing: set[Pair]
) -> None:
    found = form_clusters(order, passing)
    joined = {frozenset(pair) for each in found.clusters for pair in combinations(each, 2)}
    parted = set(map(frozenset, found.parted))
    assert joined | parted == {frozenset(pair) for pair in passing if set(pair) <= set(order)}
    assert not joined & parted
    assert found.found == len(order) - len(found.clusters)
    assert all(order.index(one) < order.index(other) for one, other in found.parted)


def test_parted_pairs_are_listed_in_order() -> None:
    star = [("d", "a"), ("a", "b"), ("c", "a")]
    found = form_clusters("abcd", star)
    assert found == Clustering((("a", "b"), ("c",), ("d",)), (("a", "c"), ("a", "d")))
    assert found.merges == (("a", "b"),)
    assert found.found == 1


def test_no_memories_form_no_clusters() -> None:
    assert form_clusters([], [("a", "b")]) == Clustering((), ())


@quiet
@given(
    order=st.permutations(_NAMES),
    passing=st.sets(st.sampled_from(list(combinations("ABCD", 2)))),
    text_of=st.lists(st.sampled_from("ABCD"), min_size=8, max_size=8),
)
def test_copies_end_where_they_would_by_themselves(
    order: list[str], passing: set[Pair], text_of: list[str]
) -> None:
    texts = dict(zip(_NAMES, text_of, strict=True))
    alike = set(map(frozenset, passing))
    every = [
        (one, other)
        for one, other in combinations(order, 2)
        if texts[one] == texts[other] or frozenset((texts[one], texts[other])) in alike
    ]
    first = {texts[name]: name for name in reversed(order)}
    copies = {name: first[texts[name]] for name in order if first[texts[name]] != name}
    alone = [name for name in order if name not in copies]
    represented = form_clusters(alone, [pair for pair in every if not copies.keys() & set(pair)])
    grown = add_copies(represented, copies, order)
    assert grown.clusters == form_clusters(order, every).clusters


def test_lineage_is_judged_on_both_sides() -> None:
    close = {frozenset(pair) for pair in ("ac", "xc", "ad", "bd", "xd", "yc")}

    def passes(one: str, other: str) -> bool:
        return frozenset((one, other)) in close

    lineages = {"a": ["x"], "c": ["y"]}
    whole, broken = judge_lineages([("a", "c"), ("d", "a"), ("b", "d")], lineages, passes)
    assert (whole, broken) == ([("d", "a"), ("b", "d")], [("a", "c")])
    close |= {frozenset("ay"), frozenset("xy")}
    assert judge_lineages([("a", "c")], lineages, passes) == ([("a", "c")], [])


def test_a_text_that_both_lineages_hold_is_not_judged_against_itself() -> None:
    def passes(one: str, other: str) -> bool:
        assert one != other
        return True

    lineages = {"a": ["x"], "c": ["x"]}
    assert judge_lineages([("a", "c")], lineages, passes) == ([("a", "c")], [])
