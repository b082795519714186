"""WordLlama: averaged word vectors, English mostly, about 17,000 texts a second (extra `fast`)."""

from collections.abc import Sequence
from pathlib import Path

import wordllama

from tasks.providers.embedder import EmbeddingIdentity, Vector
from tasks.providers.weights import describe_revision, verify_package, verify_weights

_VERSION = "0.4.0.post1"
_DIMENSION = 256
_DIGESTS = {
    "wordllama/weights/l2_supercat_256.safetensors": (
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
    ),
    "wordllama/tokenizers/l2_supercat_tokenizer_config.json": (
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
    ),
}


class WordLlamaEmbedder:
    """Holds the table of word vectors."""

    def __init__(self) -> None:
        """Check the files of the model and load it.

        Raises:
            EmbedderSetupError: They are missing or not the expected ones.
        """
        verify_package("wordllama", "wordllama", _VERSION)
        verify_weights("wordllama", "wordllama", _DIGESTS)
        self.identity = EmbeddingIdentity(
            provider="wordllama",
            model=f"l2_supercat_{_DIMENSION}",
            revision=describe_revision(_VERSION, _DIGESTS),
            dimension=_DIMENSION,
        )
        # Without the folder it looks for the tokeniser on the network.
        folder = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(
            dim=_DIMENSION, disable_download=True, cache_dir=folder
        )

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed texts one by one, since a batch is padded to its longest text; [n, 256]."""
        vectors: Vector = self._model.embed(list(texts), batch_size=1)
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text; float32 [256]."""
        vector: Vector = self.embed_documents([text])[0]
        return vector
