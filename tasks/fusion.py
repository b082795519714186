"""Fusion of the lexical and the semantic list into one; every step is rounded to 32 bits.

A profile is a fixed algorithm, and a change of behaviour is a new name. Source: spec/recall.md R10.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from storage.models import round_to_f32
from tasks.hits import Hit, sort_hits
from tasks.refresh.binding import FUSION_PROFILE

RRF_K60 = FUSION_PROFILE
# A convex mix of min-max normalised scores: it found more on long dialogues than ranks do.
CONVEX_45 = "memtend.hybrid.convex-minmax-45.v1"
_K = 60
_SEMANTIC_WEIGHT = round_to_f32(0.45)
_LEXICAL_WEIGHT = round_to_f32(1 - _SEMANTIC_WEIGHT)

_Scores = dict[str, float]


def fuse(
    lexical: Sequence[Hit], semantic: Sequence[Hit], profile: str = FUSION_PROFILE
) -> list[Hit]:
    """Fuse two lists, each best first; with one of them empty the other keeps its scores.

    Of a memory in both lists the row that the semantic branch has read is given.

    Raises:
        ValueError: There is no such profile.
    """
    if profile not in _MIXERS:
        message = "no such fusion profile"
        raise ValueError(message)
    if not lexical or not semantic:
        return sort_hits(lexical or semantic)
    scores = _MIXERS[profile](lexical, semantic)
    rows = {hit.memory_id: hit for hit in (*lexical, *semantic)}
    both = {hit.memory_id for hit in lexical} & {hit.memory_id for hit in semantic}
    return sort_hits(
        replace(
            hit,
            score=min(max(scores[name], 0.0), 1.0),
            channel="hybrid" if name in both else hit.channel,
        )
        for name, hit in rows.items()
    )


def _mix_ranks(lexical: Sequence[Hit], semantic: Sequence[Hit]) -> _Scores:
    """Add the reciprocal ranks, and divide by the largest sum."""
    sums = _add(*(_score_ranks(hits) for hits in (lexical, semantic)))
    largest = max(sums.values())
    return {name: round_to_f32(score / largest) for name, score in sums.items()}


def _score_ranks(hits: Sequence[Hit]) -> _Scores:
    return {hit.memory_id: round_to_f32(1 / (_K + rank)) for rank, hit in enumerate(hits, 1)}


def _mix_scores(lexical: Sequence[Hit], semantic: Sequence[Hit]) -> _Scores:
    return _add(_normalise(lexical, _LEXICAL_WEIGHT), _normalise(semantic, _SEMANTIC_WEIGHT))


def _normalise(hits: Sequence[Hit], weight: float) -> _Scores:
    """Give the best score of a list the whole weight and the worst none; equal ones all of it."""
    low, high = (bound(hit.score for hit in hits) for bound in (min, max))
    span = round_to_f32(high - low)
    if not span:
        return {hit.memory_id: weight for hit in hits}
    shares = {hit.memory_id: round_to_f32(round_to_f32(hit.score - low) / span) for hit in hits}
    return {name: round_to_f32(share * weight) for name, share in shares.items()}


def _add(one: _Scores, other: _Scores) -> _Scores:
    return {
        name: round_to_f32(one.get(name, 0.0) + other.get(name, 0.0))
        for name in one.keys() | other.keys()
    }


_MIXERS: Mapping[str, Callable[[Sequence[Hit], Sequence[Hit]], _Scores]] = MappingProxyType(
    {RRF_K60: _mix_ranks, CONVEX_45: _mix_scores}
)
FUSION_PROFILES = tuple(_MIXERS)
