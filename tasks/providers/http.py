"""Vectors from another machine: any service with the `/v1/embeddings` of OpenAI (extra `http`)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from tasks.providers.answers import read_embeddings
from tasks.providers.embedder import EmbeddingIdentity, Vector
from tasks.providers.service import Service, ServiceAddress
from tasks.providers.weights import EmbedderSetupError

PREFIX = "MEMTEND_EMBEDDER"
# The fields of the identity that the environment gives.
VARIABLES = {name: f"{PREFIX}_{name.upper()}" for name in ("model", "revision", "dimension")}
# What an answer may take: as text a component is at most 25 characters and its indentation.
_BYTES_PER_ANSWER = 65_536
_BYTES_PER_VECTOR = 1024
_BYTES_PER_COMPONENT = 48


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where the service is, and which of its models is meant."""

    address: ServiceAddress
    identity: EmbeddingIdentity

    @classmethod
    def from_env(cls, environ: Mapping[str, str], *, timeout_s: float = 30.0) -> "HttpSettings":
        """Read MEMTEND_EMBEDDER_URL (up to `/v1`), _MODEL, _DIMENSION, _REVISION and _KEY.

        Raises:
            EmbedderSetupError: A variable is missing or wrong; its value is not repeated.
        """
        refuse = partial(EmbedderSetupError, "http")
        address = ServiceAddress.from_env(environ, PREFIX, refuse, timeout_s=timeout_s)
        return cls(address, _read_identity(environ))


class HttpEmbedder:
    """Asks the service once a batch."""

    def __init__(self, settings: HttpSettings) -> None:
        """Keep the settings; nothing is sent yet."""
        self._settings = settings
        self._service = Service(settings.address)

    @property
    def identity(self) -> EmbeddingIdentity:
        """Tell what shapes the vectors."""
        return self._settings.identity

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Embed texts with one request; an array a text.

        Raises:
            ProviderError: The request failed, or its answer is not valid.
        """
        if not texts:
            return []
        dimension = self.identity.dimension
        limit = _BYTES_PER_ANSWER + len(texts) * (
            _BYTES_PER_VECTOR + dimension * _BYTES_PER_COMPONENT
        )
        request = {"model": self.identity.model, "input": list(texts), "encoding_format": "float"}
        body = self._service.post("embeddings", json.dumps(request).encode(), limit=limit)
        return read_embeddings(body, count=len(texts), dimension=dimension)

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text; float32 [dimension]."""
        return self.embed_documents([text])[0]


def _read_identity(environ: Mapping[str, str]) -> EmbeddingIdentity:
    given = {name: environ[variable] for name, variable in VARIABLES.items() if variable in environ}
    values = {"provider": "openai-compatible", "revision": "1"} | given
    try:
        return EmbeddingIdentity.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    reason = f"{VARIABLES[str(first['loc'][0])]}: {first['msg']}"
    raise EmbedderSetupError("http", reason)
