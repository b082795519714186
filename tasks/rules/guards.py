"""Guards: what keeps two texts apart although their words are the same.

Each compares multisets of the two texts, so that silence is transitive: texts of which neighbours
pass all pass with one another. Source: spec/consolidate.md R24, R31.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from typing import Any

from tasks.rules.normal_form import is_word_character, normal_form, without_invisible

_LISTS: dict[str, Any] = json.loads(
    files("tasks").joinpath("data/lists.json").read_text(encoding="utf-8")
)
_SHORT_UNITS = {form: short for short, forms in _LISTS["units"].items() for form in forms}
_UNIT = "|".join(map(re.escape, sorted(_SHORT_UNITS, key=len, reverse=True)))
_CURRENCIES = "$€£¥₩₹"
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?"
_PRICE = re.compile(rf"([{_CURRENCIES}])({_NUMBER})")
_MEASURE = re.compile(rf"({_NUMBER})({_UNIT})?")
_NEXT_UNIT = re.compile(rf" ?({_UNIT})")
_DIGITS = frozenset("0123456789")
_ENDS = frozenset("%‰°+#") | frozenset(_CURRENCIES)
_CUTS = '()[]{}<>"“”«»‹›「」『』【】（）、。，；：！？・…;!?|=*~^&\\`\u2014'  # noqa: RUF001 - R24


def _read_class(ranges: Iterable[str]) -> str:
    """Read ``A-B`` in hexadecimal as the inside of a character class."""
    ends = (text.split("-") for text in ranges)
    return "".join(f"{chr(int(first, 16))}-{chr(int(last, 16))}" for first, last in ends)


_CJK = _read_class(_LISTS["cjk_ranges"])
_PIECE = re.compile(rf"[^\s{re.escape(_CUTS)}{_CJK}]+")
_IS_CJK = re.compile(f"[{_CJK}]")
_IGNORED = re.compile(
    "|".join(
        f"[{_read_class([mark.replace('U+', '')])}]" if mark.startswith("U+") else re.escape(mark)
        for mark in _LISTS["marks_ignored"]
    )
)
_QUESTION = re.compile("[?？؟]")  # noqa: RUF001 - R31
_HASH_OR_BANG = re.compile("[#!！]")  # noqa: RUF001 - R31


def find_figures(text: str) -> list[str]:
    """Give the numbers, dates, versions, amounts and identifiers of a text, in order (R24)."""
    plain = normal_form(text)
    return [_name_figure(plain, start, end) for start, end in _cut(plain)]


def find_marks(text: str) -> Counter[str]:
    """Count the symbols of a text that change what it means (R31)."""
    plain = normal_form(text)
    marks = Counter(filter(_is_symbol, _IGNORED.sub("", plain)))
    for match in _HASH_OR_BANG.finditer(plain):
        sign, before, after = match[0], _at(plain, match.start() - 1), _at(plain, match.end())
        is_hash = sign == "#" and _is_word(before)
        is_not = sign != "#" and (after == "=" or _is_word(after))
        marks[sign] += is_hash or is_not
    marks["?"] += _QUESTION.search(plain) is not None
    marks["ß"] += without_invisible(text).lower().count("ß")
    return +marks


def has_equal_meaning_signs(left: str, right: str) -> bool:
    """Tell whether the guards of figures and of marks are silent about two texts."""
    if Counter(find_figures(left)) != Counter(find_figures(right)):
        return False
    return find_marks(left) == find_marks(right)


def _is_symbol(character: str) -> bool:
    return unicodedata.category(character) in {"Sm", "Sc", "So"}


def _cut(plain: str) -> Iterator[tuple[int, int]]:
    """Yield where the trimmed pieces with a number in them begin and end."""
    for piece in _PIECE.finditer(plain):
        start, end = piece.span()
        while start < end and not _may_begin(plain, start):
            start += 1
        while start < end and not (is_word_character(plain[end - 1]) or plain[end - 1] in _ENDS):
            end -= 1
        if any(unicodedata.category(sign)[0] == "N" for sign in plain[start:end]):
            yield start, end


def _may_begin(plain: str, place: int) -> bool:
    sign = plain[place]
    if sign in "+-":
        return _at(plain, place + 1) in _DIGITS
    return sign in _CURRENCIES or is_word_character(sign)


def _name_figure(plain: str, start: int, end: int) -> str:
    """Name a piece: its number and unit where it has both, else the piece itself."""
    piece = plain[start:end]
    price = _PRICE.fullmatch(piece)
    if price and price[1] in _SHORT_UNITS:
        return f"{price[2]} {_SHORT_UNITS[price[1]]}"
    measure = _MEASURE.fullmatch(piece)
    if measure is None:
        return piece
    number, unit = measure.groups()
    if unit:
        return f"{number} {_SHORT_UNITS[unit]}"
    following = _NEXT_UNIT.match(plain, end)
    if following and not _is_word(_at(plain, following.end())):
        return f"{number} {_SHORT_UNITS[following[1]]}"
    beyond = _at(plain, end)
    return f"{number} {beyond}" if beyond and _IS_CJK.match(beyond) else piece


def _at(plain: str, place: int) -> str | None:
    """Give the character at a place, None outside the text."""
    return plain[place] if 0 <= place < len(plain) else None


def _is_word(character: str | None) -> bool:
    return character is not None and is_word_character(character)
