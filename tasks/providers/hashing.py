"""An embedder without a model: words and letter triples, hashed with a sign.

It only sees spelling, so it is for tests and for machines without any model, and is taken only
when it is named.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np

from tasks.providers.embedder import EmbeddingIdentity, Vector

_DIMENSION = 256
_WORD = re.compile(r"\w+")
_TRIPLE = 3
_SIGN_BIT = 63


class HashingEmbedder:
    """Adds ±1 to one of 256 components for every word and every three letters in a row."""

    identity = EmbeddingIdentity(
        provider="memtend", model="hash-words-trigrams", revision="1", dimension=_DIMENSION
    )

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed texts; float32 [n, 256]."""
        vectors = np.zeros((len(texts), _DIMENSION), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for feature in _list_features(text):
                hashed = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest())
                vector[hashed % _DIMENSION] += 1.0 if hashed >> _SIGN_BIT else -1.0
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text; float32 [256]."""
        vector: Vector = self.embed_documents([text])[0]
        return vector


def _list_features(text: str) -> Iterator[str]:
    folded = text.casefold()
    yield from _WORD.findall(folded)
    padded = f" {folded} "
    for start in range(len(padded) - _TRIPLE + 1):
        yield f"\0{padded[start : start + _TRIPLE]}"
