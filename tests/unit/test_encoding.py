"""Equal values are equal bytes: escapes, numbers and instants, against a reader and an oracle."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, DecimalTuple
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.digests import encode_json
from storage.encoding import PayloadDigest, encode_canonical, format_f32, shorten_instant
from storage.instants import format_instant, parse_instant
from storage.models import Status, round_to_f32

_FILE = Path(__file__).parent.parent / "vectors" / "repository-vectors.json"
CASES = {case["id"]: case for case in json.loads(_FILE.read_text(encoding="utf-8"))["cases"]}
NUMBERS = zip(CASES["V106"]["inputs"], CASES["V106"]["expected"], strict=True)
SPELLINGS = zip(
    CASES["V107"]["inputs"],
    CASES["V107"]["expected"]["memtend"],
    CASES["V107"]["expected"]["upstream"],
    strict=True,
)
SHORT_ESCAPES = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
UNESCAPED = "/\x7f\x80\x85\xa0\u2028\u2029\ufeff\uffff\U0001f600\U0010ffff\u0301<>&'"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)
SINGLES = st.floats(0, 2, width=32)


@pytest.mark.parametrize(
    ("value", "text"), [pytest.param(v, t, id=f"V106-{t}-of-{v!r}") for v, t in NUMBERS]
)
def test_number_is_the_shortest_text_of_its_f32(value: float, text: str) -> None:
    assert format_f32(value) == text
    assert encode_canonical([float(value)]) == f"[{text}]"


@pytest.mark.parametrize(
    ("given_text", "own", "upstream"),
    [pytest.param(*texts, id=f"V107-{texts[0]}") for texts in SPELLINGS],
)
def test_instant_has_one_text_per_profile(given_text: str, own: str, upstream: str) -> None:
    assert format_instant(parse_instant(given_text)) == own
    assert shorten_instant(own) == upstream


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00.000000Z"),
        (datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC), "0001-01-01T00:00:00.000001Z"),
        (
            datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            "2026-01-01T00:00:00.000000Z",
        ),
    ],
)
def test_instants_are_encoded_in_utc_with_six_digits(instant: datetime, text: str) -> None:
    assert encode_canonical({"at": instant}) == f'{{"at":"{text}"}}'


def _digits_of(text: str) -> DecimalTuple:
    return Decimal(text).normalize().as_tuple()


def test_every_power_of_two_is_as_short_as_it_can_be() -> None:
    powers = [2.0**-exponent for exponent in range(-1, 150)]
    expected = pa.array(powers, pa.float32()).cast(pa.string()).to_pylist()
    assert [_digits_of(format_f32(number)) for number in powers] == [*map(_digits_of, expected)]


@given(SINGLES)
def test_number_reads_back_and_has_the_digits_of_another_shortest_printer(number: float) -> None:
    text = format_f32(number)
    (other,) = pa.array([number], pa.float32()).cast(pa.string()).to_pylist()
    assert round_to_f32(float(text)) == number
    assert _digits_of(text) == _digits_of(other)


@given(SINGLES)
def test_number_is_plain_from_a_millionth_on(number: float) -> None:
    text = format_f32(number)
    mantissa, mark, exponent = text.partition("e")
    assert bool(mark) == (0 < Decimal(text) < Decimal("0.000001"))
    assert mark or "." in mantissa
    assert not exponent or (exponent[0] == "-" and exponent[1] != "0")


@given(st.floats(0, 2))
def test_doubles_that_are_one_f32_have_one_text(number: float) -> None:
    assert format_f32(number) == format_f32(round_to_f32(number))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_number_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        encode_canonical({"salience": value})


@pytest.mark.parametrize("code", range(0x20))
def test_control_characters_are_escaped(code: int) -> None:
    escape = SHORT_ESCAPES.get(code, f"\\u{code:04x}")
    assert encode_canonical(f"a{chr(code)}b") == f'"a{escape}b"'


def test_quote_and_backslash_are_escaped() -> None:
    assert encode_canonical('"\\') == '"\\"\\\\"'


@pytest.mark.parametrize("character", UNESCAPED)
def test_nothing_else_is_escaped(character: str) -> None:
    assert encode_canonical(character) == f'"{character}"'
    assert encode_canonical({character: 1}) == f'{{"{character}":1}}'


def test_lone_surrogate_has_no_bytes() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_canonical("\ud800").encode()


@given(VALUES)
def test_reader_of_json_finds_the_value_again(value: object) -> None:
    text = encode_canonical(value)
    assert json.loads(text.encode()) == value
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@given(st.lists(TEXTS), st.dictionaries(TEXTS, TEXTS))
def test_columns_of_tags_and_metadata_are_canonical(
    tags: list[str], metadata: dict[str, str]
) -> None:
    assert encode_json(tags) == encode_canonical(tags)
    by_bytes = dict(sorted(metadata.items(), key=lambda item: item[0].encode()))
    assert encode_json(metadata) == encode_canonical(by_bytes)


def test_keys_keep_the_order_given() -> None:
    assert (
        encode_canonical({"b": None, "a": [True, {}], "": []}) == '{"b":null,"a":[true,{}],"":[]}'
    )


def test_enums_and_other_mappings_are_what_they_hold() -> None:
    value: Mapping[str, object] = MappingProxyType({"status": Status.ACTIVE, "ids": ("a", 1)})
    assert encode_canonical(value) == '{"status":"active","ids":["a",1]}'


@pytest.mark.parametrize(
    "value", [{1}, b"bytes", Decimal(1), object()], ids=["set", "bytes", "decimal", "object"]
)
def test_value_without_a_canonical_text_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="has no canonical text"):
        encode_canonical({"inside": [value]})


def test_digest_covers_domain_and_payload_and_counts_the_payload() -> None:
    digest = PayloadDigest("domain.v1")
    digest.add("é".encode())
    assert str(digest) == "sha256:" + sha256(b"domain.v1\0\xc3\xa9").hexdigest()
    assert digest.byte_count == 2


def test_digest_does_not_depend_on_the_pieces() -> None:
    whole, pieces = PayloadDigest("d"), PayloadDigest("d")
    whole.add(b"payload")
    for piece in (b"pay", b"", b"load"):
        pieces.add(piece)
    assert (str(whole), whole.byte_count) == (str(pieces), pieces.byte_count)


def test_domain_and_payload_do_not_run_together() -> None:
    one, other = PayloadDigest("ab"), PayloadDigest("a")
    one.add(b"c")
    other.add(b"bc")
    assert str(one) != str(other)
