"""The normal form of a text, in which guards compare; nothing that is read is in it.

Spelling variants become one: case, full-width digits, apostrophes, minus signs, thousands
separators, invisible characters. Source: spec/consolidate.md R20, R21.
"""

import re
import unicodedata
from functools import lru_cache

_SAME = str.maketrans(
    dict.fromkeys("\u2018\u2019\u02bc\uff07", "'") | dict.fromkeys("\u2212\ufe63\uff0d\u2013", "-")
)
_SEPARATORS = ",'_\u00a0\u2009\u202f"
_THOUSANDS = re.compile(
    rf"(?<![\w.,'])[1-9][0-9]{{0,2}}([{_SEPARATORS}])[0-9]{{3}}(?:\1[0-9]{{3}})*"
    rf"(?![0-9])(?![{_SEPARATORS}][0-9])"
)


@lru_cache(maxsize=16)
def normal_form(text: str) -> str:
    """Give the normal form of a text (R20)."""
    composed = without_invisible(text)
    folded = unicodedata.normalize("NFC", composed.casefold())
    plain = "".join(map(_as_digit, folded)).translate(_SAME)
    return _THOUSANDS.sub(lambda match: match[0].replace(match[1], ""), plain)


def without_invisible(text: str) -> str:
    """Compose a text (NFC) and delete its format characters; case stays."""
    composed = unicodedata.normalize("NFC", text)
    if composed.isascii():
        return composed
    return "".join(sign for sign in composed if unicodedata.category(sign) != "Cf")


def is_word_character(character: str) -> bool:
    """Tell whether a character is a letter, a number or a mark of one (R21)."""
    return unicodedata.category(character)[0] in "LNM"


def _as_digit(character: str) -> str:
    if character.isascii() or unicodedata.category(character) != "Nd":
        return character
    return str(unicodedata.decimal(character))
