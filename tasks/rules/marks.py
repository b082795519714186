"""The marks guard: symbols that change what a text means. Source: spec/consolidate.md R31."""

import re
import unicodedata
from collections import Counter

from tasks.rules.lists import LISTS, read_class
from tasks.rules.normal_form import normal_form, without_invisible
from tasks.rules.tokens import is_word_character

_IGNORED = re.compile(
    "|".join(
        f"[{read_class([mark.replace('U+', '')])}]" if mark.startswith("U+") else re.escape(mark)
        for mark in LISTS["marks_ignored"]
    )
)
_SIGN = re.compile(r"[^\w\s]")
_SYMBOLS = frozenset({"Sm", "Sc", "So"})
_QUESTION = re.compile("[?？؟]")  # noqa: RUF001 - R31
_HASH_OR_BANG = re.compile("[#!！]")  # noqa: RUF001 - R31


def find_marks(text: str) -> Counter[str]:
    """Count the symbols of a text that change what it means (R31)."""
    plain = normal_form(text)
    marks = Counter(filter(_is_symbol, _SIGN.findall(_IGNORED.sub("", plain))))
    for match in _HASH_OR_BANG.finditer(plain):
        sign, start, end = match[0], match.start(), match.end()
        is_hash = sign == "#" and _is_word(plain[start - 1 : start])
        after = plain[end : end + 1]
        is_not = sign != "#" and (after == "=" or _is_word(after))
        marks[sign] += is_hash or is_not
    marks["?"] += _QUESTION.search(plain) is not None
    marks["ß"] += without_invisible(text).lower().count("ß")
    return +marks


def _is_symbol(character: str) -> bool:
    return unicodedata.category(character) in _SYMBOLS


def _is_word(beside: str) -> bool:
    return beside != "" and is_word_character(beside)
