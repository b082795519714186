"""Vectors from another machine: any service with the `/v1/embeddings` of OpenAI (extra `http`).

The key comes from the environment only. It is in no setting that is shown or stored, in no log and
in no error, and goes to the configured address only: redirects are not followed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread

import httpx
from pydantic import ValidationError

from tasks.providers.answers import classify_status, read_embeddings
from tasks.providers.embedder import (
    EmbeddingIdentity,
    ProviderError,
    ProviderResponseError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    Vector,
)
from tasks.providers.weights import EmbedderSetupError

URL = "MEMTEND_EMBEDDER_URL"
KEY = "MEMTEND_EMBEDDER_KEY"
# The fields of the identity that the environment gives.
VARIABLES = {
    "model": "MEMTEND_EMBEDDER_MODEL",
    "revision": "MEMTEND_EMBEDDER_REVISION",
    "dimension": "MEMTEND_EMBEDDER_DIMENSION",
}
# What an answer may take: as text a component is at most 25 characters and its indentation.
_BYTES_PER_ANSWER = 65_536
_BYTES_PER_VECTOR = 1024
_BYTES_PER_COMPONENT = 48


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Where the service is, which of its models is meant, and the key."""

    url: httpx.URL
    identity: EmbeddingIdentity
    key: str | None = field(default=None, repr=False)
    timeout_s: float = 30.0

    @classmethod
    def from_env(cls, environ: Mapping[str, str], *, timeout_s: float = 30.0) -> "HttpSettings":
        """Read MEMTEND_EMBEDDER_URL (up to `/v1`), _MODEL, _DIMENSION, _REVISION and _KEY.

        Raises:
            EmbedderSetupError: A variable is missing or wrong; its value is not repeated.
        """
        key = environ.get(KEY) or None
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise EmbedderSetupError("http", f"{KEY}: printable ASCII without blanks is expected")
        return cls(_read_url(environ), _read_identity(environ), key, timeout_s)


class HttpEmbedder:
    """Asks the service once a batch, over a connection of its own."""

    def __init__(self, settings: HttpSettings) -> None:
        """Keep the settings; nothing is sent yet."""
        self.identity = settings.identity
        self._settings = settings
        self._tls = httpx.create_ssl_context()

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
        body = self._ask(texts, limit)
        return read_embeddings(body, count=len(texts), dimension=dimension)

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text; float32 [dimension]."""
        return self.embed_documents([text])[0]

    def _ask(self, texts: Sequence[str], limit: int) -> bytes:
        """Send one request and wait for its answer, all in all at most `timeout_s`.

        httpx bounds every read, not their sum; so the exchange has a thread of its own, and is cut
        off with its connection when the time is over.
        """
        request = {"model": self.identity.model, "input": list(texts), "encoding_format": "float"}
        content = json.dumps(request).encode()
        answers: SimpleQueue[bytes | ProviderError] = SimpleQueue()
        with self._open_client() as client:
            Thread(
                target=lambda: answers.put(_exchange(client, content, limit)), daemon=True
            ).start()
            try:
                answer = answers.get(timeout=self._settings.timeout_s)
            except Empty:
                answer = ProviderTimeoutError()
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    def _open_client(self) -> httpx.Client:
        headers = {"content-type": "application/json"}
        if self._settings.key:
            headers["authorization"] = f"Bearer {self._settings.key}"
        return httpx.Client(
            base_url=self._settings.url,
            headers=headers,
            timeout=self._settings.timeout_s,
            verify=self._tls,
        )


def _exchange(client: httpx.Client, content: bytes, limit: int) -> bytes | ProviderError:
    """Give the body of the answer, or what went wrong; never what httpx or the service said."""
    try:
        with client.stream("POST", "embeddings", content=content) as response:
            return classify_status(response.status_code, response.headers) or _read_body(
                response, limit
            )
    except httpx.TimeoutException:
        return ProviderTimeoutError()
    except httpx.TransportError:
        return ProviderUnavailableError()
    except Exception:  # noqa: BLE001 - for example a body that cannot be decompressed
        return ProviderResponseError(reason="body")


def _read_body(response: httpx.Response, limit: int) -> bytes | ProviderError:
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > limit:
            return ProviderResponseError(reason="size", limit=limit)
    return bytes(body)


def _read_url(environ: Mapping[str, str]) -> httpx.URL:
    try:
        url = httpx.URL(environ.get(URL, ""))
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        raise EmbedderSetupError("http", f"{URL}: an http or https address up to /v1 is expected")
    if url.userinfo or url.query or url.fragment:
        reason = f"{URL}: no credentials, query or fragment belong in it; the key is {KEY}"
        raise EmbedderSetupError("http", reason)
    return url


def _read_identity(environ: Mapping[str, str]) -> EmbeddingIdentity:
    given = {name: environ[variable] for name, variable in VARIABLES.items() if variable in environ}
    values = {"provider": "openai-compatible", "revision": "1"} | given
    try:
        return EmbeddingIdentity.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    reason = f"{VARIABLES[str(first['loc'][0])]}: {first['msg']}"
    raise EmbedderSetupError("http", reason)
