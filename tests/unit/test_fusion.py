"""Fusion of two lists: the vectors of the contract's profile, and what the convex one does."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from helpers.recalls import START, list_cases
from hypothesis import given
from hypothesis import strategies as st

from storage.encoding import format_f32
from storage.models import round_to_f32
from tasks.fusion import CONVEX_45, FUSION_PROFILES, RRF_K60, fuse
from tasks.hits import Hit

_CASES = {case["id"]: case for case in list_cases("fusion")}
_RANKED = _CASES.pop("V54")


def make(name: str, score: float, channel: str, *, minute: int = 0) -> Hit:
    updated_at = START + timedelta(minutes=minute)
    return Hit(name, 1, "semantic", f"{channel} {name}", score, channel, updated_at)


def list_hits(inputs: Mapping[str, Any], channel: str) -> list[Hit]:
    minutes = inputs.get("updated_at_order", {})
    return [
        make(one["id"], one["score"], channel, minute=minutes.get(one["id"], 0))
        for one in inputs[channel]
    ]


def say(hits: list[Hit]) -> list[dict[str, str]]:
    return [
        {"id": hit.memory_id, "score": format_f32(hit.score), "channel": hit.channel}
        for hit in hits
    ]


@pytest.mark.parametrize("name", _CASES)
def test_ranks_are_fused_as_the_vector_says(name: str) -> None:
    inputs = _CASES[name]["inputs"]
    fused = fuse(list_hits(inputs, "lexical"), list_hits(inputs, "semantic"))
    assert say(fused) == _CASES[name]["expected"]


def test_v54_ranks_that_tie_as_fractions_do_not_tie_in_32_bits() -> None:
    inputs, lists = _RANKED["inputs"], {}
    for channel in ("lexical", "semantic"):
        names = [f"{channel}-{place}" for place in range(1, inputs["list_length"] + 1)]
        for name, rank in inputs[f"{channel}_ranks"].items():
            names[rank - 1] = name
        minutes = inputs["updated_at_order"]
        lists[channel] = [
            make(name, 1 - place / 100, channel, minute=minutes.get(name, 0))
            for place, name in enumerate(names)
        ]
    both = [hit for hit in fuse(lists["lexical"], lists["semantic"]) if hit.channel == "hybrid"]
    assert [hit.memory_id for hit in both] == _RANKED["expected"]["order"]
    scores = {hit.memory_id: format_f32(hit.score) for hit in both}
    assert scores == _RANKED["expected"]["scores"]


def test_of_a_memory_in_both_lists_the_verified_row_is_given() -> None:
    fused = fuse([make("a", 0.5, "lexical")], [make("a", 0.9, "semantic")])
    assert [hit.content for hit in fused] == ["semantic a"]


def test_convex_profile_mixes_normalised_scores() -> None:
    lexical = [
        make(name, score, "lexical") for name, score in (("a", 1.0), ("b", 0.75), ("c", 0.5))
    ]
    semantic = [make("c", 0.9, "semantic"), make("b", 0.4, "semantic")]
    assert say(fuse(lexical, semantic, CONVEX_45)) == [
        {"id": "a", "score": "0.55", "channel": "lexical"},
        {"id": "c", "score": "0.45", "channel": "hybrid"},
        {"id": "b", "score": "0.275", "channel": "hybrid"},
    ]


def test_convex_profile_gives_equal_scores_the_whole_weight() -> None:
    fused = fuse([make("a", 0.4, "lexical")], [make("b", 0.9, "semantic")], CONVEX_45)
    assert [(hit.memory_id, format_f32(hit.score)) for hit in fused] == [
        ("a", "0.55"),
        ("b", "0.45"),
    ]


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="fusion profile"):
        fuse([], [], "memtend.hybrid.unknown.v1")


def test_profiles_have_different_names() -> None:
    assert {RRF_K60, CONVEX_45} == set(FUSION_PROFILES)


_NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(st.sampled_from(FUSION_PROFILES), _NAMES, _NAMES)
def test_fused_list_holds_each_memory_once_in_order(
    profile: str, ours: list[str], theirs: list[str]
) -> None:
    def spread(names: list[str], channel: str) -> list[Hit]:
        return [make(name, 1 - place / 10, channel) for place, name in enumerate(names)]

    fused = fuse(spread(ours, "lexical"), spread(theirs, "semantic"), profile)
    assert sorted(hit.memory_id for hit in fused) == sorted({*ours, *theirs})
    scores = [hit.score for hit in fused]
    assert scores == sorted(scores, reverse=True)
    assert all(
        0 <= score <= 1 and round_to_f32(score) == score for score in scores if ours and theirs
    )
