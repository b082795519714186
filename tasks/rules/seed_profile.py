"""The profile ``seed.near-duplicate.v1``: the rule of a3s-memory 0.1.2 with its known faults.

It is there to be compared with; nothing merges by it unless somebody says so.
Source: spec/consolidate.md R10-R12.
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from storage.fingerprints import fingerprint
from storage.lexical import is_alphanumeric, make_splitter
from storage.models import MemoryRecord
from tasks.rules.lists import LISTS
from tasks.rules.merging import merge_records
from tasks.rules.pairs import PairResult, PairVerdict, reaches_overlap

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_STOP_WORDS = frozenset(LISTS["v1_stopwords"])
_NEGATIONS = frozenset(LISTS["v1_negations"])
_FEWEST_TERMS = 5
_SHORTEST_TERM = 3
_split_words = make_splitter(is_alphanumeric)
_split_terms = make_splitter(lambda character: is_alphanumeric(character) or character in "-_./")


@dataclass(frozen=True, slots=True)
class SeedText:
    """What the profile compares of one memory; `fingerprint` is None for a short text."""

    kind: str
    fingerprint: str | None
    negates: bool
    terms: frozenset[str]


class SeedGroup(NamedTuple):
    """Memories that were folded into the first of them, and what that one then is."""

    memory_ids: tuple[str, ...]
    record: MemoryRecord
    text: SeedText


def read_seed_text(content: str, kind: str) -> SeedText:
    """Read what the profile compares (R10, R11)."""
    lowered = content.translate(_LOWER)
    terms = (term for term in _split_terms(lowered) if len(term) >= _SHORTEST_TERM)
    return SeedText(
        kind=kind,
        fingerprint=fingerprint(content),
        negates=not _NEGATIONS.isdisjoint(_split_words(lowered)),
        terms=frozenset(terms) - _STOP_WORDS,
    )


def judge_seed_pair(left: SeedText, right: SeedText) -> PairVerdict:
    """Judge two memories by the profile; shared and union count terms (R11)."""
    shared = len(left.terms & right.terms)
    union = len(left.terms) + len(right.terms) - shared
    if left.fingerprint is not None and left.fingerprint == right.fingerprint:
        return PairVerdict(PairResult.EXACT, (), shared, union)
    refusals = {
        "kind": left.kind != right.kind,
        "polarity": left.negates != right.negates,
        "few_terms": min(len(left.terms), len(right.terms)) < _FEWEST_TERMS,
        "below": not reaches_overlap(shared, union),
    }
    first = next((name for name, refuses in refusals.items() if refuses), None)
    if first is None:
        return PairVerdict(PairResult.NEAR, (), shared, union)
    return PairVerdict(PairResult.NONE, (first,), shared, union)


def fold_memories(memories: Iterable[MemoryRecord], *, at: datetime) -> list[SeedGroup]:
    """Fold each memory into the first earlier one that it matches as that one is by then (R12).

    Args:
        memories: In store order.
        at: When the merges happen.

    Raises:
        LimitExceededError: A merged memory would get too many tags or keys, or too long a value.
    """
    groups: list[SeedGroup] = []
    for memory in memories:
        text = read_seed_text(memory.content, memory.kind)
        place = _find_match(groups, text)
        if place is None:
            groups.append(SeedGroup((memory.id,), memory, text))
            continue
        group = groups[place]
        record = merge_records((group.record, memory), {}, at=at).record
        text = read_seed_text(record.content, record.kind)
        groups[place] = SeedGroup((*group.memory_ids, memory.id), record, text)
    return groups


def _find_match(groups: Iterable[SeedGroup], text: SeedText) -> int | None:
    results = (judge_seed_pair(group.text, text).result for group in groups)
    return next((at for at, result in enumerate(results) if result != PairResult.NONE), None)
