"""The reader of Forgetful's backups: odd tables and rows are named, none stops the others."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.imports import forgetful_row, write_backup, write_lines

from storage import Store
from storage.errors import AdmissionError
from storage.models import MemoryRecord
from tasks.formats.entries import Entry
from tasks.formats.forgetful import read_forgetful
from tasks.importing import import_file

IN_TEXT: dict[str, object] = {"null": None, '"null"': "null", "empty": "[]", "list": []}
NO_LISTS = {"broken": "[", "object": '{"a": 1}', "numbers": "[1]", "deep": "[" * 100_000, "one": 1}
NO_BACKUPS = {
    "broken": "{",
    "list": "[]",
    "no-data": '{"export_metadata": {}}',
    "no-memories": '{"data": {}}',
    "memories-null": '{"data": {"memories": null}}',
    "memories-object": '{"data": {"memories": {"id": 1}}}',
    "too-deep": "[" * 100_000,
    "not-UTF-8": b"\xff\xfe\xff",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "backup.json"


def read_one(path: Path, **changes: object) -> Entry:
    (entry,), _ = read_forgetful(write_backup(path, forgetful_row(**changes)))
    return entry


def read_values(path: Path, **changes: object) -> dict[str, object]:
    entry = read_one(path, **changes)
    assert entry.values is not None, entry.rejects
    return entry.values


def edges(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"kind": kind, "target_id": target} for kind, target in pairs]


def test_row_becomes_one_episodic_memory(path: Path) -> None:
    assert read_values(path) == {
        "id": "1",
        "kind": "episodic",
        "status": "active",
        "content": "Deploys happen on Mondays.",
        "importance": 0.7,
        "confidence": 0.9,
        "tags": ["ops"],
        "metadata": {
            "title": "Deploys",
            "context": "from the handbook",
            "keywords": '["deploy", "monday"]',
            "source.user_id": "u1",
        },
        "created_at": "2026-01-01 19:00:47.674173",
        "content_at": "2026-01-01 19:00:47.674173",
        "updated_at": "2026-01-01 19:00:47.674180",
        "relations": [],
    }


def test_naive_stamps_are_utc(path: Path) -> None:
    record = MemoryRecord.model_validate(read_values(path))
    assert record.created_at == datetime(2026, 1, 1, 19, 0, 47, 674173, tzinfo=UTC)


@pytest.mark.parametrize(("given", "scaled"), [(1, 0.1), (5, 0.5), (7, 0.7), (10, 1.0)])
def test_importance_is_scaled_from_ten(path: Path, given: int, scaled: float) -> None:
    assert read_values(path, importance=given)["importance"] == scaled


@pytest.mark.parametrize("given", [0, 11, -1, 7.5, 7.0, "7", "high", True, False, None, [7]])
def test_importance_off_the_scale_is_refused(path: Path, given: object) -> None:
    entry = read_one(path, importance=given)
    assert entry.values is None
    assert [(fault.record, fault.field) for fault in entry.rejects] == [
        ("memories[0]", "importance")
    ]


def test_importance_that_is_not_a_number_is_refused(path: Path) -> None:
    assert read_one(path, importance=float("nan")).rejects[0].field == "importance"


def test_absent_confidence_is_left_to_the_default(path: Path) -> None:
    assert "confidence" not in read_values(path, confidence=None)


@pytest.mark.parametrize("given", IN_TEXT.values(), ids=IN_TEXT)
def test_absent_lists_are_empty(path: Path, given: object) -> None:
    values = read_values(path, tags=given, keywords=given)
    assert values["tags"] == []
    assert "keywords" not in str(values["metadata"])


def test_tags_are_trimmed_and_blanks_dropped(path: Path) -> None:
    assert read_values(path, tags='[" ops ", "", " ", "Ops"]')["tags"] == ["ops", "Ops"]


@pytest.mark.parametrize("field", ["tags", "keywords"])
@pytest.mark.parametrize("given", NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_no_list_is_refused_by_name(path: Path, field: str, given: object) -> None:
    entry = read_one(path, **{field: given})
    assert entry.values is None
    assert entry.rejects[0].field == field


def test_other_fields_become_metadata_as_text(path: Path) -> None:
    files, rating = '["a.py"]', {"stars": 5}
    values = read_values(path, source_files=files, source_repo="r", source_url=None, rating=rating)
    assert isinstance(values["metadata"], dict)
    found = {key: value for key, value in values["metadata"].items() if key.startswith("source.")}
    assert found == {
        "source.user_id": "u1",
        "source.source_files": files,
        "source.source_repo": "r",
        "source.rating": '{"stars": 5}',
    }


def test_obsolete_row_with_a_successor_is_superseded(path: Path) -> None:
    values = read_values(path, is_obsolete=1, superseded_by=175)
    assert values["status"] == "superseded"
    assert values["relations"] == edges(("superseded_by", "175"))


@pytest.mark.parametrize("obsoleted_at", ["2026-02-01 00:00:00", None])
def test_obsolete_row_without_a_successor_is_tombstoned(
    path: Path, obsoleted_at: str | None
) -> None:
    values = read_values(path, is_obsolete=1, obsoleted_at=obsoleted_at)
    assert values["status"] == "tombstoned"
    assert values["tombstoned_at"] == (obsoleted_at or values["updated_at"])
    assert values["relations"] == []


def test_links_become_edges_of_their_source(path: Path) -> None:
    links = [{"source_id": 1, "target_id": 2}, {"source_id": 1, "target_id": 3}]
    rows = [forgetful_row(id=number) for number in (1, 2)]
    entries, notes = read_forgetful(write_backup(path, *rows, memory_links=links))
    listed = [entry.values["relations"] for entry in entries if entry.values]
    assert listed == [edges(("related_to", "2"), ("related_to", "3")), []]
    assert notes == []


@pytest.mark.parametrize(
    "link",
    [{"source_id": 1, "target_id": 1}, {"source_id": 9, "target_id": 1}, {}, "1-2", None],
    ids=["to-itself", "of-no-memory", "empty", "text", "null"],
)
def test_odd_link_is_noted_and_costs_no_memory(path: Path, link: object) -> None:
    entries, notes = read_forgetful(write_backup(path, forgetful_row(), memory_links=[link]))
    assert [note.record for note in notes] == ["data.memory_links[0]"]
    assert entries[0].values is not None
    assert entries[0].values["relations"] == []


def test_row_that_supersedes_itself_has_no_edge(path: Path) -> None:
    values = read_values(path, is_obsolete=1, superseded_by=1)
    assert (values["status"], values["relations"]) == ("superseded", [])


def test_project_of_a_memory_is_kept_by_name(path: Path) -> None:
    projects = [{"id": 4, "name": "Apollo"}, {"id": 5, "name": None}, "odd"]
    pairs = [{"memory_id": 1, "project_id": 4}, {"memory_id": 2, "project_id": 5}, None]
    rows = [forgetful_row(id=number) for number in (1, 2)]
    tables = {"projects": projects, "memory_project_association": pairs}
    entries, _ = read_forgetful(write_backup(path, *rows, **tables))
    names = [entry.values["metadata"].get("project") for entry in entries if entry.values]
    assert names == ["Apollo", None]


def test_tables_that_are_not_imported_are_named(path: Path) -> None:
    tables = {
        "users": {"id": 1},
        "code_artifact_association": None,
        "memory_links": None,
        "projects": "odd",
        "entities": [{"id": 1}],
        "documents": [],
    }
    entries, notes = read_forgetful(write_backup(path, forgetful_row(), **tables))
    assert len(entries) == 1
    assert {note.field: note.reason for note in notes} == {
        "code_artifact_association": "is null instead of a list; not imported",
        "entities": "1 rows; not imported",
        "memory_links": "is null instead of a list; not imported",
        "projects": "is a value instead of a list; not imported",
        "users": "is one object instead of a list; not imported",
    }


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (7, "memory"),
        (None, "memory"),
        ([], "memory"),
        *(({"id": bad}, "id") for bad in (None, 1.5, True)),
    ],
)
def test_odd_row_is_named_by_its_place(path: Path, row: object, field: str) -> None:
    entries, _ = read_forgetful(write_backup(path, forgetful_row(), row, forgetful_row(id=3)))
    assert [entry.ref for entry in entries if entry.values] == ["memories[0]", "memories[2]"]
    assert [(fault.record, fault.field) for fault in entries[1].rejects] == [("memories[1]", field)]


def test_row_nested_as_deep_as_json_allows_is_read(path: Path) -> None:
    text = json.dumps({"data": {"memories": [forgetful_row(deep="HERE")]}})
    for depth in range(880, 1_000):
        path.write_text(text.replace('"HERE"', "[" * depth + "]" * depth), encoding="utf-8")
        try:
            (entry,), _ = read_forgetful(path)
        except AdmissionError:
            break
        assert entry.values is not None


@pytest.mark.parametrize("text", NO_BACKUPS.values(), ids=NO_BACKUPS)
def test_what_is_no_backup_is_refused_as_a_whole(path: Path, text: str | bytes) -> None:
    write_lines(path, text)
    with pytest.raises(AdmissionError):
        read_forgetful(path)


@pytest.mark.parametrize("start", ["", "\ufeff", "\n  "])
@pytest.mark.parametrize("order", [("export_metadata", "data"), ("data", "export_metadata")])
def test_backup_is_recognised_by_its_beginning(
    store: Store, path: Path, now: datetime, start: str, order: tuple[str, str]
) -> None:
    parts = {"export_metadata": {}, "data": {"memories": [forgetful_row()]}}
    path.write_text(start + json.dumps({name: parts[name] for name in order}), encoding="utf-8")
    report = import_file(store, path, clock=now)
    assert (report.format, report.imported) == ("forgetful", 1)


def test_memories_that_speak_of_backups_are_no_backup(
    store: Store, path: Path, now: datetime
) -> None:
    metadata = {"export_metadata": "x"}
    write_lines(path, {"id": "m1", "content": '"export_metadata"', "metadata": metadata})
    report = import_file(store, path, clock=now)
    assert (report.format, report.imported) == ("memtend", 1)
