"""A real service over HTTP that misbehaves as any may, asked by the embedder and the refiner."""

import gzip
import logging
import socket
import time
from collections.abc import Callable
from threading import Event

import pytest
from helpers.askers import CANARY, Ask, catch_fault, load_asker
from helpers.services import Answer, Asked, Handler, Service, with_body, with_status

from tasks.providers.embedder import (
    ProviderDeniedError,
    ProviderError,
    ProviderInputError,
    ProviderRateLimitedError,
    ProviderResponseError,
    ProviderTimeoutError,
    ProviderUnavailableError,
)


@pytest.fixture(params=["embedder", "refiner"])
def asker(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ask(asker: str, service: Service) -> Ask:
    return load_asker(asker, service)


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
    service: Service, ask: Ask, status: int, kind: type[ProviderError]
) -> None:
    service.answers = [with_status(status, location=f"{service.url}/elsewhere")]
    assert type(catch_fault(ask)) is kind
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(with_body(b""), id="nothing"),
        pytest.param(with_body(b"<html>5c1d</html>", content_type="text/html"), id="html"),
        pytest.param(with_body(b"\xff\xfe"), id="no-text"),
        pytest.param(with_body(b"[" * 100_000), id="deep"),
        pytest.param(with_body(b"{}"), id="empty-object"),
        pytest.param(with_body(b'{"error": {"message": "5c1d"}}'), id="error-with-status-200"),
        pytest.param(with_body(b"5c1d", content_encoding="gzip"), id="no-gzip"),
        pytest.param(with_body(b" " * 10_000_000), id="huge"),
        pytest.param(
            with_body(gzip.compress(b" " * 10_000_000), content_encoding="gzip"), id="huge-gzip"
        ),
    ],
)
def test_answer_of_another_form_is_refused(service: Service, ask: Ask, answer: Answer) -> None:
    service.answers = [answer]
    assert type(catch_fault(ask)) is ProviderResponseError


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
    service: Service, asker: str, behave: Callable[[Event], Answer]
) -> None:
    over = Event()
    service.answers = [behave(over)]
    ask = load_asker(asker, service, timeout_s=0.4)
    started = time.monotonic()
    assert type(catch_fault(ask)) is ProviderTimeoutError
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
def test_broken_connection_is_an_outage(service: Service, ask: Ask, answer: Answer) -> None:
    service.answers = [answer]
    assert type(catch_fault(ask)) is ProviderUnavailableError


def test_nobody_listening_is_an_outage(service: Service, ask: Ask) -> None:
    service.server_close()
    assert type(catch_fault(ask)) is ProviderUnavailableError


def test_key_and_texts_are_in_no_log(
    service: Service, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.answers = [with_status(429), with_status(500), with_body(b"5c1d")]
    for _ in range(3):
        catch_fault(ask)
    assert "HTTP Request" in caplog.text
    assert CANARY not in caplog.text
