"""Keep marks match whole words after trimming and lower-casing A-Z, and nothing else."""

import json

import pytest
from helpers.rows import memory_table

from storage.marks import find_marks
from storage.memories import encode_labels


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param([], [], id="P01-none"),
        pytest.param(["keep"], ["tag:keep"], id="P17-keep"),
        pytest.param(["x", "pinned"], ["tag:pinned"], id="P17-pinned"),
        pytest.param(["protected"], ["tag:protected"], id="P17-protected"),
        pytest.param(["consolidated"], ["tag:consolidated"], id="P17-consolidated"),
        pytest.param(["conflict"], ["tag:conflict"], id="P17-conflict"),
        pytest.param(["Pinned", " KEEP "], ["tag:keep", "tag:pinned"], id="P18-case-and-blanks"),
        pytest.param(["\t\n\v\f\rkeep\r\f\v\n\t"], ["tag:keep"], id="P18-all-six-blanks"),
        pytest.param(["keep", "KEEP"], ["tag:keep"], id="P18-named-once"),
        pytest.param(["keepsake", "keep-me", "unpinned"], [], id="P19-parts-of-words"),
        pytest.param(["keep pinned", "k e e p"], [], id="P19-several-words"),
        pytest.param(["P\u0130NNED"], [], id="P20-dotted-capital-i"),
        pytest.param(["\u212aeep"], [], id="P20-kelvin-sign"),
        pytest.param(["\u00a0keep\u00a0"], [], id="P20-no-break-space"),
        pytest.param(["\uff4b\uff45\uff45\uff50"], [], id="P20-wide-letters"),
        pytest.param(["keep\x1f"], [], id="P20-other-control-character"),
        pytest.param(["true", "supersedes", "subject:x"], [], id="words-of-metadata"),
    ],
)
def test_tags_are_marks_by_equality(tags: list[str], expected: list[str]) -> None:
    assert find_marks(tags, {}) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"keep": " TRUE "}, ["metadata:keep"], id="P22-keep-true"),
        pytest.param({"pinned": "keep"}, ["metadata:pinned"], id="P22-pinned-keep"),
        pytest.param({"protected": "1"}, ["metadata:protected"], id="P22-protected-1"),
        pytest.param({"keep": "yes"}, ["metadata:keep"], id="P22-keep-yes"),
        pytest.param({"Pinned": "true"}, ["metadata:pinned"], id="P22-capital-key"),
        pytest.param({" pinned ": "Protected"}, ["metadata:pinned"], id="P22-blanks-round-key"),
        pytest.param({"keep": "false"}, [], id="P23-false"),
        pytest.param({"keep": "0"}, [], id="P23-0"),
        pytest.param({"keep": "2"}, [], id="P23-2"),
        pytest.param({"keep": "no"}, [], id="P23-no"),
        pytest.param({"keep": ""}, [], id="P23-empty"),
        pytest.param({"keep": "on"}, [], id="P23-on"),
        pytest.param({"keeper": "true"}, [], id="P23-keeper"),
        pytest.param({"keep": "tr\u00fce"}, [], id="P23-non-ascii-value"),
        pytest.param({"\u212aeep": "true"}, [], id="P23-non-ascii-key"),
        pytest.param({"consolidated": "true"}, [], id="P23-word-of-tags"),
        pytest.param({"supersedes": ""}, [], id="P24-empty-link"),
        pytest.param({"supersedes": "  \t"}, [], id="P24-blank-link"),
        pytest.param({"conflicts_with": "x"}, ["metadata:conflicts_with"], id="P24-conflicts"),
        pytest.param({"supersedes": "old, older"}, ["metadata:supersedes"], id="P24-two-links"),
        pytest.param({"supersedes": "175"}, ["metadata:supersedes"], id="P24-number"),
        pytest.param({"SUPERSEDES": "\u00e9"}, ["metadata:supersedes"], id="P24-non-ascii-link"),
        pytest.param({"superseded_by": "x"}, [], id="P25-superseded-by"),
        pytest.param({"duplicate_count": "4"}, [], id="P25-duplicate-count"),
        pytest.param({"keep": "no", "KEEP": "yes"}, ["metadata:keep"], id="either-spelling"),
    ],
)
def test_metadata_is_a_mark_by_key_and_value(metadata: dict[str, str], expected: list[str]) -> None:
    assert find_marks([], metadata) == expected


def test_marks_stand_in_order_tags_first() -> None:
    metadata = {"supersedes": "x", "keep": "1", "conflicts_with": "y"}
    assert find_marks(["protected", "conflict"], metadata) == [
        "tag:conflict",
        "tag:protected",
        "metadata:conflicts_with",
        "metadata:keep",
        "metadata:supersedes",
    ]


def test_labels_are_encoded_with_their_marks() -> None:
    assert encode_labels(["b", "keep", "a"], {"z": "\u00e9", "a": '"'}) == {
        "tags": '["b","keep","a"]',
        "metadata": '{"a":"\\"","z":"\u00e9"}',
        "marks": '["tag:keep"]',
    }


def test_rows_of_tests_carry_their_marks() -> None:
    rows = memory_table({"tags": ["keep"]}, {"metadata": {"pinned": "1"}}, {"marks": "[]"})
    marks = [json.loads(text) for text in rows.column("marks").to_pylist()]
    assert marks == [["tag:keep"], ["metadata:pinned"], []]
