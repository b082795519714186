"""The normal form, and each guard by itself: what it counts, what it leaves alone."""

from collections import Counter

import pytest
from helpers.consolidation import Json, cases

from storage.fingerprints import fingerprint, key_of
from tasks.rules.figures import find_figures, has_date
from tasks.rules.guards import has_equal_meaning_signs
from tasks.rules.keys import figure_key, polarity_key, slot_key
from tasks.rules.marks import find_marks
from tasks.rules.names import find_capitals, find_difference, has_other_order
from tasks.rules.normal_form import normal_form
from tasks.rules.polarity import (
    count_negations,
    count_prefixed,
    find_opposed,
    find_qualifiers,
    find_sides,
)

_GUARDS = {"figures", "marks"}


def test_each_letter_is_lowered_on_its_own() -> None:
    assert fingerprint("ΟΔΟΣ ΟΔΟΣ ΟΔΟΣ ΟΔΟΣ ΟΔΟΣ") == "οδοσ οδοσ οδοσ οδοσ οδοσ"


def test_short_contents_share_no_key() -> None:
    assert key_of("ok") == key_of("done!") == 0
    assert key_of("a" * 24) == key_of(" " + "A" * 24 + "!") != 0


@cases("pair_v2")
def test_store_api_keeps_apart_what_the_vector_says(case: Json) -> None:
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


@pytest.mark.parametrize(
    ("figure", "is_date"),
    [
        ("2026-09-01", True),
        ("2026-09-30t01:02z", True),
        ("7:45", True),
        ("24/12/2026", True),
        ("24.12.26", True),
        ("1999", True),
        ("3 月", True),
        ("30 秒", False),
        ("2100", False),
        ("12026-09", False),
        ("1.2.3", False),
        ("24/12.2026", False),
        ("v1.10", False),
    ],
)
def test_dates(figure: str, is_date: bool) -> None:
    assert has_date(["10 ms", figure]) == is_date


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("Isn\u2019t it? Nope, NOT", 2, id="contraction-and-word"),
        pytest.param("knots, nothingness", 0, id="parts-of-words"),
        pytest.param("dont forget, don't hesitate, no doubt", 0, id="idioms"),
        pytest.param("no doubts", 1, id="idiom-that-goes-on"),
        pytest.param("no.5, No. 5, no.  5", 1, id="number-sign"),
        pytest.param("whether or not only", 0, id="longest-idiom-first"),
        pytest.param("在not之前", 1, id="cjk-separates-words"),
        pytest.param("不得不去 不去", 1, id="exception-and-negation"),
        pytest.param("못 안가", 1, id="whole-hangul-runs-only"),
    ],
)
def test_negations(text: str, count: int) -> None:
    assert count_negations(text) == count


def test_negations_without_the_forms_of_a_pair() -> None:
    text = "Never disabled, not 無効 不"
    assert count_negations(text) == 5
    pairs = ("enable_disable", "ja_enable_disable", "always_never")
    assert count_negations(text, without=pairs) == 2


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        pytest.param("on", "off", {"on_off"}, id="one-each"),
        pytest.param("on off", "off on", set(), id="both-sides-in-both"),
        pytest.param("on on off", "on off off", {"on_off"}, id="more-of-one-side"),
        pytest.param("on", "never", set(), id="sides-of-two-pairs"),
        pytest.param("on", "", set(), id="on-one-side-only"),
        pytest.param("활성화", "비활성화", {"ko_enable_disable"}, id="longest-form-first"),
        pytest.param("read up", "write down", {"read_write", "up_down"}, id="two-pairs"),
    ],
)
def test_opposed_antonyms(left: str, right: str, pairs: set[str]) -> None:
    assert find_opposed(find_sides(left), find_sides(right)) == pairs
    assert find_opposed(find_sides(right), find_sides(left)) == pairs


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [
        pytest.param("safe", "unsafe", 1, id="prefix"),
        pytest.param("fit", "unfit", 0, id="stem-of-three"),
        pytest.param("safe unsafe", "unsafe", 0, id="stem-in-both-or-neither"),
        pytest.param("stable insecure", "unstable secure", 2, id="one-each-way"),
        pytest.param("safe", "resafe", 0, id="no-listed-prefix"),
    ],
)
def test_prefix_antonyms(left: str, right: str, count: int) -> None:
    assert count_prefixed(left.split(), right.split()) == count
    assert count_prefixed(right.split(), left.split()) == count


def test_qualifiers() -> None:
    assert find_qualifiers("Only if you can, can't; 必須 仅 canny") == [
        "can",
        "if",
        "only",
        "仅",
        "必須",
    ]


@pytest.mark.parametrize(
    ("text", "units", "inner"),
    [
        pytest.param("Ann met Bea. Then HQ called", "ann bea then hq", "bea hq", id="sentences"),
        pytest.param("iPhone by McX", "mcx", "mcx", id="capital-within-a-word"),
        pytest.param("ALL IN CAPITALS", "", "", id="nothing-in-small-letters"),
        pytest.param("OK then: Berlin\nOslo", "ok berlin oslo", "ok", id="after-sign-or-break"),
        pytest.param("我在Berlin和Oslo go", "berlin oslo", "berlin oslo", id="between-cjk"),
        pytest.param("\u1ecc\u0300\u1e63un river", "\u1ecd\u0300\u1e63un", "", id="with-marks"),
    ],
)
def test_capitals(text: str, units: str, inner: str) -> None:
    found = find_capitals(text)
    assert (set(found.units), set(found.inner)) == (set(units.split()), set(inner.split()))


@pytest.mark.parametrize(
    ("left", "right", "ours", "theirs"),
    [
        pytest.param("job box", "jobs boxes", "", "", id="plurals"),
        pytest.param("as", "ass", "as", "ass", id="short-stem"),
        pytest.param("job", "jobs jobs", "", "jobs", id="one-to-one"),
        pytest.param("job v1", "job v2 x9", "", "", id="numbers"),
        pytest.param("a b b", "a b c", "b", "c", id="repeats"),
    ],
)
def test_difference(left: str, right: str, ours: str, theirs: str) -> None:
    found = find_difference(left.split(), right.split())
    assert tuple(map(sorted, found)) == (sorted(ours.split()), sorted(theirs.split()))
    assert find_difference(right.split(), left.split()) == (found.theirs, found.ours)


@pytest.mark.parametrize(
    ("left", "right", "is_other"),
    [
        pytest.param("a b c", "a x b c y", False, id="insertions"),
        pytest.param("a b c", "a c b", True, id="exchanged"),
        pytest.param("a b a", "a b", False, id="repeat-left-out"),
        pytest.param("a b", "b x a", True, id="subsequence-of-the-longer"),
    ],
)
def test_order(left: str, right: str, is_other: bool) -> None:
    assert has_other_order(left.split(), right.split()) == is_other
    assert has_other_order(right.split(), left.split()) == is_other


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param("The gate is Enabled", "gate is ENABLEDISABLE", id="antonym-and-article"),
        pytest.param("Deploys never stop here", "deploys STARTSTOP here", id="never-is-dropped"),
        pytest.param("It can't and won't run", "it can and will run", id="modals"),
        pytest.param("It doesn't and isnt cold", "it and is cold", id="do-and-contractions"),
        pytest.param("no way out", None, id="two-entries"),
        pytest.param("我不允许不断", "我 ZHALLOWDENY 不 断", id="cjk"),
        pytest.param("안 간다 오늘", "간 다 오 늘", id="hangul-negator"),
    ],
)
def test_polarity_key(text: str, key: str | None) -> None:
    assert polarity_key(text) == key


@pytest.mark.parametrize(
    ("units", "key"),
    [
        pytest.param("wait 10 ms for it", "wait # for it", id="unit-word"),
        pytest.param("wait for v1 2 3", None, id="two-words"),
        pytest.param("wait for it v1 2 3", "wait for it #", id="adjacent-numbers"),
        pytest.param("wait for it", None, id="no-number"),
        pytest.param("ms for it 3", "ms for it #", id="unit-word-elsewhere"),
    ],
)
def test_figure_key(units: str, key: str | None) -> None:
    assert figure_key(units.split()) == key


def test_slot_key() -> None:
    assert slot_key(["acme", "hq", "is", "in", "oslo"]) == "acme hq is in"
    assert slot_key(["hq", "is", "in", "oslo"]) is None
    assert slot_key(["acme", "hq", "is", "in", "b2"]) is None
    assert slot_key(["x"] * 64) is not None
    assert slot_key(["x"] * 65) is None
