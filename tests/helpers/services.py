"""A real service on this machine with the `/v1/embeddings` of OpenAI, which can misbehave."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

from helpers.embedders import vector_of


class Asked(NamedTuple):
    """A request as the service got it."""

    path: str
    authorization: str | None
    body: dict[str, Any]


Answer = Callable[["Handler", Asked], None]


class Service(ThreadingHTTPServer):
    """Answers each request as the next of `answers` says, then as it should."""

    daemon_threads = True
    # Threads that wait for a client that has gone must not keep the test waiting.
    block_on_close = False

    def __init__(self) -> None:
        """Listen on a free port of this machine."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.answers: list[Answer] = []

    @property
    def url(self) -> str:
        """Give the address up to `/v1`."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Service

    def do_POST(self) -> None:
        """Answer one request."""
        size = int(self.headers["content-length"])
        asked = Asked(self.path, self.headers["authorization"], json.loads(self.rfile.read(size)))
        self.server.asked.append(asked)
        answer = self.server.answers.pop(0) if self.server.answers else embed
        answer(self, asked)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing on stderr."""

    def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer."""
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def list_items(asked: Asked) -> list[dict[str, Any]]:
    """Build the items of a right answer."""
    return [
        {"object": "embedding", "index": index, "embedding": vector_of(text).tolist()}
        for index, text in enumerate(asked.body["input"])
    ]


def embed(handler: Handler, asked: Asked) -> None:
    """Answer as the service should."""
    send_items(handler, list_items(asked))


def send_items(handler: Handler, items: object) -> None:
    """Answer with these items."""
    handler.send(200, json.dumps({"object": "list", "data": items}).encode())


def with_status(status: int, **headers: str) -> Answer:
    """Answer with a status, header names with underscores; the body repeats the request."""

    def answer(handler: Handler, asked: Asked) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.send(status, f"{asked}".encode(), named)

    return answer


def with_body(body: bytes, **headers: str) -> Answer:
    """Answer with a body that is none."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, _: handler.send(200, body, named)


def with_items(change: Callable[[list[dict[str, Any]]], object]) -> Answer:
    """Answer with items that were changed."""
    return lambda handler, asked: send_items(handler, change(list_items(asked)))


@contextmanager
def serve_embeddings() -> Iterator[Service]:
    """Run the service for a while."""
    with Service() as service:
        thread = Thread(target=service.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()
