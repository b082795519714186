"""Cosines of stored vectors, as semantic candidates are judged by.

The distance that an index gives is not exact enough at the threshold.
Source: spec/consolidate.md R71.
"""

import numpy as np
import numpy.typing as npt

_DECIMALS = 6


def compare_vectors(
    left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Give the cosine of each row of `left` with the same row of `right`, to six decimals.

    Args:
        left: Vectors as stored, [pairs, dimension].
        right: Their partners, of the same shape.

    Returns:
        One number a pair; NaN where a vector is zero or not finite, which no threshold admits.
    """
    one, other = left.astype(np.float64), right.astype(np.float64)
    lengths = np.sqrt((one * one).sum(axis=1) * (other * other).sum(axis=1))
    products = (one * other).sum(axis=1)
    is_embedded = (lengths > 0) & np.isfinite(lengths) & np.isfinite(products)
    cosines = np.full(len(one), np.nan)
    np.divide(products, lengths, out=cosines, where=is_embedded)
    return np.round(cosines, _DECIMALS)
