"""Compare vectors with all others, exactly: no index is as quick for a hundred thousand.

Products of single precision tell which pairs may be near enough; only theirs are computed anew.
Source: spec/consolidate.md R71; PLATFORM 12.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tasks.rules.cosine import compare_vectors
from tasks.rules.near_lists import Cosines, Pairs, Places

Vectors = npt.NDArray[np.float32]

# How far products of single precision may be from the cosine, and rounding from the threshold.
_TOLERANCE = 1e-4
# Vectors by vectors that are multiplied at once, and pairs that are compared one by one at once.
_ROWS, _COLUMNS = 512, 8_192
_PAIRS = 4_096
# Comparing a pair one by one costs as much as so many products.
_COST_OF_ONE = 16
_DECIMALS = 6


def compare_with_all(vectors: Vectors, asked: Places, threshold: float) -> Iterator[Pairs]:
    """Find the pairs of near vectors of which at least one is asked for; each pair once.

    Args:
        vectors: float32 [vectors, dimension]; each finite and not zero.
        asked: The rows to compare with all rows.
        threshold: The smallest cosine, after rounding to six decimals.

    Yields:
        Pairs of rows of `vectors`; in all, every pair that is near enough.
    """
    is_other = np.ones(len(vectors), np.bool_)
    is_other[asked] = False
    order = np.concatenate((asked, np.flatnonzero(is_other)))
    units = _scale(vectors[order])
    for start in range(0, len(asked), _ROWS):
        rows = units[start : min(start + _ROWS, len(asked))]
        for column in range(start, len(units), _COLUMNS):
            products = rows @ units[column : column + _COLUMNS].T
            left, right = np.nonzero(products >= threshold - _TOLERANCE)
            left, right = left + start, right + column
            is_later = right > left
            left, right = order[left[is_later]], order[right[is_later]]
            cosines = _compare(vectors, left, right)
            yield Pairs(left, right, cosines).pick(cosines >= threshold)


def _scale(vectors: Vectors) -> Vectors:
    """Give vectors the length one, as well as single precision can."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    scaled = vectors / largest
    units: Vectors = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return units


def _compare(vectors: Vectors, left: Places, right: Places) -> Cosines:
    """Give the cosine of each pair; where most of some rows are near, all of theirs at once."""
    rows, row_of = np.unique(left, return_inverse=True)
    columns, column_of = np.unique(right, return_inverse=True)
    if len(left) * _COST_OF_ONE > len(rows) * len(columns) > 0:
        cosines: Cosines = _compare_each(vectors[rows], vectors[columns])[row_of, column_of]
        return cosines
    parts = [
        compare_vectors(
            vectors[left[start : start + _PAIRS]], vectors[right[start : start + _PAIRS]]
        )
        for start in range(0, len(left), _PAIRS)
    ]
    return np.concatenate([np.empty(0), *parts])


def _compare_each(left: Vectors, right: Vectors) -> Cosines:
    """Give the cosine of each row of `left` with each row of `right`, as `compare_vectors` does."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    lengths = np.sqrt(np.outer((one * one).sum(axis=1), (other * other).sum(axis=1)))
    cosines: Cosines = np.round(one @ other.T / lengths, _DECIMALS)
    return cosines
