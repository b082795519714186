"""A refiner is asked within bounds that hold over retries and runs; failures are kept."""

import logging
from datetime import timedelta

import pytest
from helpers.consolidation import Json, cases
from helpers.refiners import (
    ScriptedRefiner,
    dump_memories,
    fill,
    join_texts,
    read_attempts,
    refine,
)
from helpers.rows import NOW

from storage import Store
from tasks.providers.embedder import (
    ProviderDeniedError,
    ProviderInputError,
    ProviderRateLimitedError,
    ProviderTimeoutError,
    ProviderUnavailableError,
)
from tasks.providers.refiner import RefineRequest, RefineResponse
from tasks.refine_calls import RefineLimits


@cases("refine_budget")
def test_budget_holds_as_the_vector_says(case: Json, store: Store) -> None:
    given, expected = case["input"], case["expect"]
    limits = RefineLimits(attempts=given["attempts_per_cluster"], max_calls=given["max_calls"])
    refiner = ScriptedRefiner(always=RuntimeError("no"))
    report = refine(store, refiner, fill(store, given["clusters"]), limits=limits)
    said = {
        "calls": report.calls,
        "failed": report.count("failed"),
        "not_attempted": report.count("not_attempted"),
        "stop": report.stop,
        "run": report.state,
    }
    assert said == expected
    assert len(refiner.asked) == expected["calls"]
    assert len(read_attempts(store)) == expected["failed"]


def test_c41_refiner_that_always_raises_is_asked_twelve_times(store: Store) -> None:
    clusters = fill(store, 10)
    before = dump_memories(store)
    refiner = ScriptedRefiner(always=RuntimeError("no"))
    report = refine(store, refiner, clusters)
    assert (len(refiner.asked), report.calls, report.stop) == (12, 12, "budget")
    assert (report.count("failed"), report.count("not_attempted")) == (4, 6)
    assert report.count_details("failed") == {"provider_exception": 4}
    assert report.state == "failed"
    due = NOW + timedelta(seconds=900)
    assert [row[1:] for row in read_attempts(store)] == [
        ("failed", "provider_exception", 1, due, None)
    ] * 4
    assert dump_memories(store) == before


def test_c34_output_of_another_form_changes_nothing(store: Store) -> None:
    clusters = fill(store, 3)
    before = dump_memories(store)
    refiner = ScriptedRefiner(always=lambda _: {"oops": 1})
    report = refine(store, refiner, clusters)
    assert report.count_details("failed") == {"schema": 3}
    assert (report.state, report.stop, report.calls) == ("failed", "done", 9)
    assert dump_memories(store) == before
    assert [row[1:4] for row in read_attempts(store)] == [("failed", "schema", 1)] * 3


def test_retry_within_a_run_may_succeed(store: Store) -> None:
    refiner = ScriptedRefiner(TimeoutError(), lambda _: "no JSON")
    report = refine(store, refiner, fill(store, 1))
    assert (report.calls, report.count("refined"), report.state) == (3, 1, "completed")
    assert [row[1:4] for row in read_attempts(store)] == [("refined", None, 0)]


def test_run_with_both_says_so(store: Store) -> None:
    refiner = ScriptedRefiner(join_texts, always=RuntimeError("no"))
    report = refine(store, refiner, fill(store, 2))
    assert report.state == "completed_with_failures"
    assert [each.result for each in report.outcomes] == ["refined", "failed"]


def test_failed_cluster_waits_longer_each_time_and_is_given_up(store: Store) -> None:
    (cluster,) = fill(store, 1)
    clock = NOW
    for failed_runs, delay_s in enumerate((900, 1800, 3600, 7200), start=1):
        report = refine(store, ScriptedRefiner(always=RuntimeError()), [cluster], clock=clock)
        assert report.state == "failed"
        due = clock + timedelta(seconds=delay_s)
        assert read_attempts(store)[0][1:5] == ("failed", "provider_exception", failed_runs, due)
        early = ScriptedRefiner()
        report = refine(store, early, [cluster], clock=due - timedelta(microseconds=1))
        assert (early.asked, report.state) == ([], "unchanged")
        assert report.count_details("skipped") == {"waiting": 1}
        clock = due
    refine(store, ScriptedRefiner(always=RuntimeError()), [cluster], clock=clock)
    assert read_attempts(store)[0][1:5] == ("permanent", "provider_exception", 5, None)
    late = ScriptedRefiner()
    report = refine(store, late, [cluster], clock=clock + timedelta(days=1000))
    assert (late.asked, report.state, report.count("permanent")) == ([], "unchanged", 1)
    assert report.outcomes[0].memory_ids == ("m00a", "m00b")


def test_clusters_that_failed_before_come_last(store: Store) -> None:
    clusters = fill(store, 3)
    limits = RefineLimits(attempts=1, max_calls=1)
    refine(store, ScriptedRefiner(RuntimeError()), clusters, limits=limits)
    refiner = ScriptedRefiner()
    later = NOW + timedelta(days=1)
    limits = RefineLimits(attempts=1, max_calls=2)
    report = refine(store, refiner, clusters, clock=later, limits=limits)
    assert [each.result for each in report.outcomes] == ["not_attempted", "refined", "refined"]
    assert refiner.asked == clusters[1:]


def test_refined_after_a_failure_is_no_pending_work(store: Store) -> None:
    (cluster,) = fill(store, 1)
    refine(store, ScriptedRefiner(always=RuntimeError()), [cluster])
    report = refine(store, ScriptedRefiner(), [cluster], clock=NOW + timedelta(hours=1))
    (row,) = read_attempts(store)
    assert row[1:] == ("refined", None, 1, None, report.outcomes[0].detail)


@pytest.mark.parametrize(
    ("tokens", "max_tokens", "calls"), [(100, 300, 3), (100, 301, 4), (100, 0, 0), (0, 1, 5)]
)
def test_no_call_is_begun_once_the_tokens_are_used(
    store: Store, tokens: int, max_tokens: int, calls: int
) -> None:
    refiner = ScriptedRefiner(tokens=tokens)
    limits = RefineLimits(max_tokens=max_tokens)
    report = refine(store, refiner, fill(store, 5), limits=limits)
    assert (report.calls, report.tokens) == (calls, calls * tokens)
    assert (report.count("not_attempted"), report.stop) == (
        (5 - calls, "done" if calls == 5 else "budget")
    )


def test_call_without_a_figure_counts_as_its_bytes(store: Store) -> None:
    (cluster,) = fill(store, 1)
    size = 2 * sum(len(text.encode()) for text in cluster.texts.values())
    errors = [ProviderTimeoutError(), RuntimeError(), ProviderRateLimitedError(0.0)]
    report = refine(store, ScriptedRefiner(*errors), [cluster])
    assert (report.calls, report.tokens) == (3, 2 * size)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ProviderDeniedError(status=401), 1),
        (ProviderInputError(status=400), 1),
        (ProviderUnavailableError(), 3),
        (ProviderTimeoutError(), 3),
    ],
)
def test_refusal_is_not_repeated_in_the_run(store: Store, error: Exception, calls: int) -> None:
    report = refine(store, ScriptedRefiner(always=error), fill(store, 1))
    assert (report.calls, report.count("failed")) == (calls, 1)


def test_waits_follow_the_provider(store: Store) -> None:
    slept: list[float] = []
    errors = [ProviderRateLimitedError(1.5), ProviderUnavailableError()]
    refine(store, ScriptedRefiner(*errors), fill(store, 1), sleep=slept.append)
    assert slept == [1.5, 0.2]


def test_each_call_is_announced(store: Store) -> None:
    announced: list[int] = []
    refiner = ScriptedRefiner(RuntimeError())
    clusters = fill(store, 2)
    refine(store, refiner, clusters, before_call=lambda: announced.append(len(refiner.asked)))
    assert announced == [0, 1, 2]


def test_answer_of_another_class_is_no_answer(store: Store) -> None:
    class Odd(ScriptedRefiner):
        def refine(self, request: RefineRequest) -> RefineResponse:
            self.asked.append(request)
            return {"content": "x"}  # type: ignore[return-value] # as a host might

    report = refine(store, Odd(), fill(store, 1))
    assert report.count_details("failed") == {"response_invalid": 1}


def test_nobody_repeats_what_the_refiner_or_a_memory_says(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (cluster,) = fill(store, 1)
    raising = ScriptedRefiner(always=RuntimeError(f"canary {cluster.texts}"))
    writing = ScriptedRefiner(always=lambda _: {"content": "canary 7", "sources": ["m00a", "x"]})
    later = NOW + timedelta(days=1)
    reports = refine(store, raising, [cluster]), refine(store, writing, [cluster], clock=later)
    said = f"{reports} {read_attempts(store)} {caplog.text} {cluster}"
    assert "canary" not in said
    assert "retry budget" not in said
