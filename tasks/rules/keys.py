"""Keys that texts share which say the same thing otherwise: conflicts are looked for among them.

A key is its entries joined by spaces, or None where a text has too few. Source:
spec/consolidate.md R33.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from tasks.rules.lists import ARTICLES, LISTS, SHORT_UNITS, any_of
from tasks.rules.normal_form import normal_form
from tasks.rules.polarity import BARE_CONTRACTIONS, CJK_ANTONYMS, SIDES, STANDALONE, is_negator
from tasks.rules.tokens import WORD, has_number, list_units, split_runs

NUMBER = "#"
_FEWEST = 3
_SLOT_UNITS = range(5, 65)
_DROPPED_PAIRS = frozenset(LISTS["antonym_dropped_in_key"])
_MODALS = LISTS["modal_contractions"]
_DO = frozenset({"do", "does", "did"})
_CJK_FORM = re.compile(any_of({*LISTS["neg_cjk_exceptions"], *CJK_ANTONYMS, *LISTS["neg_cjk"]}))
_CJK_EXCEPTIONS = frozenset(LISTS["neg_cjk_exceptions"])


def polarity_key(text: str) -> str | None:
    """Give the key of texts that differ in negations and antonyms only."""
    plain = WORD.sub(lambda word: _rewrite_word(word[0]), normal_form(text))
    runs = split_runs(_CJK_FORM.sub(lambda form: _rewrite_cjk(form[0]), plain))
    units = list_units(run for run in runs if run not in STANDALONE)
    entries = [unit for unit in units if unit not in ARTICLES]
    return " ".join(entries) if len(entries) >= _FEWEST else None


def figure_key(units: Sequence[str]) -> str | None:
    """Give the key of texts that differ in figures only; None for a text without any.

    Args:
        units: Without articles.
    """
    entries: list[str] = []
    for unit in units:
        entry = NUMBER if has_number(unit) else unit
        if entries[-1:] != [NUMBER] or not (entry == NUMBER or entry in SHORT_UNITS):
            entries.append(entry)
    words = len(entries) - entries.count(NUMBER)
    return " ".join(entries) if NUMBER in entries and words >= _FEWEST else None


def slot_key(units: Sequence[str]) -> str | None:
    """Give the key of texts that differ in their last unit only.

    Args:
        units: Without articles.
    """
    if len(units) not in _SLOT_UNITS or has_number(units[-1]):
        return None
    return " ".join(units[:-1])


@lru_cache(maxsize=65_536)
def _rewrite_word(word: str) -> str:
    if word in SIDES:
        return _mark(word)
    if word in _MODALS:
        return _MODALS[word]
    stem = word
    if word.endswith("n't"):
        stem = word[: -len("n't")]
    elif word in BARE_CONTRACTIONS:
        stem = word[: -len("nt")]
    return "" if stem in _DO or (stem == word and is_negator(word)) else stem


def _rewrite_cjk(form: str) -> str:
    if form in _CJK_EXCEPTIONS:
        return form
    return _mark(form) if form in SIDES else ""


def _mark(form: str) -> str:
    """Write the pair of an antonym; capitals are in no normal form, so it is never a word."""
    pair_id = SIDES[form][0].pair_id
    return "" if pair_id in _DROPPED_PAIRS else f" {pair_id.upper().replace('_', '')} "
