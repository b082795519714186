"""The canonical encoding: equal values are equal bytes, whoever encodes them and wherever.

Compact JSON in UTF-8, keys in the order given; only `"`, the backslash and U+0000..U+001F are
escaped; numbers are the shortest text of their 32-bit float. Source: spec/repository.md 4.5.
"""

import hashlib
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from json.encoder import encode_basestring

from storage.instants import format_instant
from storage.models import round_to_f32

_F32 = struct.Struct("<f")
_SMALLEST_NORMAL = 2.0**-126
_SMALLEST_PLAIN = -6  # the exponent below which a number is written as mantissa and exponent
# Above a power of two its neighbours are twice as far away as below it. This is the only one from
# 2^-149 to 2 whose shortest text is for that reason not the nearest one of that length.
_LEANING = {2.0**-96: "1.2621775e-29"}
_NO_FRACTION = "000000"
_NO_MICROSECONDS = "000"


def encode_canonical(value: object) -> str:
    """Encode a value; a float is a 32-bit number, an instant has six fraction digits.

    Raises:
        ValueError: A number is not finite.
        TypeError: The value, or one inside it, has no canonical text.
    """
    encode = _ENCODERS.get(type(value)) or _find_encoder(value)
    return encode(value)


@lru_cache(maxsize=8192)
def format_f32(value: float) -> str:
    """Give the shortest decimal text that reads back as the same 32-bit float.

    Plain digits with a fraction down to 1e-6 (``1.0``), below that a mantissa and an exponent
    (``9.5e-7``); -0.0 is 0.0.

    Raises:
        ValueError: The value is not finite.
    """
    if not math.isfinite(value):
        message = "not a finite number"
        raise ValueError(message)
    text = _shortest_text(round_to_f32(value))
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text if "." in text else f"{text}.0"
    power = int(exponent)
    if power < _SMALLEST_PLAIN:
        return f"{mantissa}e{power}"
    places = len(mantissa.partition(".")[2]) - power
    return f"{float(text):.{max(places, 1)}f}"


def _shortest_text(number: float) -> str:
    if number in _LEANING:
        return _LEANING[number]
    # Six digits always survive a normal 32-bit float, so six are tried first: %g drops zeros.
    fewest = 6 if number == 0 or abs(number) >= _SMALLEST_NORMAL else 1
    for digits in range(fewest, 9):
        text = f"{number:.{digits}g}"
        if _F32.unpack(_F32.pack(float(text)))[0] == number:
            return text
    return f"{number:.9g}"


def shorten_instant(text: str) -> str:
    """Cut six fraction digits to 0, 3 or 6, the fewest that lose nothing."""
    fraction = text[-7:-1]
    if fraction == _NO_FRACTION:
        return text[:-8] + "Z"
    return text[:-4] + "Z" if fraction.endswith(_NO_MICROSECONDS) else text


class PayloadDigest:
    """SHA-256 over a domain name, one zero byte and a payload that may come in pieces."""

    def __init__(self, domain: str) -> None:
        """Begin with the domain, which is not counted."""
        self._hash = hashlib.sha256(domain.encode() + b"\0")
        self.byte_count = 0

    def add(self, piece: bytes | memoryview) -> None:
        """Take the next piece of the payload."""
        self._hash.update(piece)
        self.byte_count += len(piece)

    def __str__(self) -> str:
        """Give the digest of what came so far, as ``sha256:`` and 64 hex digits."""
        return f"sha256:{self._hash.hexdigest()}"


def _encode_mapping(value: Mapping[str, object]) -> str:
    pairs = [f"{encode_basestring(key)}:{encode_canonical(it)}" for key, it in value.items()]
    return "{" + ",".join(pairs) + "}"


def _encode_list(value: Sequence[object]) -> str:
    return "[" + ",".join([encode_canonical(item) for item in value]) + "]"


_ENCODERS: dict[type, Callable[..., str]] = {
    str: encode_basestring,
    float: format_f32,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
    dict: _encode_mapping,
    list: _encode_list,
    tuple: _encode_list,
    datetime: lambda value: f'"{format_instant(value)}"',
}


def _find_encoder(value: object) -> Callable[..., str]:
    """Find the encoder of a StrEnum or of a mapping that is no dict."""
    for kind, encode in ((str, encode_basestring), (Mapping, _encode_mapping)):
        if isinstance(value, kind):
            return encode
    message = f"{type(value).__name__} has no canonical text"
    raise TypeError(message)
