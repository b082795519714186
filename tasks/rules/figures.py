"""The figures guard: numbers, dates, versions, amounts and identifiers with a digit.

Source: spec/consolidate.md R24, R33.
"""

import re
from collections.abc import Iterable, Iterator

from tasks.rules.lists import CJK, SHORT_UNITS, any_of
from tasks.rules.normal_form import normal_form
from tasks.rules.tokens import has_number, is_cjk, is_word_character

_CURRENCIES = "$€£¥₩₹"
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?"
_UNIT = any_of(SHORT_UNITS)
_PRICE = re.compile(rf"([{_CURRENCIES}])({_NUMBER})")
_MEASURE = re.compile(rf"({_NUMBER})({_UNIT})?")
_NEXT_UNIT = re.compile(rf" ?({_UNIT})")
_ENDS = frozenset("%‰°+#") | frozenset(_CURRENCIES)
_CUTS = '()[]{}<>"“”«»‹›「」『』【】（）、。，；：！？・…;!?|=*~^&\\`\u2014'  # noqa: RUF001 - R24
_PIECE = re.compile(rf"[^\s{re.escape(_CUTS)}{CJK}]+")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}.*|[0-9]{1,2}:[0-9]{2}.*|[0-9]{1,2}([/.])[0-9]{1,2}\1[0-9]{2,4}"
    rf"|(?:19|20)[0-9]{{2}}|{_NUMBER} [年月日时分]"
)


def find_figures(text: str) -> list[str]:
    """Give the numbers, dates, versions, amounts and identifiers of a text, in order (R24)."""
    plain = normal_form(text)
    if not has_number(plain):
        return []
    return [_name_figure(plain, start, end) for start, end in _cut(plain)]


def has_date(figures: Iterable[str]) -> bool:
    """Tell whether one of these figures looks like a date, a year or a time of day (R33)."""
    return any(map(_DATE.fullmatch, figures))


def _cut(plain: str) -> Iterator[tuple[int, int]]:
    """Yield where the pieces with a number in them begin and end, trimmed."""
    for piece in _PIECE.finditer(plain):
        if not has_number(piece[0]):
            continue
        start, end = piece.span()
        while start < end and not _may_begin(plain, start):
            start += 1
        while start < end and not (is_word_character(plain[end - 1]) or plain[end - 1] in _ENDS):
            end -= 1
        yield start, end


def _may_begin(plain: str, place: int) -> bool:
    sign = plain[place]
    if sign in "+-":
        following = plain[place + 1 : place + 2]
        return following.isascii() and following.isdigit()
    return sign in _CURRENCIES or is_word_character(sign)


def _name_figure(plain: str, start: int, end: int) -> str:
    """Name a piece: its number and unit where it has both, else the piece itself."""
    piece = plain[start:end]
    price = _PRICE.fullmatch(piece)
    if price and price[1] in SHORT_UNITS:
        return f"{price[2]} {SHORT_UNITS[price[1]]}"
    measure = _MEASURE.fullmatch(piece)
    if measure is None:
        return piece
    number, unit = measure.groups()
    if unit:
        return f"{number} {SHORT_UNITS[unit]}"
    following = _NEXT_UNIT.match(plain, end)
    if following and not _is_word_at(plain, following.end()):
        return f"{number} {SHORT_UNITS[following[1]]}"
    beyond = plain[end : end + 1]
    return f"{number} {beyond}" if is_cjk(beyond) else piece


def _is_word_at(plain: str, place: int) -> bool:
    return place < len(plain) and is_word_character(plain[place])
