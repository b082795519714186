"""Candidates are found by joins on real stores, and are those of comparing every pair."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from helpers.candidates import as_mapping, find_copies, number_texts
from helpers.consolidation import cases
from helpers.duplicates import PROFILE, fill, make_texts, pair_plainly
from helpers.rows import NOW
from helpers.vectors import copy_store
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage import Store
from storage.candidates import (
    LARGEST_FAMILY,
    LONGEST_IN_PAIRS,
    Limits,
    NearPairs,
    gather_candidates,
)
from storage.queries import read_statements

Row = dict[str, Any]

_SQL = read_statements("storage.sql", "candidates")
_BOUNDS = """
SELECT
    least_shared($n) AS required, $n - least_shared($n) + 1 AS prefix,
    least_shared($n) AS min_partner, largest_partner($n) AS max_partner
"""
_BASE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_numbers = iter(range(1_000, 1_000_000))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Give one open store for many namespaces."""
    store = copy_store(tmp_path_factory.mktemp("candidates") / "store")
    with store.session():
        yield store


def find(store: Store, owner: int, limits: Limits = Limits()) -> NearPairs:  # noqa: B008
    with store.read() as reader:
        return gather_candidates(reader, owner, profile=PROFILE, now=NOW).find_near_pairs(limits)


@cases("prefix")
def test_bounds_are_those_of_the_vector(case: Row, store: Store) -> None:
    with store.read() as reader:
        reader.define(_SQL["define_bounds"])
        found = reader.records(_BOUNDS, {"n": case["input"]["tokens"]})
    assert found == [case["expect"]]


@cases("overlap")
def test_needed_overlap_is_that_of_the_vector(case: Row, store: Store) -> None:
    with store.read() as reader:
        reader.define(_SQL["define_bounds"])
        found = reader.rows("SELECT needed_shared($a, $b) AS needed", case["input"])
    assert found == [(case["expect"]["needed"],)]


def test_farthest_partner_is_the_largest_that_the_rest_suffices_for(store: Store) -> None:
    check = """
    SELECT count(*), count(*) FILTER (
        needed_shared(n, farthest_partner(n, rest)) > rest
        OR needed_shared(n, farthest_partner(n, rest) + 1) <= rest
    )
    FROM range(5, 200) AS a(n), range(5, 200) AS b(rest)
    WHERE rest BETWEEN least_shared(n) AND n
    """
    with store.read() as reader:
        reader.define(_SQL["define_bounds"])
        ((checked, wrong),) = reader.rows(check)
    assert checked > 2_000
    assert wrong == 0


short = st.lists(
    st.tuples(
        st.sets(st.sampled_from([f"w{number}" for number in range(13)]), min_size=4, max_size=11),
        st.sampled_from(["semantic", "semantic", "episodic"]),
    ),
    max_size=14,
)
# Around the size from which on single tokens are joined: parts of one long text, with words else.
long = st.lists(
    st.tuples(
        st.integers(LONGEST_IN_PAIRS - 14, LONGEST_IN_PAIRS + 16),
        st.sets(st.integers(0, 80), max_size=7),
        st.sets(st.sampled_from("xyz")),
    ),
    max_size=9,
)
quiet = settings(deadline=None, derandomize=True, database=None, max_examples=50)


@quiet
@given(sets=short)
def test_no_pair_of_short_texts_is_missed(shared: Store, sets: list[tuple[set[str], str]]) -> None:
    rows = number_texts(*(" ".join(sorted(words)) for words, _ in sets))
    expiries = [NOW + timedelta(days=1 + number) for number in range(len(rows))]
    for row, (_, kind), expires_at in zip(rows, sets, expiries, strict=True):
        row |= {"kind": kind, "expires_at": expires_at}
    owner = next(_numbers)
    fill(shared, owner, *rows)
    assert as_mapping(find(shared, owner)) == pair_plainly(rows)


@quiet
@example(parts=[(LONGEST_IN_PAIRS, set(), set()), (LONGEST_IN_PAIRS, {3}, {"x"})])
@given(parts=long)
def test_no_pair_of_long_texts_is_missed(
    shared: Store, parts: list[tuple[int, set[int], set[str]]]
) -> None:
    texts = [
        " ".join([*(f"b{number}" for number in range(size) if number not in without), *extra])
        for size, without, extra in parts
    ]
    rows = number_texts(*texts)
    for number, row in enumerate(rows):
        row["expires_at"] = NOW + timedelta(days=1 + number)
    owner = next(_numbers)
    fill(shared, owner, *rows)
    assert as_mapping(find(shared, owner)) == pair_plainly(rows)


@pytest.mark.slow
def test_three_thousand_memories_have_the_pairs_of_comparing_all(
    store: Store, namespace_id: int
) -> None:
    rows = number_texts(*make_texts(random.Random(7), 3_000))  # noqa: S311 - made-up data
    rng = random.Random(8)  # noqa: S311
    for row in rows:
        row["kind"] = rng.choice(["semantic", "semantic", "episodic"])
    assert fill(store, namespace_id, *rows) == 3_000
    with store.read() as reader:
        candidates = gather_candidates(reader, namespace_id, profile=PROFILE, now=NOW)
        copies = find_copies(candidates)
        near = candidates.find_near_pairs()
    expected = pair_plainly([row for row in rows if row["id"] not in copies])
    assert len(copies) > 50
    assert len(expected) > 100
    assert as_mapping(near) == expected
    places = [(row["partner_id"], row["memory_id"]) for row in near.pairs.to_pylist()]
    assert places == sorted(places)


def test_a_family_of_300_near_copies_is_found_whole(store: Store, namespace_id: int) -> None:
    family = [f"{_BASE} fifteen sixteen copy{number}" for number in range(300)]
    others = make_texts(random.Random(9), 200)  # noqa: S311
    rows = number_texts(*family, *others)
    fill(store, namespace_id, *rows)
    found = as_mapping(find(store, namespace_id))
    assert len([pair for pair in found if pair[1] < "m0300"]) == 300 * 299 // 2
    assert found == pair_plainly(rows[:300]) | {
        pair: counts for pair, counts in found.items() if pair[1] >= "m0300"
    }


def test_members_of_a_larger_family_are_lines_and_in_no_pair(
    store: Store, namespace_id: int
) -> None:
    size = LARGEST_FAMILY + 2
    family = [f"{_BASE} fifteen sixteen copy{number}" for number in range(size)]
    fill(store, namespace_id, *number_texts(*family, "a b c d e f g", "a b c d e f g h"))
    near = find(store, namespace_id)
    assert as_mapping(near) == {(f"m{size:04}", f"m{size + 1:04}"): (7, 8)}
    assert near.families.to_pylist() == [
        {"memory_id": f"m{number:04}", "partners": size - 1} for number in range(size)
    ]


def test_a_family_beyond_the_budget_is_left_out_before_its_pairs_are_made(
    store: Store, namespace_id: int
) -> None:
    family = [f"{_BASE} fifteen sixteen copy{number}" for number in range(100)]
    fill(store, namespace_id, *number_texts(*family, "a b c d e f g", "a b c d e f g h"))
    near = find(store, namespace_id, Limits(max_pairs=1, largest_family=20))
    assert as_mapping(near) == {("m0100", "m0101"): (7, 8)}
    lines = near.families.to_pylist()
    assert [line["memory_id"] for line in lines] == [f"m{number:04}" for number in range(100)]
    assert {line["partners"] for line in lines} == {39, 40}


def test_only_the_memory_with_too_many_partners_is_left_out(
    store: Store, namespace_id: int
) -> None:
    spokes = [f"{_BASE} p{number} q{number}" for number in range(4)]
    rows = number_texts(_BASE, *spokes, f"{spokes[0]} r")
    fill(store, namespace_id, *rows)
    near = find(store, namespace_id, Limits(largest_family=3))
    assert near.families.to_pylist() == [{"memory_id": "m0000", "partners": 4}]
    assert as_mapping(near) == {("m0001", "m0005"): (16, 17)}
    assert find(store, namespace_id, Limits(largest_family=4)).families.num_rows == 0


def test_pairs_over_the_budget_are_not_given(store: Store, namespace_id: int) -> None:
    fill(store, namespace_id, *number_texts(*(f"{_BASE} p{number}" for number in range(4))))
    assert len(as_mapping(find(store, namespace_id, Limits(max_pairs=6)))) == 6
    for max_pairs in (5, 0):
        near = find(store, namespace_id, Limits(max_pairs=max_pairs))
        assert (near.is_over_budget, near.pairs.num_rows, near.families.num_rows) == (True, 0, 0)
        assert near.pairs.schema == find(store, namespace_id).pairs.schema
    small = find(store, namespace_id, Limits(max_pairs=1, largest_family=2))
    assert (small.is_over_budget, small.families.num_rows) == (False, 4)


def test_texts_of_one_pattern_are_no_candidates(store: Store, namespace_id: int) -> None:
    texts = [f"Ticket {number} was closed by the release team" for number in range(2_000)]
    fill(store, namespace_id, *number_texts(*texts))
    near = find(store, namespace_id, Limits(max_pairs=0))
    assert as_mapping(near) == {}
