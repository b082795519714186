"""What people type after options is read whole, or refused with the option's name."""

from datetime import UTC, datetime

import pytest

from deployments.cli import hoist_globals
from deployments.options import (
    parse_choice,
    parse_limits,
    parse_metadata,
    parse_moment,
    parse_selector,
    parse_values,
)
from storage.errors import AdmissionError
from storage.models import Namespace
from tasks.limits import SafetyLimits

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_absent_options_mean_now_all_and_defaults(now: datetime) -> None:
    assert parse_moment(None, now) == now
    assert parse_selector(None) is None
    assert parse_values(None) == parse_metadata(None) == {}
    assert parse_limits(None) == SafetyLimits()


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31 12:00",
        "2026-01-31T13:00+01:00",
        "2026-01-31T07:00-05:00",
    ],
)
def test_moment_without_an_offset_is_utc(now: datetime, text: str) -> None:
    assert parse_moment(text, now) == NOON


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t/p/s", ("t", "p", "s")),
        ("a%2Fb/p/s", ("a/b", "p", "s")),
        ("a%25b/p/s", ("a%b", "p", "s")),
        ("a%252Fb/p/s", ("a%2Fb", "p", "s")),
        ("a%2fb/%/s", ("a%2fb", "%", "s")),
        ("x' OR 1=1 --/ p/s ", ("x' OR 1=1 --", " p", "s ")),
    ],
)
def test_selector_names_three_parts_exactly(text: str, parts: tuple[str, str, str]) -> None:
    names = ("tenant", "principal", "scope")
    assert parse_selector(text) == Namespace(**dict(zip(names, parts, strict=True)))


@pytest.mark.parametrize(
    ("pairs", "values"),
    [
        (["max_age_days=60"], {"max_age_days": 60}),
        (["ratio=0.5", "on=true", "off=null"], {"ratio": 0.5, "on": True, "off": None}),
        (["mode=delete"], {"mode": "delete"}),
        (['mode="delete"'], {"mode": "delete"}),
        (["a.b=1", "a.c=2", "d=3"], {"a": {"b": 1, "c": 2}, "d": 3}),
        (["a.b.c=[1, 2]"], {"a": {"b": {"c": [1, 2]}}}),
        (['a={"b": 1}', "a.c=2"], {"a": {"b": 1, "c": 2}}),
        (["text=a=b"], {"text": "a=b"}),
        (["text="], {"text": ""}),
        (["deep=" + "[" * 100_000], {"deep": "[" * 100_000}),
    ],
)
def test_values_are_json_or_text_and_dots_nest(pairs: list[str], values: object) -> None:
    assert parse_values(pairs) == values


def test_limits_are_read_and_the_rest_keeps_its_default() -> None:
    limits = parse_limits(["max_rows=5", "max_fraction=0.5"])
    assert limits == SafetyLimits(max_rows=5, max_fraction=0.5)
    assert parse_limits(["max_rows=null"]) == SafetyLimits()


def test_metadata_is_text_whatever_it_looks_like() -> None:
    assert parse_metadata(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}


def test_choice_is_one_of_the_words() -> None:
    assert parse_choice("stale", ("helpful", "stale"), "signal") == "stale"


@pytest.mark.parametrize("text", ["soonish", "2026-01-31", "", "1769860800", "2026-02-30T00:00Z"])
def test_moment_that_is_none_is_refused(now: datetime, text: str) -> None:
    with pytest.raises(AdmissionError, match=r"^--now: not an instant"):
        parse_moment(text, now)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "tenant/principal/scope"),
        ("t", "tenant/principal/scope"),
        ("t/p/s/", "tenant/principal/scope"),
        ("//", "tenant must not be blank"),
        ("t/ /s", "principal must not be blank"),
        ("t/p/\u00a0", "scope must not be blank"),
        ("t/p/a\tb", "scope must not contain control characters"),
        ("t/p/" + "x" * 257, "scope must be at most 256 bytes, has 257"),
        ("t/p/\udcff", "scope must not contain a lone surrogate"),
    ],
)
def test_selector_that_is_none_is_refused_with_the_part(text: str, reason: str) -> None:
    with pytest.raises(AdmissionError, match=f"^--namespace: .*{reason}"):
        parse_selector(text)


@pytest.mark.parametrize("pairs", [["max_age_days"], ["=5"], [""], ["a=1", "a.b=2"]])
def test_values_that_are_no_pairs_are_refused(pairs: list[str]) -> None:
    with pytest.raises(AdmissionError, match=r"^--set: "):
        parse_values(pairs)


@pytest.mark.parametrize(
    ("pair", "field"),
    [
        ("max_rows=-1", "--limit max_rows"),
        ("max_rows=many", "--limit max_rows"),
        ("max_rows=true", "--limit max_rows"),
        ("max_fraction=NaN", "--limit max_fraction"),
        ("max_fraction=1.5", "--limit max_fraction"),
        ("max_fraction=0", "--limit max_fraction"),
        ("most=1", "--limit most"),
        ("max_rows.most=1", "--limit max_rows"),
        ("max_rows", "--limit"),
    ],
)
def test_limit_out_of_bounds_is_refused_by_name(pair: str, field: str) -> None:
    with pytest.raises(AdmissionError) as refused:
        parse_limits([pair])
    assert refused.value.field == field


@pytest.mark.parametrize("pair", ["kind", "=kind", ""])
def test_metadata_that_is_no_pair_is_refused(pair: str) -> None:
    with pytest.raises(AdmissionError, match=r"^--metadata: must be KEY=TEXT"):
        parse_metadata([pair])


@pytest.mark.parametrize("word", ["", "Helpful", "helpful ", "best"])
def test_word_that_is_no_choice_is_refused_with_the_choices(word: str) -> None:
    with pytest.raises(AdmissionError, match=r"^signal: must be one of helpful, stale"):
        parse_choice(word, ("helpful", "stale"), "signal")


@pytest.mark.parametrize(
    ("given", "hoisted"),
    [
        ("status --json", "--json status"),
        ("--json status", "--json status"),
        ("runs --rows 3 --store s --json", "--store s --json runs --rows 3"),
        ("runs --store=s", "--store=s runs"),
        ("--store s runs", "--store s runs"),
        ("add --json -- --json --store", "--json add -- --json --store"),
        ("runs --store", "runs --store"),
        ("", ""),
    ],
)
def test_store_and_json_may_stand_after_the_verb(given: str, hoisted: str) -> None:
    assert hoist_globals(given.split()) == hoisted.split()
