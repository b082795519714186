"""Which near partners each text knows: all down to a floor, so that the best ones are certain.

A text that was compared with all others knows every partner above its floor: all that are near
enough, or so many of the best that more would be too many. A pair is kept while either text has
the other above its floor. Pairs go with either text and floors never come down, so what is above
them stays complete. Texts are known by place; places are in order of text numbers.
Source: spec/consolidate.md R70.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Cosines = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]

# The number part of a floor at which every partner counts, whatever its number.
EVERY = np.iinfo(np.int64).max
# So many pairs may wait until those that nobody needs are left out.
_MOST_WAITING = 1_000_000


class Floors(NamedTuple):
    """How far down texts know their partners; a cosine of infinity: such a text knows none."""

    cosines: Cosines
    numbers: Places


class Pairs(NamedTuple):
    """Pairs of places with the cosines of their vectors."""

    left: Places
    right: Places
    cosines: Cosines

    def pick(self, rows: _Flags | Places) -> "Pairs":
        """Pick rows."""
        return Pairs(self.left[rows], self.right[rows], self.cosines[rows])


def no_floors(count: int) -> Floors:
    """Give the floors of texts that were never compared."""
    return Floors(np.full(count, np.inf), np.full(count, EVERY))


class NearLists:
    """The partners of each of these texts, while searches add to them."""

    def __init__(self, numbers: Places, floors: Floors, pairs: Pairs, *, depth: int) -> None:
        """Take what is known.

        Args:
            numbers: The number of each text, ascending: of equal partners the smaller is better.
            floors: How far down each text knows its partners.
            pairs: The pairs that are known.
            depth: Of a text with more than twice as many partners, so many stay.
        """
        self.numbers, self.floors, self.pairs = numbers, floors, pairs
        self._depth = depth
        self._waiting: list[Pairs] = []
        self._waiting_rows = 0

    @property
    def is_searched(self) -> _Flags:
        """Tell which texts know their partners."""
        return np.isfinite(self.floors.cosines)

    def find_unsearched(self, threshold: float, k: int) -> Places:
        """Find the texts whose k best partners, of those that are near enough, are not certain."""
        is_whole = (self.floors.cosines <= threshold) & (self.floors.numbers == EVERY)
        own, other, cosines = _list_sides(self.pairs)
        above = own[self._is_above(own, other, cosines)]
        counts = np.bincount(above, minlength=len(self.numbers))
        return np.flatnonzero(~is_whole & (counts < k))

    def forget(self, places: Places) -> None:
        """Let texts know no partners, and be none."""
        self.floors.cosines[places], self.floors.numbers[places] = np.inf, EVERY
        is_kept = np.ones(len(self.numbers), np.bool_)
        is_kept[places] = False
        self.pairs = self.pairs.pick(is_kept[self.pairs.left] & is_kept[self.pairs.right])

    def begin(self, places: Places, threshold: float) -> float:
        """Take note that texts are compared with all others; give the least cosine that counts.

        It is not above any floor: whatever another text needs of these is found, too.
        """
        known = self.floors.cosines[self.is_searched]
        least = float(min(known.min(initial=threshold), threshold))
        self.floors.cosines[places], self.floors.numbers[places] = least, EVERY
        return least

    def add(self, pairs: Pairs) -> None:
        """Add pairs of texts, those that either needs; some may be known already."""
        is_needed = self._is_needed(pairs)
        if is_needed.any():
            self._waiting.append(pairs.pick(is_needed))
            self._waiting_rows += int(is_needed.sum())
        if self._waiting_rows > max(_MOST_WAITING, len(self.pairs.left)):
            self.settle()

    def settle(self) -> None:
        """Take the waiting pairs in, raise the floors of texts with too many, drop the rest."""
        parts = [self.pairs, *self._waiting]
        left, right, cosines = (np.concatenate(column) for column in zip(*parts, strict=True))
        first, second = np.minimum(left, right), np.maximum(left, right)
        _, rows = np.unique(first * len(self.numbers) + second, return_index=True)
        self.pairs = Pairs(first, second, cosines).pick(rows)
        self._waiting, self._waiting_rows = [], 0
        self._raise_floors()
        self.pairs = self.pairs.pick(self._is_needed(self.pairs))

    def find_nearest(self, threshold: float, k: int) -> Pairs:
        """Find the pairs that are near enough, of which one is among the k best of the other."""
        pairs = self.pairs.pick(self.pairs.cosines >= threshold)
        own, other, cosines = _list_sides(pairs)
        ranks = self._rank(own, other, cosines)
        return pairs.pick(ranks.reshape(2, -1).min(axis=0) < k)

    def _raise_floors(self) -> None:
        own, other, cosines = _list_sides(self.pairs)
        is_above = self._is_above(own, other, cosines)
        own, other, cosines = own[is_above], other[is_above], cosines[is_above]
        counts = np.bincount(own, minlength=len(self.numbers))
        is_last = self._rank(own, other, cosines) == self._depth - 1
        is_last &= counts[own] > 2 * self._depth
        raised = own[is_last]
        self.floors.cosines[raised] = cosines[is_last]
        self.floors.numbers[raised] = self.numbers[other[is_last]]

    def _rank(self, own: Places, other: Places, cosines: Cosines) -> Places:
        """Give how many partners of the same text are better."""
        order = np.lexsort((other, -cosines, own))
        starts = np.concatenate(([0], np.cumsum(np.bincount(own, minlength=len(self.numbers)))))
        ranks = np.empty(len(own), np.int64)
        ranks[order] = np.arange(len(own)) - starts[own[order]]
        return ranks

    def _is_needed(self, pairs: Pairs) -> _Flags:
        left, right, cosines = pairs
        return self._is_above(left, right, cosines) | self._is_above(right, left, cosines)

    def _is_above(self, own: Places, other: Places, cosines: Cosines) -> _Flags:
        floors = self.floors.cosines[own]
        is_at = (cosines == floors) & (self.numbers[other] <= self.floors.numbers[own])
        above: _Flags = (cosines > floors) | is_at
        return above


def _list_sides(pairs: Pairs) -> Pairs:
    """List each pair from both sides: first all from the left, then all from the right."""
    left, right, cosines = pairs
    return Pairs(
        np.concatenate((left, right)),
        np.concatenate((right, left)),
        np.concatenate((cosines, cosines)),
    )
