"""What is wrong with a text or with a vector, in the words of the spec.

Source: spec/refresh.md R40, R44 and R45.
"""

import math
import unicodedata
from enum import StrEnum

import numpy as np

from tasks.providers.embedder import EmbeddingIdentity, Vector

NORM_TOLERANCE = 0.01
_INVISIBLE = ("Cf", "Cc")


class RowFailure(StrEnum):
    """Why a row has no vector; the first reason that holds, in this order."""

    EMPTY_TEXT = "empty_text"
    TEXT_TOO_LONG = "text_too_long"
    WRONG_DIMENSION = "wrong_dimension"
    NON_FINITE = "non_finite"
    ZERO_VECTOR = "zero_vector"
    NOT_NORMALISED = "not_normalised"
    PROVIDER_EXCEPTION = "provider_exception"


# Permanent at once: a provider never sees these rows.
UNSENT = frozenset({RowFailure.EMPTY_TEXT, RowFailure.TEXT_TOO_LONG})


def check_text(text: str, max_bytes: int) -> RowFailure | None:
    """Find what keeps a text from being sent; None when nothing does."""
    if all(char.isspace() or unicodedata.category(char) in _INVISIBLE for char in text):
        return RowFailure.EMPTY_TEXT
    if len(text.encode()) > max_bytes:
        return RowFailure.TEXT_TOO_LONG
    return None


def normalise_vector(vector: Vector, identity: EmbeddingIdentity) -> Vector | RowFailure:
    """Check a vector and give it length one: in float64, once, then float32."""
    if vector.shape != (identity.dimension,):
        return RowFailure.WRONG_DIMENSION
    if not np.isfinite(vector).all():
        return RowFailure.NON_FINITE
    exact = vector.astype(np.float64)
    norm = math.sqrt(float(np.sum(exact * exact)))
    if norm == 0.0:
        return RowFailure.ZERO_VECTOR
    if identity.normalisation == "unit" and abs(norm - 1.0) > NORM_TOLERANCE:
        return RowFailure.NOT_NORMALISED
    unit: Vector = (exact / norm).astype(np.float32)
    return unit
