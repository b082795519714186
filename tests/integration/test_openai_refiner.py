"""The refiner over HTTP against a real service that misbehaves in every way it may."""

import json
import logging

import pytest
from helpers.askers import CANARY, KEY, REQUEST, catch_fault, load_http_refiner
from helpers.refiners import fill, list_candidates, read_attempts, refine
from helpers.services import (
    Answer,
    Asked,
    Handler,
    Service,
    with_body,
    with_status,
)
from helpers.sets import SPACE

from storage import Store
from tasks.providers.embedder import (
    ProviderResponseError,
)
from tasks.providers.refiner import Refiner
from tasks.refine_calls import RefineLimits

OUTPUT = {"content": "Keep 10 attempts", "sources": ["m1", "m2"]}


@pytest.fixture
def refiner(service: Service) -> Refiner:
    return load_http_refiner(service)


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
    load_http_refiner(service, key="").refine(REQUEST)
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
    "answer",
    [
        pytest.param(with_body(b'{"choices": [{"message": {"content": "5c1d'), id="truncated"),
        pytest.param(with_json({"choices": []}), id="no-choice"),
        pytest.param(with_json({"choices": [{"text": "5c1d"}]}), id="no-message"),
        pytest.param(with_json({"choices": [{"message": "5c1d"}]}), id="message-text"),
        pytest.param(with_text([{"type": "text", "text": "5c1d"}]), id="content-list"),
        pytest.param(with_text("{}", -1), id="tokens-negative"),
        pytest.param(with_text("{}", "5c1d"), id="tokens-text"),
        pytest.param(with_text("{}", 1.5), id="tokens-fraction"),
        pytest.param(with_text("{}", 10**30), id="tokens-huge"),
        pytest.param(with_text("5c1d " * 1_000_000), id="huge"),
    ],
)
def test_answer_of_another_form_is_refused(
    service: Service, refiner: Refiner, answer: Answer
) -> None:
    service.answers = [answer]
    assert type(catch_fault(lambda: refiner.refine(REQUEST))) is ProviderResponseError


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


def test_key_and_texts_are_in_no_log_and_no_repr(
    service: Service, refiner: Refiner, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.answers = [with_text("5c1d")]
    response = refiner.refine(REQUEST)
    shown = f"{caplog.text}{vars(refiner)}{refiner!r}{REQUEST!r}{REQUEST}{response!r}{response}"
    assert CANARY not in shown
