"""What a text is made of: runs, tokens, units, words; and the fingerprint that equal runs share.

Computed here only and then stored: databases lower and split otherwise.
Source: spec/consolidate.md R21, R22.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

from storage.lexical import make_splitter
from tasks.rules.lists import CJK
from tasks.rules.normal_form import normal_form

_KEY_PREFIX = b"memtend.fp.v2\0"
_DIGIT = re.compile("[0-9]")
_IS_CJK = re.compile(f"[{CJK}]")
_SAME_SCRIPT = re.compile(f"[{CJK}]+|[^{CJK}]+")
# A letter of a word, as the inside of no class; CJK characters separate words.
LETTER = rf"[^\W\d_{CJK}]"
WORD = re.compile(rf"{LETTER}+(?:'{LETTER}+)*")


def is_word_character(character: str) -> bool:
    """Tell whether a character is a letter, a number or a mark of one (R21)."""
    return unicodedata.category(character)[0] in "LNM"


def is_cjk(text: str) -> bool:
    """Tell whether a run or a character is in the CJK ranges."""
    return not text.isascii() and _IS_CJK.match(text) is not None


def has_number(text: str) -> bool:
    """Tell whether a text holds a character of category N."""
    if text.isascii():
        return _DIGIT.search(text) is not None
    return any(unicodedata.category(sign)[0] == "N" for sign in text)


_split = make_splitter(is_word_character)


def split_runs(text: str) -> list[str]:
    """Split a text into runs of word characters that are all CJK or all not."""
    if text.isascii():
        return _split(text)
    runs: list[str] = []
    for word in _split(text):
        parts = (word,) if word.isascii() else filter(_is_whole, _SAME_SCRIPT.findall(word))
        runs.extend(parts)
    return runs


def _is_whole(run: str) -> bool:
    """Tell whether a run is more than marks."""
    return any(unicodedata.category(sign)[0] != "M" for sign in run)


def find_tokens(runs: Iterable[str]) -> frozenset[str]:
    """Give the token set: each run, and of a CJK run its adjacent pairs."""
    tokens = frozenset(runs)
    if "".join(tokens).isascii():
        return tokens
    pairs = (pairwise(run) for run in tokens if is_cjk(run))
    return tokens.union(first + second for each in pairs for first, second in each)


def list_units(runs: Iterable[str]) -> tuple[str, ...]:
    """Give the units in order: runs, of a CJK run its characters."""
    whole = tuple(runs)
    if "".join(whole).isascii():
        return whole
    return tuple(unit for run in whole for unit in (run if is_cjk(run) else (run,)))


def split_words(text: str) -> list[str]:
    """Give the words of a text: letters with apostrophes between them."""
    return WORD.findall(normal_form(text))


def fingerprint(text: str) -> str:
    """Give the v2 fingerprint of a text; empty for a text that equals nothing (R22)."""
    return " ".join(split_runs(normal_form(text)))


def fingerprint_key(words: str) -> bytes:
    """Give the stored key of a fingerprint (R22)."""
    return hashlib.sha256(_KEY_PREFIX + words.encode()).digest()
