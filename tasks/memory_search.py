"""Rank the visible memories of a namespace for the store API: match strength and relevance.

Source: spec/recall.md R22-R24, R26.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from heapq import nsmallest
from typing import NamedTuple

from storage import StoreReader
from storage.instants import epoch_us
from storage.items import Facts, Text, read_facts, read_tagged, read_texts
from storage.matching import match_strength, match_terms, relevance

_DAY_US = 86_400_000_000


class Ranked(NamedTuple):
    """One memory of a ranking; `score` is the sum of the two parts."""

    memory_id: str
    revision: int
    strength: float
    relevance: float
    score: float


# Ordered as they are served: score and creation negated, then id; revision, strength, relevance.
_Place = tuple[float, int, str, int, float, float]


def rank_matches(
    reader: StoreReader, namespace_id: int, query: str, limit: int, *, now: datetime
) -> list[Ranked]:
    """Rank the memories that match a text; a blank one matches all of them.

    Args:
        reader: An open handle; nothing is written.
        namespace_id: The only namespace that is read.
        query: As the caller wrote it.
        limit: The most memories to give.
        now: Decides what has expired, and how old a memory is.

    Returns:
        The best first; of equal scores the newer first, then by id.
    """
    now_us = epoch_us(now)
    if not query.strip():
        facts = read_facts(reader, namespace_id, now=now)
        return _best((_rank(one, 0.0, now_us) for one in facts), limit)
    texts = read_texts(reader, namespace_id, match_terms(query), now=now)
    matches = ((one, _match(query, one)) for one in texts)
    hits = (_rank(one, strength, now_us) for one, strength in matches if strength is not None)
    return _best(hits, limit)


def rank_tagged(
    reader: StoreReader, namespace_id: int, tags: Iterable[str], limit: int, *, now: datetime
) -> list[Ranked]:
    """Rank the memories that have any of the tags, the most relevant first."""
    now_us = epoch_us(now)
    facts = read_tagged(reader, namespace_id, tags, now=now)
    return _best((_rank(one, 0.0, now_us) for one in facts), limit)


def _match(query: str, one: Text) -> float | None:
    return match_strength(query, one.content, json.loads(one.tags), one.kind)


def _rank(one: Facts | Text, strength: float, now_us: int) -> _Place:
    age_days = (now_us - one.age_clock_us) / _DAY_US
    worth = relevance(one.importance, age_days)
    return -(strength + worth), -one.created_us, one.memory_id, one.revision, strength, worth


def _best(places: Iterable[_Place], limit: int) -> list[Ranked]:
    return [
        Ranked(memory_id, revision, strength, worth, -score)
        for score, _, memory_id, revision, strength, worth in nsmallest(limit, places)
    ]
