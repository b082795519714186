"""Verdicts on pairs beyond the vectors: conflict classes at their edges, and random texts."""

import unicodedata
from dataclasses import replace

import pytest
from helpers.consolidation import load_consolidation
from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage.models import Kind
from tasks.rules.conflicts import ConflictClass, find_series
from tasks.rules.normal_form import normal_form, without_invisible
from tasks.rules.pairs import PairResult, PairVerdict, judge_pair, reaches_overlap
from tasks.rules.prepared import Prepared, prepare
from tasks.rules.seed_profile import judge_seed_pair, read_seed_text
from tasks.rules.tokens import fingerprint

_LISTS = load_consolidation()["lists"]
_WORDS = st.sampled_from(
    [
        *(
            "ledger",
            "Ledger",
            "ledgers",
            "HQ",
            "Oslo",
            "in",
            "the",
            "a",
            "job",
            "stable",
            "unstable",
        ),
        *(
            "10",
            "50",
            "ms",
            "2026-09-01",
            "v1.2.3",
            "10,000",
            "$5",
            "!",
            "?",
            ".",
            "C++",
            "ß",
            "👍",
        ),
        *("not", "don't", "cannot", "no.", "on", "off", "always", "Never", "only", "n't", "'"),
        *(
            "允许",
            "不允许",
            "禁止",
            "不断",
            "部署",
            "3000秒",
            "無効",
            "안",
            "\u200b",
            "\u0301",
            "\ud800",
        ),
        *_LISTS["neg_idioms"][:4],
    ]
)
_TEXTS = st.one_of(
    st.lists(_WORDS, max_size=12).map(" ".join),
    st.lists(_WORDS, max_size=6).map("".join),
    st.text(max_size=40),
)
_KINDS = st.sampled_from(list(Kind))
_FEW = settings(max_examples=300, derandomize=True, database=None, deadline=None)


def prepared(content: str, kind: str = Kind.SEMANTIC, slot: str | None = None) -> Prepared:
    return prepare(content, kind=kind, namespace_id=1, declared_slot=slot)


def judge(left: str, right: str, kind: str = Kind.SEMANTIC) -> PairVerdict:
    return judge_pair(prepared(left, kind), prepared(right, kind))


@_FEW
@example("Don't", "don t", Kind.SEMANTIC, Kind.SEMANTIC)
@example("jobs jobes", "job job", Kind.SEMANTIC, Kind.SEMANTIC)
@given(_TEXTS, _TEXTS, _KINDS, _KINDS)
def test_any_two_texts_are_judged_alike_in_either_order(
    left: str, right: str, left_kind: Kind, right_kind: Kind
) -> None:
    one, other = prepared(left, left_kind), prepared(right, right_kind)
    verdict = judge_pair(one, other)
    assert verdict == judge_pair(other, one)
    assert 0 <= verdict.shared <= verdict.union
    assert (verdict.conflict_class is None) == (verdict.result != PairResult.CONFLICT)
    if verdict.result == PairResult.EXACT:
        assert one.fingerprint == other.fingerprint
    if verdict.result == PairResult.NEAR:
        assert one.kind == other.kind
        assert reaches_overlap(verdict.shared, verdict.union)
        assert not verdict.reasons


@_FEW
@given(_TEXTS)
def test_a_text_is_exact_with_itself_or_equals_nothing(text: str) -> None:
    verdict = judge(text, text)
    expected = PairResult.EXACT if fingerprint(text) else PairResult.NONE
    assert verdict.result == expected


@_FEW
@given(_TEXTS)
def test_invisible_characters_and_composition_change_nothing(text: str) -> None:
    bare = without_invisible(text)
    spelt = unicodedata.normalize("NFD", bare)
    same = replace(prepared(spelt), content=bare)
    assert same == replace(prepared(unicodedata.normalize("NFC", bare)), content=bare)
    assert normal_form(f"\u200b{text}\u200b") == normal_form(text)


@_FEW
@given(_TEXTS, _TEXTS, _KINDS, _KINDS)
def test_seed_profile_judges_alike_in_either_order(
    left: str, right: str, left_kind: Kind, right_kind: Kind
) -> None:
    one, other = read_seed_text(left, left_kind), read_seed_text(right, right_kind)
    assert judge_seed_pair(one, other) == judge_seed_pair(other, one)


def test_exact_needs_no_equal_kind_but_an_equal_namespace() -> None:
    one = prepared("ok")
    assert judge_pair(one, prepared("OK", Kind.WORKING)).result == PairResult.EXACT
    assert judge_pair(one, replace(one, namespace_id=2)).reasons == ("namespace",)


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        pytest.param("Gate is not enabled", "Gate is disabled", None, id="two-flips"),
        pytest.param("Gate isn't disabled", "Gate is enabled", None, id="denied-antonym"),
        pytest.param("Gate is not open", "Gate is open", "polarity", id="key-of-three"),
        pytest.param("It does not start", "It starts", None, id="key-too-short"),
        pytest.param("Retry after 10 ms today", "Retry after 20 s today", "figures", id="units"),
        pytest.param("Do retry 10 times", "Never retry 20 times", None, id="figures-and-polarity"),
        pytest.param("Acme HQ is in ports", "Acme HQ is in port", None, id="slot-in-plural"),
        pytest.param("Acme is in Oslo", "Acme is in Bergen", None, id="slot-of-four"),
        pytest.param("Acme HQ is in the Oslo", "Acme HQ is in Oslo", None, id="article-only"),
        pytest.param("Acme HQ is at 5 Main", "Acme HQ is at -5 Side", None, id="slot-and-figures"),
    ],
)
def test_conflict_class(left: str, right: str, found: str | None) -> None:
    assert judge(left, right).conflict_class == found


@pytest.mark.parametrize(
    ("figures", "kind", "found"),
    [
        (("2026-09-01", "2026-09-02"), Kind.EPISODIC, None),
        (("2026-09-01", "2026-09-02"), Kind.PROCEDURAL, "figures"),
        (("7:45", "8:45"), Kind.WORKING, None),
        (("12", "13"), Kind.EPISODIC, "figures"),
    ],
)
def test_dates_of_fleeting_memories_do_not_conflict(
    figures: tuple[str, str], kind: Kind, found: str | None
) -> None:
    left, right = (f"Stand-up notes of {figure} were green" for figure in figures)
    assert judge(left, right, kind).conflict_class == found
    mixed = judge_pair(prepared(left, kind), prepared(right))
    assert mixed.conflict_class == found


def test_declared_slots_conflict_when_fingerprints_differ() -> None:
    one, other = prepared("Tea, please", slot="drink"), prepared("Coffee!", slot="drink")
    verdict = judge_pair(one, other)
    assert verdict.conflict_class == ConflictClass.DECLARED
    assert verdict.reasons == ("names", "substitution")
    assert judge_pair(one, prepared("tea please", slot="drink")).result == PairResult.EXACT
    assert judge_pair(one, prepared("Coffee!", slot="food")).conflict_class is None
    blank = prepared("Tea", slot=" "), prepared("Coffee", slot=" ")
    assert judge_pair(*blank).conflict_class is None


@pytest.mark.parametrize("count", [4, 5])
def test_series_of_every_class(count: int) -> None:
    places = ("Oslo", "Bergen", "Paris", "Rome", "Lima")[:count]
    rows = [
        *(prepared(f"Acme HQ is in {place}") for place in (*places, "oslo")),
        *(prepared(f"Ticket {number} was closed today") for number in range(count)),
        *(prepared(place, slot="home") for place in places),
    ]
    classes = {key.conflict_class for key in find_series(rows)}
    assert classes == ({"figures", "slot", "declared"} if count == 5 else set())


@pytest.mark.parametrize(
    ("shared", "union", "reaches"), [(43, 50, True), (42, 49, False), (6, 7, False), (13, 15, True)]
)
def test_overlap_is_judged_in_integers(shared: int, union: int, reaches: bool) -> None:
    assert reaches_overlap(shared, union) == reaches
