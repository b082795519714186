"""The reader of memtend's own format: one bad line costs only itself, and is named."""

import json
from datetime import datetime
from pathlib import Path

import pytest
from helpers.imports import write_lines
from helpers.rows import NOW

from storage import Store, create_store
from storage.errors import AdmissionError
from tasks.formats.entries import Entry
from tasks.formats.native import MAX_LINE_BYTES, read_native
from tasks.importing import import_file

HEADER = {"format": "memtend.memories", "version": 1}
GOOD = {"id": "m1", "content": "text"}
NOT_JSON = ("line", "not JSON")
BAD_LINES = {
    "broken": ('{"content": "x"', NOT_JSON),
    "NaN": ('{"id": "a", "importance": NaN}', NOT_JSON),
    "Infinity": ('{"id": "a", "importance": Infinity}', NOT_JSON),
    "minus-Infinity": ('{"id": "a", "importance": -Infinity}', NOT_JSON),
    "two-values": ('{"id": "a"} {"id": "b"}', NOT_JSON),
    "too-deep": ("[" * 100_000, NOT_JSON),
    "too-many-digits": ('{"id": "a", "access_count": ' + "1" * 5_000 + "}", NOT_JSON),
    "not-UTF-8": (b'{"id": "\xff"}', ("line", "not UTF-8")),
    "list": ("[1]", ("line", "not a JSON object")),
    "text": ('"m1"', ("line", "not a JSON object")),
    "null": ("null", ("line", "not a JSON object")),
    "no-id": ('{"content": "x"}', ("id", "is required")),
    "header-late": (json.dumps(HEADER), ("id", "is required")),
}


@pytest.fixture(scope="module")
def refusing_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Give a store for all files of the module that bring nothing in."""
    return create_store(tmp_path_factory.mktemp("refusing") / "store", clock=NOW)[0]


def read(path: Path) -> list[Entry]:
    return [entry for entry, _ in read_native(path)]


def refs(entries: list[Entry]) -> list[str | int]:
    return [entry.ref for entry in entries]


def test_file_without_header_is_read_line_by_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "f", GOOD, GOOD | {"id": "m2"})
    assert [(entry.ref, entry.values) for entry in read(path)] == [
        (1, GOOD),
        (2, GOOD | {"id": "m2"}),
    ]


def test_header_is_no_record(tmp_path: Path) -> None:
    assert refs(read(write_lines(tmp_path / "f", HEADER, GOOD))) == [2]


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"version": "1"}, {"version": None}, {"format": "other.memories"}]
)
def test_other_version_is_refused_as_a_whole(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_lines(tmp_path / "f", HEADER | change, GOOD)
    with pytest.raises(AdmissionError, match=r"record 1: format: .*version 1"):
        read(path)


def test_empty_file_has_no_records(tmp_path: Path) -> None:
    assert read(write_lines(tmp_path / "f")) == []


def test_blank_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "f", "", GOOD, "  ", "\t", GOOD)
    assert refs(read(path)) == [2, 5]


@pytest.mark.parametrize("text", [b'{"id": "a"}', b'{"id": "a"}\r\n', b'\xef\xbb\xbf{"id": "a"}\n'])
def test_last_line_break_and_byte_order_mark_do_not_matter(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "f").write_bytes(text)
    assert [entry.values for entry in read(tmp_path / "f")] == [{"id": "a"}]


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_line_costs_only_itself_and_is_named(tmp_path: Path, name: str) -> None:
    line, said = BAD_LINES[name]
    first, bad, last = read(write_lines(tmp_path / "f", GOOD, line, GOOD))
    assert first.values == last.values == GOOD
    assert bad.values is None
    assert [(fault.record, fault.field, fault.reason) for fault in bad.rejects] == [(2, *said)]


def test_line_over_the_limit_costs_only_itself(tmp_path: Path) -> None:
    long = json.dumps(GOOD | {"content": "x" * 2 * MAX_LINE_BYTES})
    first, bad, last = read(write_lines(tmp_path / "f", GOOD, long, GOOD))
    assert first.values == last.values == GOOD
    assert (bad.ref, last.ref) == (2, 3)
    assert bad.rejects[0].reason == f"longer than {MAX_LINE_BYTES} bytes"


def test_line_at_the_limit_is_read(tmp_path: Path) -> None:
    text = json.dumps(GOOD)
    line = text + " " * (MAX_LINE_BYTES - len(text) - len("\n"))
    assert [entry.values for entry in read(write_lines(tmp_path / "f", line))] == [GOOD]


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "f", HEADER, GOOD, "broken", GOOD)
    sizes = [done for _, done in read_native(path)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == path.stat().st_size


@pytest.mark.parametrize("is_strict", [False, True], ids=["C54-tolerant", "C54-strict"])
def test_good_lines_go_in_and_bad_lines_are_named(
    store: Store, tmp_path: Path, now: datetime, is_strict: bool
) -> None:
    surrogate = r'{"id": "m3", "content": "a\ud800"}'
    lines = [GOOD, '{"content": "x"', surrogate, {"content": "x"}, GOOD | {"id": "m5"}]
    path = write_lines(tmp_path / "f", *lines)
    report = import_file(store, path, is_strict=is_strict, clock=now)
    assert (report.read, report.imported, report.rejected) == (5, 0 if is_strict else 2, 3)
    assert [(fault.record, fault.field) for fault in report.rejects] == [
        (2, "line"),
        (3, "content"),
        (4, "id"),
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("importance", "NaN", id="C16-text-NaN"),
        pytest.param("importance", 7, id="C16-7"),
        pytest.param("importance", "high", id="C16-high"),
        pytest.param("importance", -1, id="C16-minus-1"),
        pytest.param("importance", True, id="C16-true"),
        pytest.param("importance", None, id="C16-null"),
        pytest.param("owner", "kim", id="unknown-field"),
        pytest.param("tags", "keep", id="tags-as-text"),
        pytest.param("pinned", 1, id="pin-as-number"),
        pytest.param("created_at", 1767225600, id="epoch-seconds"),
    ],
)
def test_bad_field_is_rejected_and_never_mended(
    refusing_store: Store, tmp_path: Path, now: datetime, field: str, value: object
) -> None:
    path = write_lines(tmp_path / "f", GOOD | {field: value})
    report = import_file(refusing_store, path, clock=now)
    assert (report.imported, report.rejected) == (0, 1)
    assert [(fault.record, fault.field) for fault in report.rejects] == [(1, field)]


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        ({"metadata": {"secret-key": 1}}, "metadata"),
        ({"history": [{"content": "x", "metadata": {"secret-key": 1}}]}, "history.0.metadata"),
        ({"history": [{"content": "x", "owner": 1}]}, "history.0.owner"),
        ({"tags": ["fine", "\t"]}, "tags.1"),
        ({"evidence": [{"uri": "e://1"}]}, "evidence.0.digest"),
        ({"namespace": {"tenant": "t", "principal": "p"}}, "namespace.scope"),
        ({"\x1b[2J": 1}, "?[2J"),
    ],
)
def test_field_is_named_by_its_path_and_metadata_keys_are_not_told(
    refusing_store: Store, tmp_path: Path, now: datetime, broken: dict[str, object], field: str
) -> None:
    path = write_lines(tmp_path / "f", GOOD | broken)
    assert import_file(refusing_store, path, clock=now).rejects[0].field == field
