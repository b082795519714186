"""What a refiner answers is judged by what its sources say."""

from typing import Any

import pytest
from helpers.consolidation import Json, cases

from tasks.rules.refined import RefinedText, RefineFault, judge_output

SOURCES = {"m1": "Keep the gate open from 8 to 10", "m2": "Do not open the gate after 10"}
GOOD = "The gate is open from 8 to 10, not after"


def say(content: object = GOOD, sources: object = ("m1", "m2"), **more: object) -> dict[str, Any]:
    named = list(sources) if isinstance(sources, tuple) else sources
    return {"content": content, "sources": named, **more}


@cases("refine_output")
def test_vector_is_met(case: Json) -> None:
    given, expected = case["input"], case["expect"]
    sources = dict(zip(given["source_ids"], given["source_texts"], strict=True))
    judged = judge_output(given["output"], sources)
    assert isinstance(judged, RefinedText) == expected["candidate_created"]
    if isinstance(judged, RefinedText):
        assert judged.content == given["output"]["content"]
    else:
        assert judged == expected["error"]


@pytest.mark.parametrize(
    "output",
    [
        None,
        [],
        7,
        {},
        say(more=1),
        {"content": GOOD},
        {"sources": ["m1", "m2"]},
        say(content=None),
        say(content=["x"]),
        say(content="a\0b"),
        say(content="a \ud800 b"),
        say(sources="m1"),
        say(sources={"m1": 1, "m2": 2}),
        say(sources=["m1", 2]),
        say(sources=["m1", ["m2"]]),
        say(sources=["m1", "\ud800"]),
    ],
    ids=ascii,
)
def test_other_forms_are_refused(output: object) -> None:
    assert judge_output(output, SOURCES) == RefineFault.SCHEMA


@pytest.mark.parametrize(
    "named", [[], ["m1"], ["m1", "m1"], ["m1", "m2", "m2"], ["m1", "m2", "m3"], ["m1", "M2"]]
)
def test_each_source_is_named_once(named: list[str]) -> None:
    assert judge_output(say(sources=named), SOURCES) == RefineFault.SOURCES


def test_order_of_the_sources_does_not_matter() -> None:
    assert judge_output(say(sources=["m2", "m1"]), SOURCES) == RefinedText(GOOD)


@pytest.mark.parametrize("content", ["", " \t\n", "\u200b\u2060", "!!! ...", "\u0301"], ids=ascii)
def test_text_without_a_word_is_empty(content: str) -> None:
    assert judge_output(say(content=content), SOURCES) == RefineFault.EMPTY


def test_longest_text_is_as_long_as_its_sources() -> None:
    length = sum(map(len, SOURCES.values()))
    longest = GOOD + "!" * (length - len(GOOD))
    assert judge_output(say(content=longest), SOURCES) == RefinedText(longest)
    assert judge_output(say(content=longest + "!"), SOURCES) == RefineFault.TOO_LONG


def test_text_is_no_longer_than_a_memory_may_be() -> None:
    sources = {"m1": "é" * 32_768, "m2": "é"}
    fitting = say(content="é" * 32_768)
    assert judge_output(fitting, sources) == RefinedText("é" * 32_768)
    assert judge_output(say(content="é" * 32_769), sources) == RefineFault.TOO_LONG


def test_figure_that_changes_its_unit_is_lost() -> None:
    sources = {"m1": "Retry after 30 seconds", "m2": "A retry comes after 30 s"}
    assert judge_output(say(content="Retry after 30 s"), sources) == RefinedText("Retry after 30 s")
    minutes = say(content="Retry after 30 minutes")
    assert judge_output(minutes, sources) == RefineFault.FIGURE_LOST


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("The gate is open until 12, never before 8", RefineFault.FIGURE_LOST),
        ("The gate is open 8 to 10 or 12", RefineFault.FIGURE_INVENTED),
        ("The gate is open from 8 to 10", RefineFault.POLARITY_LOST),
    ],
)
def test_first_fault_is_told(content: str, fault: RefineFault) -> None:
    assert judge_output(say(content=content), SOURCES) == fault


def test_negation_of_the_output_alone_is_no_loss() -> None:
    sources = {"m1": "Keep the gate open all day", "m2": "The gate is open all day"}
    content = "Keep the gate open all day, never shut"
    assert judge_output(say(content=content), sources) == RefinedText(content)
