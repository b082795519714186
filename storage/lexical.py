"""Lexical profiles: the terms of a text, and the share of a query's terms that a content has.

Pure functions over stored text; no SQL takes part. A profile is a fixed algorithm, and a change of
behaviour is a new name. Source: spec/recall.md R1-R6.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import partial
from importlib.resources import files
from itertools import pairwise
from typing import Final, Literal

from storage.models import round_to_f32

WORD_V1: Final = "a3s.memory.lexical.word.v1"
WORD_CJK_BIGRAM_V1: Final = "a3s.memory.lexical.word-cjk-bigram.v1"
Profile = Literal["a3s.memory.lexical.word.v1", "a3s.memory.lexical.word-cjk-bigram.v1"]

# Source: spec/recall.md R5.
_CJK = (
    "1100-11FF,2E80-2FFF,3005-3007,3031-3035,3040-30FF,3100-312F,3130-318F,3190-319F,31A0-31BF,"
    "31F0-31FF,3400-4DBF,4E00-9FFF,A960-A97F,AC00-D7AF,D7B0-D7FF,F900-FAFF,FF66-FF9F,20000-2FA1F,"
    "30000-323AF"
)
_SPACE = ord(" ")
# More distinct characters than any text needs; hostile ones are looked up again.
_MOST_REMEMBERED = 65_536


def _read_ranges(text: str) -> list[tuple[int, int]]:
    """Read ``A,B-C``, hexadecimal and inclusive; line breaks mean nothing."""
    ends = (item.partition("-") for item in "".join(text.split()).split(","))
    return [(int(first, 16), int(last or first, 16)) for first, _, last in ends]


def _gather(ranges: Iterable[tuple[int, int]]) -> frozenset[str]:
    return frozenset(chr(code) for first, last in ranges for code in range(first, last + 1))


_CJK_RANGES = _read_ranges(_CJK)
_CJK_CHARACTERS = _gather(_CJK_RANGES)
_CJK_RUN = re.compile("[" + "".join(f"{chr(a)}-{chr(b)}" for a, b in _CJK_RANGES) + "]+")
# Letters by the Unicode property Alphabetic that str.isalnum() misses: vowel signs, circled
# letters. Source: spec/recall.md R2.
_EXTRA = _gather(_read_ranges(files("storage").joinpath("data/alphabetic_extra.txt").read_text()))


def is_alphanumeric(character: str) -> bool:
    """Tell whether a character is a letter, a mark of one, or a number (R2)."""
    return character.isalnum() or character in _EXTRA


class _KeptCharacters(dict[int, int]):
    """A table for str.translate that keeps some characters and makes spaces of all others."""

    def __init__(self, is_kept: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_kept = is_kept

    def __missing__(self, code: int) -> int:
        kept = code if self._is_kept(chr(code)) else _SPACE
        if len(self) < _MOST_REMEMBERED:
            self[code] = kept
        return kept


def make_splitter(is_kept: Callable[[str], bool]) -> Callable[[str], list[str]]:
    """Make a function that splits lowered text into maximal runs of the characters to keep.

    No character that is kept may be white space.
    """
    return partial(_split, _KeptCharacters(is_kept))


def _split(table: _KeptCharacters, lowered: str) -> list[str]:
    return lowered.translate(table).split()


_split_words = make_splitter(is_alphanumeric)
_split_narrow_words = make_splitter(
    lambda character: is_alphanumeric(character) and character not in _CJK_CHARACTERS
)


def is_searchable(text: str) -> bool:
    """Tell whether a text has at least one alphanumeric character, as a query must."""
    return any(map(is_alphanumeric, text))


def tokenize(text: str, profile: str = WORD_CJK_BIGRAM_V1) -> frozenset[str]:
    """Give the terms of a text; lower case is taken of the whole text first (R3-R5).

    Raises:
        ValueError: There is no such profile.
    """
    lowered = text.lower()
    if profile == WORD_V1:
        return frozenset(_split_words(lowered))
    if profile != WORD_CJK_BIGRAM_V1:
        message = "no such lexical profile"
        raise ValueError(message)
    terms = _split_narrow_words(lowered)
    if not lowered.isascii():
        for run in _CJK_RUN.findall(lowered):
            terms.append(run)
            terms.extend(_pair_up(run))
    return frozenset(terms)


def coverage(query_terms: frozenset[str], content_terms: frozenset[str]) -> float:
    """Give the share of the query's terms that the content has, as a 32-bit float (R6)."""
    if not query_terms:
        return 0.0
    return round_to_f32(len(query_terms & content_terms) / len(query_terms))


def find_sure_terms(words: Iterable[str]) -> frozenset[str] | None:
    """Find terms of the default profile of which a content with any of these word.v1 terms has one.

    One term per word is enough. A run of CJK characters is not sure: in the content it may go on,
    beyond the word, over CJK characters that are not alphanumeric; its pairs are.

    Returns:
        None if a word has no such term.
    """
    sure = set()
    for word in words:
        terms = _split_narrow_words(word)
        for run in _CJK_RUN.findall(word):
            terms.extend(_pair_up(run))
        if not terms:
            return None
        sure.add(max(terms, key=len))
    return frozenset(sure)


def _pair_up(run: str) -> list[str]:
    return [first + second for first, second in pairwise(run)]


def hash_term(term: str) -> int:
    """Hash a term to 64 bits, the same on every machine: SHA-256, first 8 bytes, little endian."""
    return int.from_bytes(hashlib.sha256(term.encode()).digest()[:8], "little", signed=True)
