"""A round of embedding as its caller sees it: bounds, failure budget, callbacks, and silence."""

import json
import traceback
from typing import Any, NoReturn, Unpack

import pytest
from helpers.embedders import IDENTITY, Options, ScriptedEmbedder
from helpers.vectors import VECTORS
from pydantic import ValidationError

from tasks.providers.bounds import ExecutionBounds, FailureBudget
from tasks.providers.checks import RowFailure
from tasks.providers.embedder import (
    EmbeddingIdentity,
    ProviderDeniedError,
    ProviderResponseError,
    ProviderUnavailableError,
)
from tasks.providers.executor import embed_query, embed_rows
from tasks.providers.outcomes import (
    EmbeddingCancelledError,
    EmbeddingCounters,
    EmbeddingFailedError,
    EmbeddingResult,
    EmbeddingRoundError,
    EmbeddingUnavailableError,
    RowFailuresOverBudgetError,
)

REFRESH = json.loads((VECTORS / "refresh-vectors.json").read_text(encoding="utf-8"))
RECALL = json.loads((VECTORS / "recall-vectors.json").read_text(encoding="utf-8"))
BUDGETS = REFRESH["budget_cases"]
EXECUTIONS = [case for case in RECALL["cases"] if case["type"] == "execution_digest"]
TEXTS = [REFRESH["defaults"]["texts"][f"T{number:02d}"] for number in range(1, 13)]
CANARY = "canary-5c1d"


def rows_of(texts: list[str]) -> list[tuple[str, str]]:
    return [(f"mtr_{number:03d}", text) for number, text in enumerate(texts)]


def run(
    embedder: ScriptedEmbedder, texts: list[str], **options: Unpack[Options]
) -> EmbeddingResult:
    return embed_rows(embedder, rows_of(texts), ExecutionBounds(), sleep=lambda _: None, **options)


@pytest.mark.parametrize("case", BUDGETS, ids=[case["id"] for case in BUDGETS])
def test_one_request_has_room_for_so_many_rows(case: dict[str, Any]) -> None:
    bounds = ExecutionBounds(max_request_inputs=case["max_request_inputs"])
    found = bounds.count_nodes(case["dimension"], index_max_records=case["index_max_records"])
    assert found == case["node_budget"]


@pytest.mark.parametrize("case", EXECUTIONS, ids=[case["id"] for case in EXECUTIONS])
def test_integers_stand_in_the_order_of_the_digest(case: dict[str, Any]) -> None:
    bounds = ExecutionBounds(max_retries=case["inputs"]["maxRetries"])
    assert bounds.list_integers() == tuple(case["inputs"].values())


def test_every_bound_is_among_the_integers() -> None:
    fields = ExecutionBounds.model_fields
    values = {name: 1_000_000 + number for number, name in enumerate(fields)}
    values |= {"max_retries": 7, "base_retry_delay_ms": 1250, "max_retry_delay_ms": 299_001}
    values |= {"request_timeout_ms": 300_000, "max_input_text_bytes": 65_000}
    assert ExecutionBounds(**values).list_integers() == (
        *(1_000_000, 1_000_001, 65_000, 1_000_003, 1_000_004, 1_000_005, 1_000_006, 7),
        *(1, 250_000_000, 299, 1_000_000, 300, 0),
    )


@pytest.mark.parametrize(
    "values",
    [
        {"max_retries": 9},
        {"max_retries": -1},
        {"max_retry_delay_ms": 300_001},
        {"request_timeout_ms": 0},
        {"request_timeout_ms": 300_001},
        {"max_batch_inputs": 0},
        {"max_batch_text_bytes": 65_535},
        {"max_request_text_bytes": 65_535},
        {"unknown": 1},
    ],
    ids=str,
)
def test_bounds_out_of_bounds_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        ExecutionBounds(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"model": ""},
        {"model": "é" * 129},
        {"revision": " r1"},
        {"provider": "a\nb"},
        {"dimension": 0},
        {"dimension": 65_537},
        {"normalisation": "cosine"},
    ],
    ids=str,
)
def test_identity_out_of_bounds_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EmbeddingIdentity.model_validate(IDENTITY.model_dump() | values)


def fail_on(texts: list[str]) -> ScriptedEmbedder:
    return ScriptedEmbedder(vectors={text: [0.0, 0.0] for text in texts})


def test_half_of_ten_rows_may_fail() -> None:
    result = run(fail_on(TEXTS[:5]), TEXTS[:10])
    assert (len(result.vectors), set(result.failures.values())) == (5, {RowFailure.ZERO_VECTOR})
    assert result.counters == EmbeddingCounters(10, 330, 1, 10, 330, rows_failed=5)


def test_more_than_half_of_ten_rows_fail_the_round() -> None:
    with pytest.raises(RowFailuresOverBudgetError) as caught:
        run(fail_on(TEXTS[:6]), TEXTS[:10])
    assert (caught.value.code, str(caught.value)) == (
        "row_failures_over_budget",
        "too many rows failed",
    )
    assert caught.value.counters == EmbeddingCounters(10, 330, 1, 10, 330, rows_failed=6)


def test_share_counts_from_ten_rows_that_were_sent() -> None:
    result = run(fail_on(TEXTS[:9]), [*TEXTS[:9], " "])
    assert (len(result.vectors), len(result.failures)) == (0, 10)


def test_blank_rows_do_not_use_up_the_budget() -> None:
    budget = FailureBudget(max_failed_rows=1)
    result = run(fail_on(TEXTS[:1]), [*TEXTS[:3], *[" "] * 120], budget=budget)
    assert len(result.failures) == 121


def test_number_of_failed_rows_ends_the_round_without_further_calls() -> None:
    texts = [f"note {number}" for number in range(300)]
    embedder = fail_on(texts[:200])
    with pytest.raises(RowFailuresOverBudgetError) as caught:
        run(embedder, texts)
    assert (len(embedder.calls), caught.value.counters.rows_failed) == (2, 101)


def test_number_of_failed_rows_passes_at_the_bound() -> None:
    texts = [f"note {number}" for number in range(200)]
    embedder = fail_on(texts[:100])
    assert len(run(embedder, texts).failures) == 100


@pytest.mark.parametrize(
    ("embedder", "texts", "requests"),
    [
        pytest.param(fail_on(TEXTS[:1]), TEXTS[:2], 1, id="bad-vector"),
        pytest.param(ScriptedEmbedder(raising=TEXTS[:1]), TEXTS[:2], 1, id="raises"),
        pytest.param(ScriptedEmbedder(), [*TEXTS[:2], ""], 0, id="blank"),
    ],
)
def test_first_failed_row_can_fail_the_round(
    embedder: ScriptedEmbedder, texts: list[str], requests: int
) -> None:
    with pytest.raises(EmbeddingFailedError) as caught:
        run(embedder, texts, budget=FailureBudget(on_row_failure="fail_run"))
    counters = caught.value.counters
    assert (caught.value.code, counters.provider_requests) == ("embedding_failed", requests)
    assert counters.rows_failed == 0


def test_callbacks_frame_every_batch_with_its_ids() -> None:
    told: list[tuple[str, list[str]]] = []
    embedder = ScriptedEmbedder(raising=[TEXTS[0]])
    run(
        embedder,
        [" ", *TEXTS[:3]],
        suspects=["mtr_002"],
        before_batch=lambda ids: told.append(("before", list(ids))),
        after_batch=lambda ids: told.append(("after", list(ids))),
    )
    first, second = ["mtr_001", "mtr_003"], ["mtr_002"]
    assert told == [("before", first), ("after", first), ("before", second), ("after", second)]


@pytest.mark.parametrize("error", [ProviderDeniedError(), KeyboardInterrupt()], ids=repr)
def test_batch_that_ends_the_round_is_over_too(error: BaseException) -> None:
    over: list[str] = []
    embedder = ScriptedEmbedder(script=[error])
    with pytest.raises((EmbeddingRoundError, KeyboardInterrupt)):
        run(embedder, TEXTS[:2], after_batch=over.extend)
    assert over == ["mtr_000", "mtr_001"]


def test_marker_that_cannot_be_set_keeps_the_batch_from_the_provider() -> None:
    def refuse(_: object) -> NoReturn:
        raise PermissionError

    embedder = ScriptedEmbedder()
    with pytest.raises(PermissionError):
        run(embedder, TEXTS[:2], before_batch=refuse)
    assert embedder.calls == []


def test_caller_can_stop_between_batches() -> None:
    embedder = ScriptedEmbedder()
    texts = [f"note {number}" for number in range(200)]
    with pytest.raises(EmbeddingCancelledError) as caught:
        run(embedder, texts, should_stop=lambda: len(embedder.calls) == 2)
    assert (caught.value.code, str(caught.value)) == ("cancelled", "run was cancelled")
    assert caught.value.counters.provider_inputs == 128


def test_caller_can_stop_between_tries() -> None:
    embedder = ScriptedEmbedder(script=[ProviderUnavailableError()] * 3)
    with pytest.raises(EmbeddingCancelledError):
        run(embedder, TEXTS[:1], should_stop=lambda: len(embedder.calls) == 1)


@pytest.mark.parametrize(
    ("error", "budget"),
    [
        (RuntimeError(CANARY), FailureBudget(max_failed_rows=0)),
        (RuntimeError(CANARY), FailureBudget(on_row_failure="fail_run")),
        (TimeoutError(CANARY), FailureBudget()),
        (ConnectionError(CANARY), FailureBudget()),
    ],
)
def test_failed_round_never_repeats_what_a_provider_said(
    error: Exception, budget: FailureBudget, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = ScriptedEmbedder(script=[error] * 9)
    with pytest.raises(EmbeddingRoundError) as caught:
        run(embedder, [CANARY], budget=budget)
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in f"{shown}{caught.value.facts}{caplog.text}"


def test_query_is_normalised_like_a_text() -> None:
    identity = IDENTITY.model_copy(update={"normalisation": "none"})
    embedder = ScriptedEmbedder(identity=identity, vectors={"where": [0.0, 5.0]})
    assert embed_query(embedder, "where").tolist() == [0.0, 1.0]


@pytest.mark.parametrize("vector", [[1.0], [0.0, 0.0], [float("nan"), 0.0], [2.0, 0.0]], ids=str)
def test_query_without_a_usable_vector_is_no_answer(vector: list[float]) -> None:
    with pytest.raises(ProviderResponseError):
        embed_query(ScriptedEmbedder(vectors={"where": vector}), "where")


def test_exhausted_retries_of_a_half_fail_the_round() -> None:
    script = [RuntimeError(), *[ProviderUnavailableError()] * 3]
    with pytest.raises(EmbeddingUnavailableError) as caught:
        run(ScriptedEmbedder(script=script), TEXTS[:2])
    assert caught.value.counters.provider_requests == 4
