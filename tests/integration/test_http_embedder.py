"""The HTTP embedder against a real service that misbehaves in every way it may."""

import gzip
import json
import logging
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from threading import Event

import pytest
from helpers.services import (
    Answer,
    Asked,
    Handler,
    Service,
    serve_embeddings,
    with_body,
    with_items,
    with_status,
)

from tasks.providers.bounds import ExecutionBounds
from tasks.providers.checks import RowFailure
from tasks.providers.embedder import (
    Embedder,
    ProviderDeniedError,
    ProviderError,
    ProviderInputError,
    ProviderRateLimitedError,
    ProviderResponseError,
    ProviderTimeoutError,
    ProviderUnavailableError,
)
from tasks.providers.executor import embed_query, embed_rows
from tasks.providers.outcomes import EmbeddingUnavailableError
from tasks.providers.registry import load_embedder

KEY = "sk-canary-5c1d"
CANARY = "5c1d"
TEXTS = ["alpha 5c1d", "beta 5c1d", "gamma 5c1d"]
ROWS = [(f"mtr_{number}", text) for number, text in enumerate(TEXTS)]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_embeddings() as service:
        yield service


def environ_of(service: Service) -> dict[str, str]:
    return {
        "MEMTEND_EMBEDDER_URL": service.url,
        "MEMTEND_EMBEDDER_MODEL": "refresh-v1",
        "MEMTEND_EMBEDDER_DIMENSION": "2",
        "MEMTEND_EMBEDDER_KEY": KEY,
    }


@pytest.fixture
def embedder(service: Service) -> Embedder:
    return load_embedder("http", environ_of(service), request_timeout_s=2)


def fail(embedder: Embedder) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        embedder.embed_documents(TEXTS)
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in f"{shown}{caught.value.facts}"
    assert caught.value.__context__ is None
    return caught.value


def test_texts_come_back_as_vectors_in_their_order(service: Service, embedder: Embedder) -> None:
    service.answers = [with_items(lambda items: items[::-1])]
    result = embed_rows(embedder, ROWS, ExecutionBounds())
    again = embed_rows(embedder, ROWS, ExecutionBounds())
    assert {key: vector.tolist() for key, vector in result.vectors.items()} == {
        key: vector.tolist() for key, vector in again.vectors.items()
    }
    assert embed_query(embedder, TEXTS[2]).tolist() == result.vectors["mtr_2"].tolist()


def test_request_has_the_form_of_the_interface(service: Service, embedder: Embedder) -> None:
    embedder.embed_documents(TEXTS)
    body = {"model": "refresh-v1", "input": TEXTS, "encoding_format": "float"}
    assert service.asked == [Asked("/v1/embeddings", f"Bearer {KEY}", body)]


def test_no_key_is_no_header(service: Service) -> None:
    environ = environ_of(service) | {"MEMTEND_EMBEDDER_KEY": ""}
    load_embedder("http", environ).embed_documents(["alpha"])
    assert service.asked[0].authorization is None


def test_no_texts_need_no_request(service: Service, embedder: Embedder) -> None:
    assert len(embedder.embed_documents([])) == 0
    assert service.asked == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (204, ProviderResponseError),
        (302, ProviderResponseError),
        (400, ProviderInputError),
        (401, ProviderDeniedError),
        (403, ProviderDeniedError),
        (404, ProviderDeniedError),
        (408, ProviderTimeoutError),
        (413, ProviderInputError),
        (422, ProviderInputError),
        (429, ProviderRateLimitedError),
        (500, ProviderUnavailableError),
        (503, ProviderUnavailableError),
    ],
)
def test_status_says_what_kind_of_fault_it_is(
    service: Service, embedder: Embedder, status: int, kind: type[ProviderError]
) -> None:
    service.answers = [with_status(status, location=f"{service.url}/elsewhere")]
    assert type(fail(embedder)) is kind
    assert len(service.asked) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_wait_that_the_service_asks_for_is_kept(
    service: Service, embedder: Embedder, status: int
) -> None:
    date, later = "Mon, 30 Nov 2026 12:00:00 GMT", "Mon, 30 Nov 2026 12:00:01 GMT"
    service.answers = [
        with_status(status, retry_after="1"),
        with_status(status, retry_after=later, date=date),
    ]
    slept: list[float] = []
    result = embed_rows(embedder, ROWS, ExecutionBounds(), sleep=slept.append)
    assert (slept, len(result.vectors)) == ([1.0, 1.0], 3)


def set_field(name: str, value: object) -> Answer:
    """Put something else into the second item."""
    return with_items(lambda items: [items[0], items[1] | {name: value}, *items[2:]])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(with_items(lambda items: items[:-1]), id="count-less"),
        pytest.param(with_items(lambda items: [*items, items[0]]), id="count-more"),
        pytest.param(set_field("index", 0), id="index-repeated"),
        pytest.param(set_field("index", 7), id="index-unknown"),
        pytest.param(set_field("index", -1), id="index-negative"),
        pytest.param(set_field("index", "1"), id="index-text"),
        pytest.param(set_field("embedding", None), id="vector-null"),
        pytest.param(set_field("embedding", "AACAPw=="), id="vector-base64"),
        pytest.param(set_field("embedding", [None, 0.5]), id="component-null"),
        pytest.param(set_field("embedding", ["0.5", 0.5]), id="component-text"),
        pytest.param(
            with_items(lambda items: [item | {"embedding": [1, 0, 0]} for item in items]),
            id="dimension",
        ),
        pytest.param(with_items(lambda _: None), id="no-data"),
        pytest.param(with_body(b"{}"), id="empty-object"),
        pytest.param(with_body(b""), id="nothing"),
        pytest.param(with_body(b"<html>5c1d</html>"), id="no-json"),
        pytest.param(with_body(b"\xff\xfe"), id="no-text"),
        pytest.param(with_body(b"[" * 100_000), id="deep"),
        pytest.param(with_body(b"5c1d", content_encoding="gzip"), id="no-gzip"),
        pytest.param(
            with_body(gzip.compress(b" " * 10_000_000), content_encoding="gzip"), id="huge"
        ),
    ],
)
def test_answer_to_something_else_is_refused_as_a_whole(
    service: Service, embedder: Embedder, answer: Answer
) -> None:
    service.answers = [answer]
    assert type(fail(embedder)) is ProviderResponseError


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([float("nan"), 1.0], RowFailure.NON_FINITE),
        ([1e39, 1.0], RowFailure.NON_FINITE),
        ([1.0], RowFailure.WRONG_DIMENSION),
        ([0, 0], RowFailure.ZERO_VECTOR),
    ],
    ids=str,
)
def test_single_bad_vector_fails_its_row_only(
    service: Service, embedder: Embedder, vector: list[float], reason: RowFailure
) -> None:
    service.answers = [set_field("embedding", vector)]
    result = embed_rows(embedder, ROWS, ExecutionBounds())
    assert result.failures == {"mtr_1": reason}
    assert result.vectors.keys() == {"mtr_0", "mtr_2"}


def test_query_with_a_bad_vector_is_no_answer(service: Service, embedder: Embedder) -> None:
    nan = [{"index": 0, "embedding": [float("nan"), 1.0]}]
    service.answers = [with_body(json.dumps({"data": nan}).encode())]
    with pytest.raises(ProviderResponseError):
        embed_query(embedder, "alpha")


def test_refused_text_is_found_and_the_others_are_kept(
    service: Service, embedder: Embedder
) -> None:
    service.answers = [with_status(400), with_status(413)]
    result = embed_rows(embedder, ROWS, ExecutionBounds())
    assert result.failures == {"mtr_0": RowFailure.PROVIDER_EXCEPTION}
    assert [len(asked.body["input"]) for asked in service.asked] == [3, 1, 2]


def stay_silent(until: Event) -> Answer:
    def answer(_handler: Handler, _asked: Asked) -> None:
        until.wait(10)

    return answer


def drip(until: Event) -> Answer:
    """Send a byte now and then: every read is in time, the whole is not."""

    def answer(handler: Handler, _: Asked) -> None:
        handler.send_response_only(200)
        handler.send_header("content-length", "100000")
        handler.end_headers()
        while not until.wait(0.05):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    return answer


@pytest.mark.parametrize("behave", [stay_silent, drip])
def test_slow_answer_is_given_up_in_time(
    service: Service, behave: Callable[[Event], Answer]
) -> None:
    over = Event()
    service.answers = [behave(over)]
    embedder = load_embedder("http", environ_of(service), request_timeout_s=0.4)
    started = time.monotonic()
    assert type(fail(embedder)) is ProviderTimeoutError
    assert time.monotonic() - started < 2
    over.set()


def hang_up(handler: Handler, _: Asked) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def hang_up_midway(handler: Handler, _: Asked) -> None:
    handler.send_response_only(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data":')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [hang_up, hang_up_midway])
def test_broken_connection_is_an_outage(
    service: Service, embedder: Embedder, answer: Answer
) -> None:
    service.answers = [answer]
    assert type(fail(embedder)) is ProviderUnavailableError


def test_nobody_listening_is_an_outage(service: Service, embedder: Embedder) -> None:
    service.server_close()
    with pytest.raises(EmbeddingUnavailableError) as caught:
        embed_rows(embedder, ROWS, ExecutionBounds(), sleep=lambda _: None)
    assert caught.value.counters.provider_requests == 3


def test_key_and_texts_are_in_no_log(
    service: Service, embedder: Embedder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.answers = [with_status(429), with_status(500), with_body(b"5c1d")]
    for _ in range(3):
        fail(embedder)
    embedder.embed_documents(TEXTS)
    assert "HTTP Request" in caplog.text
    assert CANARY not in caplog.text
