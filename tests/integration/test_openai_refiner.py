"""The refiner over HTTP against a real service that misbehaves in every way it may."""

import gzip
import json
import logging
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from threading import Event

import pytest
from helpers.refiners import fill, list_candidates, read_attempts, refine
from helpers.services import (
    Answer,
    Asked,
    Handler,
    Service,
    serve_embeddings,
    with_body,
    with_status,
)
from helpers.sets import SPACE

from storage import Store
from storage.models import Kind
from tasks.providers.embedder import (
    ProviderDeniedError,
    ProviderError,
    ProviderInputError,
    ProviderRateLimitedError,
    ProviderResponseError,
    ProviderTimeoutError,
    ProviderUnavailableError,
)
from tasks.providers.refiner import Refiner, RefineRequest, RefineSource
from tasks.providers.refiners import load_refiner
from tasks.refine_calls import RefineLimits

KEY = "sk-canary-5c1d"
CANARY = "5c1d"
REQUEST = RefineRequest(
    namespace=SPACE,
    kind=Kind.SEMANTIC,
    sources=(
        RefineSource(memory_id="m1", revision=3, content="Keep 10 attempts 5c1d"),
        RefineSource(memory_id="m2", revision=1, content="Ten attempts, 试 5c1d"),
    ),
)
OUTPUT = {"content": "Keep 10 attempts", "sources": ["m1", "m2"]}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_embeddings() as service:
        yield service


def environ_of(service: Service) -> dict[str, str]:
    return {
        "MEMTEND_REFINER_URL": service.url,
        "MEMTEND_REFINER_MODEL": "writer-v1",
        "MEMTEND_REFINER_KEY": KEY,
    }


@pytest.fixture
def refiner(service: Service) -> Refiner:
    return load_refiner("openai", environ_of(service), request_timeout_s=2)


def chat(message: object, usage: object = None, **more: object) -> dict[str, object]:
    """Give an answer of the service, with the usual fields around it."""
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "choices": [choice], "usage": usage, **more}


def with_json(value: object) -> Answer:
    return with_body(json.dumps(value).encode())


def with_text(text: object, tokens: object = 42) -> Answer:
    """Answer with what a model wrote."""
    message = {"role": "assistant", "content": text}
    return with_json(chat(message, {"prompt_tokens": 40, "total_tokens": tokens}))


def copy_first(handler: Handler, asked: Asked) -> None:
    """Answer as a good model does: the first memory says what the others say."""
    memories = json.loads(asked.body["messages"][1]["content"])["memories"]
    output = {"content": memories[0]["content"], "sources": [each["id"] for each in memories]}
    with_text(json.dumps(output))(handler, asked)


def fail(refiner: Refiner) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        refiner.refine(REQUEST)
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in f"{shown}{caught.value.facts}"
    assert caught.value.__context__ is None
    return caught.value


def test_answer_is_read_as_json_with_its_cost(service: Service, refiner: Refiner) -> None:
    service.answers = [with_text(json.dumps(OUTPUT))]
    response = refiner.refine(REQUEST)
    assert (response.output, response.tokens) == (OUTPUT, 42)


def test_request_has_the_form_of_the_interface(service: Service, refiner: Refiner) -> None:
    service.answers = [with_text("{}")]
    refiner.refine(REQUEST)
    (asked,) = service.asked
    assert (asked.path, asked.authorization) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert asked.body.keys() == {"model", "messages"}
    assert asked.body["model"] == "writer-v1"
    system, user = asked.body["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert CANARY not in system["content"]
    memories = [{"id": name, "content": text} for name, text in REQUEST.texts.items()]
    assert json.loads(user["content"]) == {"kind": "semantic", "memories": memories}


def test_no_key_is_no_header(service: Service) -> None:
    service.answers = [with_text("{}")]
    load_refiner("openai", environ_of(service) | {"MEMTEND_REFINER_KEY": ""}).refine(REQUEST)
    assert service.asked[0].authorization is None


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (f" \n{json.dumps(OUTPUT)}\n", OUTPUT),
        (f"```json\n{json.dumps(OUTPUT)}\n```", OUTPUT),
        (f"```\n{json.dumps(OUTPUT)}```\n", OUTPUT),
        ("Sure! Here it is.", "Sure! Here it is."),
        ('{"content": "Keep 10 att', '{"content": "Keep 10 att'),
        ("```", "```"),
        ("", ""),
        ("[" * 100_000, "[" * 100_000),
        (None, None),
        ("7", 7),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_a_model_wrote_is_left_to_the_checks(
    service: Service, refiner: Refiner, text: str | None, output: object
) -> None:
    service.answers = [with_text(text)]
    assert refiner.refine(REQUEST).output == output


@pytest.mark.parametrize(
    ("usage", "tokens"), [(None, None), ({}, None), ({"total_tokens": 0}, 0)], ids=str
)
def test_cost_may_be_unknown(
    service: Service, refiner: Refiner, usage: object, tokens: int | None
) -> None:
    service.answers = [with_json(chat({"content": "{}"}, usage))]
    assert refiner.refine(REQUEST).tokens == tokens


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
        (429, ProviderRateLimitedError),
        (500, ProviderUnavailableError),
        (503, ProviderUnavailableError),
    ],
)
def test_status_says_what_kind_of_fault_it_is(
    service: Service, refiner: Refiner, status: int, kind: type[ProviderError]
) -> None:
    service.answers = [with_status(status, location=f"{service.url}/elsewhere")]
    assert type(fail(refiner)) is kind
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(with_body(b""), id="nothing"),
        pytest.param(with_body(b"<html>5c1d</html>", content_type="text/html"), id="html"),
        pytest.param(with_body(b'{"choices": [{"message": {"content": "5c1d'), id="truncated"),
        pytest.param(with_body(b"\xff\xfe"), id="no-text"),
        pytest.param(with_body(b"[" * 100_000), id="deep"),
        pytest.param(with_body(b"{}"), id="empty-object"),
        pytest.param(with_json({"error": {"message": "5c1d"}}), id="error-with-status-200"),
        pytest.param(with_json({"choices": []}), id="no-choice"),
        pytest.param(with_json({"choices": [{"text": "5c1d"}]}), id="no-message"),
        pytest.param(with_json({"choices": [{"message": "5c1d"}]}), id="message-text"),
        pytest.param(with_text([{"type": "text", "text": "5c1d"}]), id="content-list"),
        pytest.param(with_text("{}", -1), id="tokens-negative"),
        pytest.param(with_text("{}", "5c1d"), id="tokens-text"),
        pytest.param(with_text("{}", 1.5), id="tokens-fraction"),
        pytest.param(with_text("{}", 10**30), id="tokens-huge"),
        pytest.param(with_body(b"5c1d", content_encoding="gzip"), id="no-gzip"),
        pytest.param(with_text("5c1d " * 1_000_000), id="huge"),
        pytest.param(
            with_body(gzip.compress(b" " * 10_000_000), content_encoding="gzip"), id="huge-gzip"
        ),
    ],
)
def test_answer_of_another_form_is_refused(
    service: Service, refiner: Refiner, answer: Answer
) -> None:
    service.answers = [answer]
    assert type(fail(refiner)) is ProviderResponseError


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
    refiner = load_refiner("openai", environ_of(service), request_timeout_s=0.4)
    started = time.monotonic()
    assert type(fail(refiner)) is ProviderTimeoutError
    assert time.monotonic() - started < 2
    over.set()


def hang_up(handler: Handler, _: Asked) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def test_broken_connection_and_nobody_listening_are_outages(
    service: Service, refiner: Refiner
) -> None:
    service.answers = [hang_up]
    assert type(fail(refiner)) is ProviderUnavailableError
    service.server_close()
    assert type(fail(refiner)) is ProviderUnavailableError


def test_service_that_comes_to_its_senses_is_asked_again_within_the_run(
    service: Service, refiner: Refiner, store: Store
) -> None:
    service.answers = [
        with_status(429, retry_after="1"),
        with_body(b"<html>"),
        copy_first,
        with_text("no JSON"),
        copy_first,
    ]
    slept: list[float] = []
    report = refine(store, refiner, fill(store, 2), sleep=slept.append)
    assert (report.count("refined"), report.calls, len(service.asked)) == (2, 5, 5)
    assert slept == [1.0, 0.2]
    assert len(list_candidates(store, SPACE)) == 2


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (with_status(500), "unavailable"),
        (with_status(429), "rate_limited"),
        (with_body(b"<html>5c1d</html>"), "response_invalid"),
        (with_text('{"oops": 1}'), "schema"),
        (with_text("5c1d"), "schema"),
        (hang_up, "unavailable"),
    ],
)
def test_service_that_never_works_gets_the_calls_of_the_budget(
    service: Service, refiner: Refiner, store: Store, answer: Answer, code: str
) -> None:
    service.answers = [answer] * 20
    report = refine(store, refiner, fill(store, 3), limits=RefineLimits(max_calls=7))
    assert (report.calls, len(service.asked), report.stop) == (7, 7, "budget")
    assert report.count_details("failed") == {code: 3}
    assert report.state == "failed"
    assert list_candidates(store, SPACE) == []
    assert [row[1:4] for row in read_attempts(store)] == [("failed", code, 1)] * 3


def test_cost_that_the_service_tells_ends_the_run(
    service: Service, refiner: Refiner, store: Store
) -> None:
    service.answers = [with_text('{"oops": 1}')] * 20
    report = refine(store, refiner, fill(store, 3), limits=RefineLimits(max_tokens=84))
    assert (report.calls, report.tokens, report.stop) == (2, 84, "budget")


def test_key_and_texts_are_in_no_log(
    service: Service, refiner: Refiner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.answers = [with_status(429), with_status(500), with_body(b"5c1d")]
    for _ in range(3):
        fail(refiner)
    service.answers = [with_text("5c1d")]
    response = refiner.refine(REQUEST)
    shown = f"{caplog.text}{vars(refiner)}{refiner!r}{REQUEST!r}{REQUEST}{response!r}{response}"
    assert CANARY not in shown
