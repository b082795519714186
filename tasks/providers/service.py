"""A service of the OpenAI kind on another machine: one bounded request at a time (extra `http`).

The key comes from the environment only. It is in no setting that is shown or stored, in no log and
in no error, and goes to the configured address only: redirects are not followed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread

import httpx

from tasks.providers.answers import classify_status
from tasks.providers.embedder import (
    ProviderError,
    ProviderResponseError,
    ProviderTimeoutError,
    ProviderUnavailableError,
)
from tasks.providers.setup import Refuse


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """Where a service is, up to `/v1`, its key, and how long it may take to answer."""

    url: httpx.URL
    key: str | None = field(default=None, repr=False)
    timeout_s: float = 30.0

    @classmethod
    def from_env(
        cls, environ: Mapping[str, str], prefix: str, refuse: Refuse, *, timeout_s: float
    ) -> "ServiceAddress":
        """Read the variables <prefix>_URL and <prefix>_KEY.

        Raises:
            ProviderSetupError: A variable is missing or wrong; its value is not repeated.
        """
        variable = f"{prefix}_KEY"
        key = environ.get(variable) or None
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise refuse(f"{variable}: printable ASCII without blanks is expected")
        return cls(_read_url(environ, prefix, refuse), key, timeout_s)


class Service:
    """Asks a service over a connection of its own for each request."""

    def __init__(self, address: ServiceAddress) -> None:
        """Keep the address; nothing is sent yet."""
        self._address = address
        self._tls = httpx.create_ssl_context()

    def post(self, path: str, content: bytes, *, limit: int) -> bytes:
        """Send JSON and wait for the body of the answer, all in all at most `timeout_s`.

        httpx bounds every read, not their sum; so the exchange has a thread of its own, and is cut
        off with its connection when the time is over.

        Raises:
            ProviderError: No answer, a refusal, or a body of more than `limit` bytes.
        """
        answers: SimpleQueue[bytes | ProviderError] = SimpleQueue()
        with self._open_client() as client:
            Thread(
                target=lambda: answers.put(_exchange(client, path, content, limit)), daemon=True
            ).start()
            try:
                answer = answers.get(timeout=self._address.timeout_s)
            except Empty:
                answer = ProviderTimeoutError()
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    def _open_client(self) -> httpx.Client:
        headers = {"content-type": "application/json"}
        if self._address.key:
            headers["authorization"] = f"Bearer {self._address.key}"
        return httpx.Client(
            base_url=self._address.url,
            headers=headers,
            timeout=self._address.timeout_s,
            verify=self._tls,
        )


def _exchange(client: httpx.Client, path: str, content: bytes, limit: int) -> bytes | ProviderError:
    """Give the body of the answer, or what went wrong; never what httpx or the service said."""
    try:
        with client.stream("POST", path, content=content) as response:
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


def _read_url(environ: Mapping[str, str], prefix: str, refuse: Refuse) -> httpx.URL:
    variable = f"{prefix}_URL"
    try:
        url = httpx.URL(environ.get(variable, ""))
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host:
        raise refuse(f"{variable}: an http or https address up to /v1 is expected")
    if url.userinfo or url.query or url.fragment:
        reason = f"no credentials, query or fragment belong in it; the key is {prefix}_KEY"
        raise refuse(f"{variable}: {reason}")
    return url
