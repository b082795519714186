"""The HTTP embedder against a real service that misbehaves in every way it may."""

import json

import pytest
from helpers.askers import KEY, TEXTS, catch_fault, load_http_embedder
from helpers.services import (
    Answer,
    Asked,
    Service,
    with_body,
    with_items,
    with_status,
)

from tasks.providers.bounds import ExecutionBounds
from tasks.providers.checks import RowFailure
from tasks.providers.embedder import (
    Embedder,
    ProviderResponseError,
)
from tasks.providers.executor import embed_query, embed_rows
from tasks.providers.outcomes import EmbeddingUnavailableError

ROWS = [(f"mtr_{number}", text) for number, text in enumerate(TEXTS)]


@pytest.fixture
def embedder(service: Service) -> Embedder:
    return load_http_embedder(service)


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
    load_http_embedder(service, key="").embed_documents(["alpha"])
    assert service.asked[0].authorization is None


def test_no_texts_need_no_request(service: Service, embedder: Embedder) -> None:
    assert len(embedder.embed_documents([])) == 0
    assert service.asked == []


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
    ],
)
def test_answer_to_something_else_is_refused_as_a_whole(
    service: Service, embedder: Embedder, answer: Answer
) -> None:
    service.answers = [answer]
    assert type(catch_fault(lambda: embedder.embed_documents(TEXTS))) is ProviderResponseError


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


def test_nobody_listening_is_an_outage(service: Service, embedder: Embedder) -> None:
    service.server_close()
    with pytest.raises(EmbeddingUnavailableError) as caught:
        embed_rows(embedder, ROWS, ExecutionBounds(), sleep=lambda _: None)
    assert caught.value.counters.provider_requests == 3
