"""The V1 search score: how well an item matches a query, and how relevant it is by itself.

Pure functions. Phrases and terms are found as substrings of lowered text. Source: spec/recall.md
R22, R23.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from storage.lexical import is_alphanumeric, make_splitter

_IN_TERMS = frozenset("/\\_-.:@")
_MIN_TERM = 2
_PHRASE = 1.25
_IN_CONTENT = 0.35
_IN_TAG = 0.55
_IN_KIND = 0.20


class _Query(NamedTuple):
    phrase: str
    terms: tuple[str, ...]
    is_blank: bool


_split_terms = make_splitter(lambda character: character in _IN_TERMS or is_alphanumeric(character))


def match_terms(query: str) -> tuple[str, ...]:
    """Give the terms of a query: sorted, each once, at least two characters long."""
    return tuple(sorted({term for term in _split_terms(query.lower()) if len(term) >= _MIN_TERM}))


@lru_cache(maxsize=16)
def _read_query(query: str) -> _Query:
    return _Query(query.lower(), match_terms(query), is_blank=not query.strip())


def match_strength(query: str, content: str, tags: Iterable[str], kind: str) -> float | None:
    """Give the strength of a match; None is no hit, and a blank query matches everything at 0.0.

    Args:
        query: As the caller wrote it; its phrase is not trimmed.
        content: The item's text.
        tags: The item's tags.
        kind: The item's kind, one lower-case word.
    """
    phrase, terms, is_blank = _read_query(query)
    if is_blank:
        return 0.0
    lowered = content.lower()
    lowered_tags = [tag.lower() for tag in tags]
    total = _PHRASE if phrase in lowered else 0.0
    matched = 0
    for term in terms:
        weight = _weigh(term, lowered, lowered_tags, kind)
        total += weight
        matched += weight > 0
    if total == 0:
        return None
    return total + matched / len(terms) if terms else total


def _weigh(term: str, content: str, tags: Iterable[str], kind: str) -> float:
    weight = _IN_CONTENT if term in content else 0.0
    if any(term in tag for tag in tags):
        weight += _IN_TAG
    if term in kind:
        weight += _IN_KIND
    return weight


def relevance(
    importance: float,
    age_days: float,
    *,
    decay_days: float = 30.0,
    importance_weight: float = 0.7,
    recency_weight: float = 0.3,
) -> float:
    """Give importance and recency as one number, in the order of operations of spec/prune.md R8.

    Args:
        importance: As stored.
        age_days: Time from the age clock to now; below 0 it counts as 0.
        decay_days: The time in which recency falls to 1/e; no half-life.
        importance_weight: The share of importance.
        recency_weight: The share of recency.
    """
    recency = math.exp(-max(age_days, 0.0) / decay_days)
    return importance * importance_weight + recency * recency_weight
