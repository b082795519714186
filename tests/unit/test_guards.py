"""Fingerprints, the normal form and the two guards against the consolidation vectors."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from storage.fingerprints import fingerprint, key_of
from tasks.rules.guards import find_figures, find_marks, has_equal_meaning_signs
from tasks.rules.normal_form import normal_form

Json = dict[str, Any]
_FILE = Path(__file__).parent.parent / "vectors" / "consolidate-vectors.json"
_ALL: list[Json] = json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
_GUARDS = {"figures", "marks"}


def _cases(op: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in _ALL if case["op"] == op]


@pytest.mark.parametrize("case", _cases("fp_v1"))
def test_fingerprint_is_that_of_the_vector(case: Json) -> None:
    assert fingerprint(case["input"]["text"]) == case["expect"]["fingerprint"]


def test_each_letter_is_lowered_on_its_own() -> None:
    assert fingerprint("ΟΔΟΣ ΟΔΟΣ ΟΔΟΣ ΟΔΟΣ ΟΔΟΣ") == "οδοσ οδοσ οδοσ οδοσ οδοσ"


def test_short_contents_share_no_key() -> None:
    assert key_of("ok") == key_of("done!") == 0
    assert key_of("a" * 24) == key_of(" " + "A" * 24 + "!") != 0


@pytest.mark.parametrize("case", _cases("figures"))
def test_figures_are_those_of_the_vector(case: Json) -> None:
    assert find_figures(case["input"]["text"]) == case["expect"]["figures"]


@pytest.mark.parametrize("case", _cases("pair_v2"))
def test_guards_fire_where_the_vector_says(case: Json) -> None:
    left, right = case["input"]["a"], case["input"]["b"]
    fired = set()
    if Counter(find_figures(left)) != Counter(find_figures(right)):
        fired.add("figures")
    if find_marks(left) != find_marks(right):
        fired.add("marks")
    if case["expect"]["result"] == "exact" or "reasons" in case["expect"]:
        assert fired == _GUARDS & set(case["expect"].get("reasons", ()))
    assert has_equal_meaning_signs(left, right) == (not fired)


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        pytest.param("C# and # 4", {"#": 1}, id="hash-after-a-word"),
        pytest.param("!ready, stop! a!=b", {"!": 2, "=": 1}, id="bang-before-a-word-or-equals"),
        pytest.param("what? really??", {"?": 1}, id="one-question"),
        pytest.param("a | b © ─ ™", {}, id="ignored"),
        pytest.param("Straße", {"ß": 1}, id="sharp-s"),
        pytest.param("5 € + 3", {"€": 1, "+": 1}, id="symbols"),
    ],
)
def test_marks(text: str, marks: dict[str, int]) -> None:
    assert find_marks(text) == marks


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        pytest.param("5 m/s and 5m", ["5 m", "5 m"], id="unit-ends-at-a-slash"),
        pytest.param("10, ms", ["10"], id="unit-after-a-comma"),
        pytest.param("10  ms", ["10"], id="unit-after-two-spaces"),
        pytest.param("10 msgs", ["10"], id="unit-that-goes-on"),
        pytest.param("₹5 and 5 $", ["₹5", "5 usd"], id="currencies"),
        pytest.param("--5 a-5 +5", ["-5", "a-5", "+5"], id="signs"),
        pytest.param("half ½", ["½"], id="numbers-that-are-no-digits"),
    ],
)
def test_figures(text: str, figures: list[str]) -> None:
    assert find_figures(text) == figures


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("1,234,567.50", "1234567.50", id="commas"),
        pytest.param("1'000 and 1_000", "1000 and 1000", id="apostrophe-and-underscore"),
        pytest.param("1,23 0,001 x1,000 1,0000", "1,23 0,001 x1,000 1,0000", id="no-thousands"),
        pytest.param("1,234'567", "1,234'567", id="two-separators"),
        pytest.param("\uff11\uff12 \u0663", "12 3", id="digits-of-other-scripts"),
        pytest.param("it\u2019s \u22125\u200b", "it's -5", id="apostrophe-minus-invisible"),
        pytest.param("Cafe\u0301 STRASSE Stra\u00dfe", "caf\u00e9 strasse strasse", id="case"),
    ],
)
def test_normal_form(text: str, plain: str) -> None:
    assert normal_form(text) == plain
