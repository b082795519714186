"""The normal form of a text, in which guards compare; nothing that is read is in it.

Spelling variants become one: case, full-width digits, apostrophes, minus signs, thousands
separators, invisible characters. Source: spec/consolidate.md R20.
"""

import re
import unicodedata
from functools import lru_cache

_SAME = str.maketrans(
    dict.fromkeys("\u2018\u2019\u02bc\uff07", "'") | dict.fromkeys("\u2212\ufe63\uff0d\u2013", "-")
)
_BEYOND_WORDS = re.compile(r"[^\x00-\x7f\w]")
_OTHER_DIGIT = re.compile(r"[^\D0-9]")
_SEPARATORS = ",'_\u00a0\u2009\u202f"
_THOUSANDS = re.compile(
    rf"(?<![\w.,'])[1-9][0-9]{{0,2}}([{_SEPARATORS}])[0-9]{{3}}(?:\1[0-9]{{3}})*"
    rf"(?![0-9])(?![{_SEPARATORS}][0-9])"
)


@lru_cache(maxsize=16)
def normal_form(text: str) -> str:
    """Give the normal form of a text (R20)."""
    plain = fold(without_invisible(text))
    return _THOUSANDS.sub(lambda match: match[0].replace(match[1], ""), plain)


def without_invisible(text: str) -> str:
    """Compose a text (NFC) and delete its format characters; case stays."""
    composed = unicodedata.normalize("NFC", text)
    if composed.isascii():
        return composed
    return _BEYOND_WORDS.sub(_drop_invisible, composed)


def fold(composed: str) -> str:
    """Fold case and give digits, apostrophes and minus signs one form; separators stay."""
    if composed.isascii():
        return composed.lower()
    folded = unicodedata.normalize("NFC", composed.casefold())
    return _OTHER_DIGIT.sub(lambda sign: str(unicodedata.decimal(sign[0])), folded).translate(_SAME)


def _drop_invisible(sign: re.Match[str]) -> str:
    return "" if unicodedata.category(sign[0]) == "Cf" else sign[0]
