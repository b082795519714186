"""What is stored of a text is what the rules compare it by."""

import pytest
from helpers.consolidation import cases, load_consolidation

from tasks.duplicate_texts import FIGURE, POLARITY, PROFILE, SLOT, tokenise_text
from tasks.rules.prepared import prepare

_ODD = ("", "!!!", "\u200b", "\uff21\uff22 don't go 10,000 km", "日本語Rust混在テスト", "x" * 5_000)
_PAIRS = [case["input"] for case in load_consolidation()["cases"] if case["op"] == "pair_v2"]
_TEXTS = sorted({pair[side] for pair in _PAIRS for side in "ab"} | set(_ODD))


@pytest.mark.parametrize("text", _TEXTS, ids=range(len(_TEXTS)))
def test_stored_tokens_and_keys_are_those_that_pairs_are_judged_by(text: str) -> None:
    stored, judged = tokenise_text(text), prepare(text, kind="semantic", namespace_id=1)
    assert stored.tokens == judged.tokens
    keys = {POLARITY: judged.polarity_key, FIGURE: judged.figure_key, SLOT: judged.slot_key}
    assert stored.keys.keys() == {kind for kind, key in keys.items() if key is not None}


@cases("fp_v2_hash")
def test_fingerprint_is_the_stored_key_of_the_vector(case: dict[str, dict[str, str]]) -> None:
    assert tokenise_text(case["input"]["text"]).fingerprint.hex() == case["expect"]["sha256"]


def test_format_characters_and_composition_are_no_difference_of_text() -> None:
    assert tokenise_text("cafe\u0301\u200b").text == tokenise_text("café").text
    assert tokenise_text("Café").text != tokenise_text("café").text
    assert tokenise_text("Café").fingerprint == tokenise_text("café.").fingerprint


def test_profile_names_rules_lists_and_unicode_version() -> None:
    version = load_consolidation()["lists"]["version"]
    assert PROFILE.startswith(f"memtend.near-duplicate.v2 {version} unicode 1")
