"""Lexical profiles, coverage and the V1 match do what the recall vectors and plain code say."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.encoding import format_f32
from storage.lexical import (
    WORD_CJK_BIGRAM_V1,
    WORD_V1,
    coverage,
    find_sure_terms,
    is_alphanumeric,
    is_searchable,
    tokenize,
)
from storage.matching import match_strength, match_terms, relevance

Case = Mapping[str, Any]
_FILE = json.loads(
    (Path(__file__).parent.parent / "vectors" / "recall-vectors.json").read_text(encoding="utf-8")
)
_DAY_S = 86_400
_CLOSE = 2e-6  # the vectors are rounded to six digits
_CODES = range(0x110000)
_AFTER_LETTERS = 0x33000
# Latin, digits, marks that isalnum() misses, CJK letters, CJK signs that are no letters, blanks.
_CHARACTERS = "aBzß09_-./ \n'éΣİ\u0301\u200dिⒶ数库人々テー・゛〇한１ｱ\U00020000🙂"
_texts = st.text(st.sampled_from(_CHARACTERS), max_size=24) | st.text(max_size=12)


def each(kind: str) -> pytest.MarkDecorator:
    """Parametrise a test over the vectors of one type, which must exist."""
    cases = [pytest.param(case, id=case["id"]) for case in _FILE["cases"] if case["type"] == kind]
    assert cases
    return pytest.mark.parametrize("case", cases)


def read_ranges(text: str) -> frozenset[str]:
    """Read the characters of a table of the vector file."""
    found = set()
    for item in text.split(","):
        first, _, last = item.partition("-")
        found |= {chr(code) for code in range(int(first, 16), int(last or first, 16) + 1)}
    return frozenset(found)


EXTRA = read_ranges(_FILE["alphabetic_extra"]["ranges"])
CJK = read_ranges(_FILE["cjk_ranges"])


def scan_words(text: str) -> set[str]:
    """Split as R4 says, character by character."""
    words, word = set(), ""
    for character in text.lower() + " ":
        if character.isalnum() or character in EXTRA:
            word += character
        else:
            words.add(word)
            word = ""
    return words - {""}


def scan_bigrams(text: str) -> set[str]:
    """Split as R5 says, character by character."""
    terms, word, run = set(), "", ""
    for character in text.lower() + " ":
        if character in CJK:
            terms.add(word)
            word, run = "", run + character
            continue
        terms |= {run} | {run[at : at + 2] for at in range(len(run) - 1)}
        run = ""
        if character.isalnum() or character in EXTRA:
            word += character
        else:
            terms.add(word)
            word = ""
    return terms - {""}


@cache
def every_character() -> tuple[str, ...]:
    """Give all of Unicode."""
    return tuple(map(chr, _CODES))


@each("tokens")
def test_tokens_equal_the_vector(case: Case) -> None:
    text, expected = case["inputs"]["text"], case["expected"]
    for profile in (WORD_V1, WORD_CJK_BIGRAM_V1):
        assert sorted(tokenize(text, profile)) == sorted(expected[profile])
    assert is_searchable(text) is expected["searchable"]


@each("coverage")
def test_coverage_equals_the_vector(case: Case) -> None:
    for profile, expected in case["expected"].items():
        query = tokenize(case["inputs"]["query"], profile)
        content = tokenize(case["inputs"]["content"], profile)
        assert (len(query & content), len(query)) == (expected["matched"], expected["terms"])
        assert format_f32(coverage(query, content)) == expected["score"]


@each("v1_match")
def test_match_strength_equals_the_vector(case: Case) -> None:
    expected = case["expected"]
    assert list(match_terms(case["inputs"]["query"])) == expected["terms"]
    strength = match_strength(**case["inputs"])
    assert strength == pytest.approx(expected["strength"], abs=_CLOSE)


@each("relevance")
def test_relevance_equals_the_vector(case: Case) -> None:
    inputs = dict(case["inputs"])
    age_days = inputs.pop("age_seconds") / _DAY_S
    found = relevance(inputs.pop("importance"), age_days, **inputs)
    assert found == pytest.approx(case["expected"], abs=_CLOSE)


def test_the_shipped_table_is_that_of_the_spec() -> None:
    text = files("storage").joinpath("data/alphabetic_extra.txt").read_text(encoding="utf-8")
    joined = "".join(text.split())
    digest = "sha256:" + hashlib.sha256(joined.encode()).hexdigest()
    assert digest == _FILE["alphabetic_extra"]["sha256"]
    assert len(read_ranges(joined)) == _FILE["alphabetic_extra"]["count"]


def test_alphanumeric_is_isalnum_and_the_table() -> None:
    found = {character for character in every_character() if is_alphanumeric(character)}
    assert found == EXTRA | set(filter(str.isalnum, every_character()))
    assert not any(map(str.isalnum, EXTRA))


def test_every_character_alone_gives_the_terms_of_the_scan() -> None:
    for character in every_character()[:_AFTER_LETTERS]:
        assert tokenize(character) == scan_bigrams(character)
        assert tokenize(character, WORD_V1) == scan_words(character)


@given(_texts)
@example("aΣ ΑΣ")
@example("a数b库・库 数・数")
def test_terms_equal_the_scan(text: str) -> None:
    assert tokenize(text, WORD_V1) == scan_words(text)
    assert tokenize(text) == scan_bigrams(text)
    assert is_searchable(text) is bool(scan_words(text))


@given(_texts, _texts)
@example("・数・", "数")
@example("数据・库", "数据")
def test_sure_terms_miss_no_content(content: str, query: str) -> None:
    words = tokenize(query, WORD_V1)
    sure = find_sure_terms(words)
    if sure is not None and words & tokenize(content, WORD_V1):
        assert sure & tokenize(content)


def test_a_lone_cjk_character_has_no_sure_term() -> None:
    assert find_sure_terms(tokenize("port 数", WORD_V1)) is None
    assert find_sure_terms(tokenize("数据库x", WORD_V1)) == frozenset({"数据"})


def test_a_sign_of_a_cjk_block_is_a_term_and_no_query() -> None:
    assert tokenize("・") == {"・"}
    assert not is_searchable("・")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="no such lexical profile"):
        tokenize("x", "a3s.memory.lexical.unknown.v1")


def test_coverage_of_no_terms_is_none() -> None:
    assert coverage(frozenset(), frozenset({"a"})) == 0.0


@pytest.mark.parametrize("query", ["", " \n\t", "\u3000"])
def test_a_blank_query_matches_everything_without_strength(query: str) -> None:
    assert match_strength(query, "anything", ["x"], "episodic") == 0.0
