"""What is kept of near partners gives, after any changes, what comparing every two gives."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.near_vectors import Vectors, compare_with_all
from tasks.rules.cosine import compare_vectors
from tasks.rules.near_lists import EVERY, Floors, NearLists, Pairs, Places, no_floors

Found = set[tuple[int, int, float]]
# Directions of which many are equal or about as near: ties, and texts with too many partners.
DIRECTIONS = st.tuples(*[st.integers(0, 3)] * 2).filter(any)
ASKED = st.tuples(st.sampled_from([0.5, 0.8, 0.95, 1.0]), st.integers(1, 4))
ROUNDS = st.lists(
    st.tuples(st.lists(DIRECTIONS, max_size=8), st.sets(st.integers(0, 20), max_size=4), ASKED),
    min_size=1,
    max_size=5,
)


def compare_every(vectors: dict[int, Vectors], threshold: float, k: int) -> Found:
    """Compare every two texts, and take each that is among the k best of the other."""
    near: dict[int, list[tuple[float, int]]] = {number: [] for number in vectors}
    for one, other in combinations(sorted(vectors), 2):
        (cosine,) = compare_vectors(vectors[one][None], vectors[other][None])
        if cosine >= threshold:
            near[one].append((-cosine, other))
            near[other].append((-cosine, one))
    return {
        (min(one, other), max(one, other), -cosine)
        for one, partners in near.items()
        for cosine, other in sorted(partners)[:k]
    }


class Kept:
    """What is known between searches: floors by number, and pairs of numbers."""

    def __init__(self) -> None:
        self.floors: dict[int, tuple[float, int]] = {}
        self.pairs: Found = set()

    def search(self, vectors: dict[int, Vectors], threshold: float, k: int) -> Found:
        """Search with the texts that need it; give the pairs that were found, now or before."""
        numbers = np.array(sorted(vectors), np.int64)
        lists = NearLists(numbers, *self.recall(numbers), depth=2 * k)
        missing = lists.find_unsearched(threshold, k)
        least = lists.begin(missing, threshold)
        matrix = np.array([vectors[number] for number in numbers.tolist()]).reshape(-1, 2)
        for pairs in compare_with_all(matrix, missing, least):
            lists.add(pairs)
        lists.settle()
        assert len(lists.find_unsearched(threshold, k)) == 0
        floors = zip(*(column.tolist() for column in lists.floors), strict=True)
        self.floors = dict(zip(numbers.tolist(), floors, strict=True))
        self.pairs = name_pairs(numbers, lists.pairs)
        return name_pairs(numbers, lists.find_nearest(threshold, k))

    def recall(self, numbers: Places) -> tuple[Floors, Pairs]:
        floors = no_floors(len(numbers))
        places = {number: place for place, number in enumerate(numbers.tolist())}
        for number, floor in self.floors.items():
            if number in places:
                floors.cosines[places[number]], floors.numbers[places[number]] = floor
        rows = [
            (places[one], places[other], cosine)
            for one, other, cosine in sorted(self.pairs)
            if one in places and other in places
        ]
        left, right, cosines = (np.array([row[side] for row in rows]) for side in range(3))
        return floors, Pairs(left.astype(np.int64), right.astype(np.int64), cosines.astype(float))


def name_pairs(numbers: Places, pairs: Pairs) -> Found:
    left, right = numbers[pairs.left].tolist(), numbers[pairs.right].tolist()
    named = list(zip(left, right, pairs.cosines.tolist(), strict=True))
    assert len(named) == len({row[:2] for row in named})
    return set(named)


@settings(max_examples=60, deadline=None)
@given(rounds=ROUNDS)
def test_pairs_are_those_of_comparing_every_two(
    rounds: list[tuple[list[tuple[int, int]], set[int], tuple[float, int]]],
) -> None:
    kept, vectors, number = Kept(), dict[int, Vectors](), 0
    for added, removed, (threshold, k) in rounds:
        for direction in added:
            vectors[number] = np.array(direction, np.float32)
            number += 1
        for gone in removed:
            vectors.pop(gone, None)
        assert kept.search(vectors, threshold, k) == compare_every(vectors, threshold, k)


def test_texts_of_a_crowd_keep_their_best_partners_only() -> None:
    vectors = {number: np.array([1, 0], np.float32) for number in range(2_000)}
    kept = Kept()
    found = kept.search(vectors, 0.95, 2)
    assert found == {(one, other, 1.0) for one in (0, 1) for other in range(one + 1, 2_000)}
    assert len(kept.pairs) < 4 * 2_000
    assert kept.floors[7] == (1.0, 3)


def test_text_that_lost_too_many_partners_is_searched_with_again() -> None:
    vectors = {number: np.array([1, number / 1_000], np.float32) for number in range(20)}
    kept = Kept()
    kept.search(vectors, 0.95, 1)
    floor = kept.floors[19]
    assert floor[1] != EVERY
    for number in (16, 17, 18):
        del vectors[number]
    numbers = np.array(sorted(vectors), np.int64)
    lists = NearLists(numbers, *kept.recall(numbers), depth=2)
    assert 19 in numbers[lists.find_unsearched(0.95, 1)]
    assert kept.search(vectors, 0.95, 1) == compare_every(vectors, 0.95, 1)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_length_is_no_matter(scale: float) -> None:
    rng = np.random.default_rng(1)
    rows = (rng.normal(size=(700, 4)) * scale).astype(np.float32)
    found = list(compare_with_all(rows, np.arange(700), 0.95))
    left, right, cosines = (np.concatenate(column) for column in zip(*found, strict=True))
    one, other = np.triu_indices(700, 1)
    expected = compare_vectors(rows[one], rows[other])
    is_near = expected >= 0.95
    order = np.lexsort((np.maximum(left, right), np.minimum(left, right)))
    assert np.array_equal(np.minimum(left, right)[order], one[is_near])
    assert np.array_equal(np.maximum(left, right)[order], other[is_near])
    assert np.array_equal(cosines[order], expected[is_near])
