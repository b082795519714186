"""The word lists ``memtend.lists.v1``, data of the package, and patterns made of them.

A change of any list is a new version. Source: spec/consolidate.md 2.
"""

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import TypedDict


class Antonyms(TypedDict):
    """Forms that mean the opposite of one another."""

    id: str
    a: list[str]
    b: list[str]


class Lists(TypedDict):
    """The lists by name."""

    version: str
    v1_stopwords: list[str]
    v1_negations: list[str]
    cjk_ranges: list[str]
    articles: list[str]
    neg_words: list[str]
    neg_bare_contractions: list[str]
    neg_idioms: list[str]
    neg_cjk: list[str]
    neg_cjk_exceptions: list[str]
    neg_hangul_standalone: list[str]
    antonyms: list[Antonyms]
    antonym_dropped_in_key: list[str]
    antonym_prefixes: list[str]
    qualifiers: list[str]
    qualifiers_cjk: list[str]
    marks_ignored: list[str]
    units: dict[str, list[str]]
    list_keys: list[str]
    reserved_keys: list[str]
    kind_strength: dict[str, int]
    guard_order: list[str]
    modal_contractions: dict[str, str]


def read_class(ranges: Iterable[str]) -> str:
    """Read ``A-B`` in hexadecimal as the inside of a character class."""
    ends = (text.split("-") for text in ranges)
    return "".join(f"{chr(int(first, 16))}-{chr(int(last, 16))}" for first, last in ends)


def any_of(forms: Iterable[str]) -> str:
    """Give a pattern for any of these texts, the longest that fits."""
    return "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))


LISTS: Lists = json.loads(files("tasks").joinpath("data/lists.json").read_text(encoding="utf-8"))
CJK = read_class(LISTS["cjk_ranges"])
ARTICLES = frozenset(LISTS["articles"])
SHORT_UNITS = {form: short for short, forms in LISTS["units"].items() for form in forms}
