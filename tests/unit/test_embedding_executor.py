"""The embedding executor: what it sends, how it retries and splits, and how a round ends."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Unpack

import numpy as np
import pytest
from helpers.embedders import IDENTITY, Options, ScriptedEmbedder, vector_of
from helpers.vectors import VECTORS

from storage.index_errors import ConfigurationError
from tasks.providers.bounds import ExecutionBounds, FailureBudget, InvalidConfigurationError
from tasks.providers.checks import RowFailure
from tasks.providers.embedder import (
    ProviderDeniedError,
    ProviderInputError,
    ProviderRateLimitedError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    Vector,
)
from tasks.providers.executor import embed_rows
from tasks.providers.outcomes import (
    EmbeddingCounters,
    EmbeddingRefusedError,
    EmbeddingResult,
    EmbeddingRoundError,
    EmbeddingUnavailableError,
    ProviderResponseInvalidError,
)
from tasks.refresh.job import check_lease_ttl

FILE = json.loads((VECTORS / "refresh-vectors.json").read_text(encoding="utf-8"))
BOUNDS = ExecutionBounds()
ALPHA, BETA = FILE["defaults"]["texts"]["ALPHA"], FILE["defaults"]["texts"]["BETA"]
LENIENT = FailureBudget(max_failed_ratio=1.0)


def each(cases: str) -> pytest.MarkDecorator:
    found = FILE[cases]
    assert found
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


def rows_of(texts: Iterable[str]) -> list[tuple[str, str]]:
    return [(f"mtr_{number:03d}", text) for number, text in enumerate(texts)]


def notes(count: int) -> list[str]:
    return [f"note {number:03d}" for number in range(count)]


def run(
    embedder: ScriptedEmbedder, texts: Iterable[str], **options: Unpack[Options]
) -> EmbeddingResult:
    return embed_rows(embedder, rows_of(texts), BOUNDS, sleep=lambda _: None, **options)


def fail(
    embedder: ScriptedEmbedder, texts: Iterable[str], **options: Unpack[Options]
) -> EmbeddingRoundError:
    with pytest.raises(EmbeddingRoundError) as caught:
        run(embedder, texts, **options)
    return caught.value


@each("split_cases")
def test_batch_that_raises_is_halved(case: dict[str, Any]) -> None:
    texts = notes(case["batch"])
    embedder = ScriptedEmbedder(raising=[texts[index] for index in case["raising"]])
    result = run(embedder, texts, budget=LENIENT)
    assert [len(call) for call in embedder.calls] == case["call_sizes"]
    assert result.counters.provider_requests == case["provider_requests"]
    assert result.counters.provider_inputs == case["provider_inputs"]
    blamed = {f"mtr_{index:03d}": RowFailure.PROVIDER_EXCEPTION for index in case["raising"]}
    assert result.failures == blamed
    assert len(result.vectors) == case["batch"] - len(case["raising"])


@each("delay_cases")
def test_waits_grow_up_to_the_maximum(case: dict[str, Any]) -> None:
    asked = case["retry_after_ms"]
    error = ProviderRateLimitedError(None if asked is None else asked / 1000)
    embedder = ScriptedEmbedder(script=[error] * (case["max_retries"] + 1))
    slept: list[float] = []
    bounds = ExecutionBounds(max_retries=case["max_retries"])
    with pytest.raises(EmbeddingUnavailableError):
        embed_rows(embedder, rows_of([ALPHA]), bounds, sleep=slept.append)
    assert [round(seconds * 1000) for seconds in slept] == case["delays_ms"]


@each("packing_cases")
def test_batches_close_before_they_exceed_a_bound(case: dict[str, Any]) -> None:
    bounds = ExecutionBounds(max_input_text_bytes=BOUNDS.max_batch_text_bytes)
    embedder = ScriptedEmbedder()
    texts = ["x" * size for size in read_sizes(case["text_bytes"])]
    embed_rows(embedder, rows_of(texts), bounds)
    assert [len(call) for call in embedder.calls] == case["batches"]


def read_sizes(text: str) -> list[int]:
    """Read `5 x 100, 1` as five times 100 and once 1."""
    parts = [part.split(" x ") for part in text.split(", ")]
    return [int(part[-1]) for part in parts for _ in range(int(part[0]) if len(part) > 1 else 1)]


def test_request_bounds_end_a_batch_too() -> None:
    bounds = ExecutionBounds(max_request_inputs=10, max_batch_inputs=4)
    embedder = ScriptedEmbedder()
    embed_rows(embedder, rows_of(notes(21)), bounds)
    assert [len(call) for call in embedder.calls] == [4, 4, 2, 4, 4, 2, 1]


def test_bytes_of_vectors_bound_a_batch() -> None:
    embedder = ScriptedEmbedder()
    bounds = ExecutionBounds(max_batch_vector_bytes=24)
    embed_rows(embedder, rows_of(notes(7)), bounds)
    assert [len(call) for call in embedder.calls] == [3, 3, 1]


@pytest.mark.parametrize("field", ["max_batch_vector_bytes", "max_request_vector_bytes"])
def test_vector_that_fits_nowhere_is_refused(field: str) -> None:
    bounds = ExecutionBounds.model_validate({field: 7})
    with pytest.raises(InvalidConfigurationError) as caught:
        embed_rows(ScriptedEmbedder(), [], bounds)
    assert caught.value.code == "invalid_configuration"


def test_rows_keep_their_order_and_suspects_come_last_and_alone() -> None:
    embedder = ScriptedEmbedder()
    texts = notes(5)
    result = run(embedder, texts, suspects={"mtr_003", "mtr_001", "gone"})
    assert embedder.calls == [[texts[0], texts[2], texts[4]], [texts[1]], [texts[3]]]
    assert result.vectors.keys() == {f"mtr_{number:03d}" for number in range(5)}


def test_every_vector_belongs_to_its_text() -> None:
    texts = notes(130)
    vectors = run(ScriptedEmbedder(), texts).vectors
    for record_id, text in rows_of(texts):
        np.testing.assert_allclose(vectors[record_id], vector_of(text), atol=1e-6)


def test_vectors_are_normalised_once_in_float64() -> None:
    identity = IDENTITY.model_copy(update={"normalisation": "none"})
    embedder = ScriptedEmbedder(identity=identity, vectors={ALPHA: [3e38, 3e38], BETA: [1e-45, 0]})
    vectors = run(embedder, [ALPHA, BETA]).vectors
    half = np.float32(math.sqrt(0.5))
    assert vectors["mtr_000"].tolist() == [half, half]
    assert vectors["mtr_001"].tolist() == [1.0, 0.0]
    assert {vector.dtype for vector in vectors.values()} == {np.dtype(np.float32)}


def test_no_rows_need_no_call() -> None:
    embedder = ScriptedEmbedder()
    assert run(embedder, []) == ({}, {}, EmbeddingCounters())
    assert embedder.calls == []


def test_repeated_record_id_is_refused() -> None:
    with pytest.raises(ValueError, match="1 of 3 are repeated"):
        embed_rows(ScriptedEmbedder(), [("a", "x"), ("b", "y"), ("a", "z")], BOUNDS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", RowFailure.EMPTY_TEXT),
        (FILE["defaults"]["texts"]["BLANK"], RowFailure.EMPTY_TEXT),
        ("\u200b\u2060\ufeff\x00\x1f\t\n\u3000", RowFailure.EMPTY_TEXT),
        ("\u200d" * 70_000, RowFailure.EMPTY_TEXT),
        ("x" * 65_537, RowFailure.TEXT_TOO_LONG),
        ("é" * 32_769, RowFailure.TEXT_TOO_LONG),
    ],
)
def test_text_that_cannot_be_embedded_never_reaches_the_provider(text: str, reason: str) -> None:
    embedder = ScriptedEmbedder()
    result = run(embedder, [ALPHA, text])
    assert embedder.calls == [[ALPHA]]
    assert result.failures == {"mtr_001": reason}
    assert result.counters == EmbeddingCounters(1, 53, 1, 1, 53, rows_failed=1)


def test_longest_text_is_sent() -> None:
    assert not run(ScriptedEmbedder(), ["x" * 65_536]).failures


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([1.0], RowFailure.WRONG_DIMENSION),
        ([math.nan, 0, 0], RowFailure.WRONG_DIMENSION),
        ([math.nan, 0], RowFailure.NON_FINITE),
        ([0, -math.inf], RowFailure.NON_FINITE),
        ([0, -0.0], RowFailure.ZERO_VECTOR),
        ([2, 0], RowFailure.NOT_NORMALISED),
        ([0.9899, 0], RowFailure.NOT_NORMALISED),
    ],
)
def test_bad_vector_fails_its_row_only(vector: Sequence[float], reason: str) -> None:
    embedder = ScriptedEmbedder(vectors={ALPHA: vector})
    result = run(embedder, [ALPHA, BETA])
    assert result.failures == {"mtr_000": reason}
    assert result.vectors.keys() == {"mtr_001"}
    assert len(embedder.calls) == 1


@pytest.mark.parametrize("length", [0.9901, 1.0099])
def test_norm_within_a_hundredth_of_one_is_accepted(length: float) -> None:
    vectors = run(ScriptedEmbedder(vectors={ALPHA: [length, 0]}), [ALPHA]).vectors
    assert vectors["mtr_000"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "error",
    [
        ProviderTimeoutError(),
        ProviderRateLimitedError(),
        ProviderUnavailableError(),
        TimeoutError(),
        ConnectionRefusedError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_fault_that_may_pass_is_tried_again(error: Exception) -> None:
    embedder = ScriptedEmbedder(script=[error, error])
    result = run(embedder, [ALPHA])
    assert result.vectors.keys() == {"mtr_000"}
    assert result.counters == EmbeddingCounters(1, 53, 3, 3, 159)


def test_retries_run_out() -> None:
    embedder = ScriptedEmbedder(script=[ProviderUnavailableError()] * 3)
    error = fail(embedder, [ALPHA])
    assert isinstance(error, EmbeddingUnavailableError)
    assert (error.code, str(error)) == ("embedding_unavailable", "embedding did not succeed")
    assert error.counters == EmbeddingCounters(1, 53, 3, 3, 159)


def test_refused_access_is_not_tried_again() -> None:
    error = fail(ScriptedEmbedder(script=[ProviderDeniedError()]), [ALPHA])
    assert isinstance(error, EmbeddingRefusedError)
    assert (error.code, error.counters.provider_requests) == ("embedding_refused", 1)


def test_refused_input_is_looked_for_in_the_halves() -> None:
    result = run(ScriptedEmbedder(script=[ProviderInputError()]), [ALPHA, BETA])
    assert (result.counters.provider_requests, len(result.vectors)) == (3, 2)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda vectors: vectors[:-1], id="output-missing"),
        pytest.param(lambda vectors: [*vectors, vectors[0]], id="output-too-many"),
        pytest.param(lambda _: np.zeros((2, 3), dtype=np.float32), id="other-dimension"),
        pytest.param(lambda _: np.zeros(2, dtype=np.float32), id="no-rows"),
        pytest.param(lambda _: None, id="nothing"),
        pytest.param(lambda _: [None, "x"], id="no-numbers"),
    ],
)
def test_wrong_answer_blames_no_row(answer: Callable[[list[Vector]], object]) -> None:
    error = fail(ScriptedEmbedder(script=[answer]), [ALPHA, BETA])
    assert isinstance(error, ProviderResponseInvalidError)
    assert (error.code, str(error)) == (
        "provider_response_invalid",
        "embedding answer was not valid",
    )
    assert error.counters == EmbeddingCounters(2, 107, 1, 2, 107)


def test_model_that_changes_under_way_is_refused() -> None:
    def change(vectors: list[Vector]) -> list[Vector]:
        embedder.identity = IDENTITY.model_copy(update={"revision": "fixture-r2"})
        return vectors

    embedder = ScriptedEmbedder(script=[change])
    assert isinstance(fail(embedder, [ALPHA]), ProviderResponseInvalidError)


@pytest.mark.parametrize(
    ("timeout_s", "retries", "ttl_s", "fits"),
    [
        pytest.param(30, 2, 300, True, id="V33"),
        pytest.param(30, 2, 180, False, id="V33-short"),
        pytest.param(30, 8, 558, False, id="V34-short"),
        pytest.param(30, 8, 559, True, id="V34"),
        pytest.param(300, 8, 3600, False, id="V35"),
    ],
)
def test_lease_outlasts_two_of_the_longest_stretches(
    timeout_s: int, retries: int, ttl_s: int, *, fits: bool
) -> None:
    bounds = ExecutionBounds(request_timeout_ms=timeout_s * 1000, max_retries=retries)
    check_lease_ttl("use", bounds, ttl_s)
    if fits:
        check_lease_ttl("http", bounds, ttl_s)
        return
    with pytest.raises(ConfigurationError):
        check_lease_ttl("http", bounds, ttl_s)
