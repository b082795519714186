"""Stale siblings: active memories that still say what a superseded one said.

Source: spec/consolidate.md R84.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from storage import Store
from storage.siblings import Sibling, SupersededText, find_siblings, list_superseded
from tasks.duplicate_texts import PROFILE
from tasks.rules.normal_form import normal_form
from tasks.rules.pairs import PairResult, judge_pair
from tasks.rules.prepared import prepare
from tasks.rules.tokens import find_tokens, split_runs


class StaleSibling(NamedTuple):
    """An active copy of a superseded memory; `result` is exact or near."""

    memory_id: str
    superseded_id: str
    superseded_by: str
    result: PairResult


def find_stale_siblings(store: Store, namespace_id: int, *, now: datetime) -> list[StaleSibling]:
    """Find the active memories that are exact or near to one that was superseded.

    Memories that a merge took in do not count as superseded here. The successor itself is no
    sibling, however much it resembles the old one.

    Args:
        store: The store; no lock may be held, nor is one while texts are compared. What active
            texts are compared by has to be stored
            (`storage.duplicate_texts.index_missing_tokens`).
        namespace_id: The only namespace that is read.
        now: The instant that expiry is judged at.

    Returns:
        In order of superseded ids, then of the siblings' ids.
    """
    with store.read() as reader:
        superseded = {one.memory_id: one for one in list_superseded(reader, namespace_id)}
    if not superseded:
        return []
    tokens = {
        name: find_tokens(split_runs(normal_form(one.content))) for name, one in superseded.items()
    }
    with store.read() as reader:
        found = find_siblings(reader, namespace_id, tokens, profile=PROFILE, now=now)
    return list(_judge(superseded, found))


def _judge(
    superseded: Mapping[str, SupersededText], found: Iterable[Sibling]
) -> Iterator[StaleSibling]:
    for name, siblings in groupby(found, key=lambda one: one.superseded_id):
        old = superseded[name]
        said = prepare(old.content, kind=old.kind, namespace_id=0)
        for sibling in siblings:
            copy = prepare(sibling.content, kind=sibling.kind, namespace_id=0)
            result = judge_pair(said, copy).result
            if result in {PairResult.EXACT, PairResult.NEAR}:
                yield StaleSibling(sibling.memory_id, name, old.superseded_by, result)
