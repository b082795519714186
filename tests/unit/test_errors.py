"""Texts of errors are one line of valid UTF-8, at most 1024 bytes; the facts stay as they are."""

import pytest

from storage.errors import AdmissionError, StoreNotFoundError


@pytest.mark.parametrize(
    ("given", "size", "length"),
    [
        pytest.param("é" * 2500, 1024, 512, id="V47"),
        pytest.param("a" + "é" * 2500, 1023, 512, id="V48"),
        pytest.param("€" * 1700, 1023, 341, id="V49"),
        pytest.param("😀" * 1300, 1024, 256, id="V50"),
        pytest.param("x" * 1024, 1024, 1024, id="V51-at-the-limit"),
        pytest.param("x" * 1025, 1024, 1024, id="V51-over-the-limit"),
        pytest.param("x" * 1023 + "é", 1023, 1023, id="V52-no-half-character"),
        pytest.param("x" * 1022 + "é", 1024, 1023, id="V52-whole-character"),
    ],
)
def test_text_is_cut_at_a_border_of_characters(given: str, size: int, length: int) -> None:
    text = str(AdmissionError(given, "reason")).removesuffix(": reason")
    assert (len(text.encode()), len(text)) == (size, length)
    assert given.startswith(text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param("line1\nline2\t\x00end", "line1 line2  end", id="V53"),
        pytest.param("a\ud800b", "a\ufffdb", id="V54"),
        pytest.param("a\x7f\x85b", "a  b", id="all-of-Cc"),
    ],
)
def test_text_is_one_line_of_valid_characters(given: str, text: str) -> None:
    error = StoreNotFoundError(given)
    assert str(error) == f"there is no store at {text}; create it with: memtend init"
    assert error.facts == {"store": given}
