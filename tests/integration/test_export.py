"""What is exported and imported into an empty store is there again: rows, instants, digests."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.edits import annotate_memory, record_use, restore_memory, revise_memory
from helpers.imports import Importer, counts, edges, record
from helpers.rows import NOW
from helpers.vectors import Json, copy_store

from storage import Store, StoreReader
from storage.digests import digest_record
from storage.errors import AdmissionError
from storage.invariants import check_invariants
from storage.models import DEFAULT_NAMESPACE, Namespace, Status
from storage.namespaces import find_namespace, list_namespaces
from storage.records import read_record
from storage.snapshot_profiles import HISTORY_PROFILE
from storage.snapshots import take_snapshot
from tasks.exporting import ExportReport, export_file
from tasks.importing import ImportReport, import_file

FORMS = ("jsonl", "parquet")
OTHER = Namespace(tenant="a/b", principal="p'", scope="é")
# What a store counts for itself; the digest of the source is that of the file that was read last.
OWN_COLUMNS = {"namespace_id", "text_number", "origin_digest"}
TABLES = {"memories": "id", "revisions": "revision", "evidence": "uri", "relations": "target_id"}
ROWS = "FROM query_table($name) WHERE namespace_id = $namespace_id ORDER BY ALL"
AT = "2025-06-{:02}T12:00:00.12345{}Z"


def at(day: int, digit: int = 6) -> str:
    return AT.format(day, digit)


def evidence(number: int) -> Json:
    return {"uri": f"e://{number}", "digest": "d", "kind": "manual", "occurred_at": at(number)}


FIRST: Json = {
    "revision": 1,
    "kind": "working",
    "status": "candidate",
    "content": 'first words\n\twith "quotes" and 数据库',
    "confidence": 0.1,
    "importance": 0.3,
    "evidence": [evidence(1)],
    "updated_at": at(1),
    **edges(("related_to", "m2")),
}
WHOLE: Json = FIRST | {
    "id": "m1",
    "revision": 3,
    "revision_kind": "corrected",
    "kind": "procedural",
    "status": "superseded",
    "confidence": 0.9,
    "importance": 0.7,
    "salience": 1.7,
    "tags": ["b", "a", "é"],
    "metadata": {"keep": "yes", "empty": "", "json": '{"x": 1}'},
    "pinned": True,
    "evidence": [evidence(2), evidence(1)],
    "created_at": at(1, 1),
    "updated_at": at(9, 2),
    "content_at": at(8, 3),
    "restored_at": at(7, 4),
    "tombstoned_at": at(6, 5),
    "last_accessed_at": at(11, 7),
    "expires_at": "2027-01-01T00:00:00.000001Z",
    "access_count": 2**63 - 1,
    "origin": "store_api",
    "history": [FIRST],
    **edges(("superseded_by", "m3"), ("conflicts_with", "m2")),
}


@pytest.fixture
def load(store: Store, tmp_path: Path) -> Importer:
    return Importer(store, tmp_path / "lines.jsonl", NOW)


def fill(load: Importer) -> None:
    """Fill a store with a memory of every field, and with others of every status."""
    load(
        WHOLE,
        record("m2", status="conflicted", **edges(("conflicts_with", "m1"))),
        record("m3", importance=0.1, salience=0.25),
        *(record(one.value, status=one.value) for one in Status),
        record("m1", namespace=OTHER.model_dump(), content="the same id elsewhere"),
    )
    with load.store.write() as writer:
        revise_memory(writer, 1, "m3", content="third, again", at=NOW)
        annotate_memory(writer, 1, "m3", tags=["later"], pinned=True, at=NOW)
        restore_memory(writer, 1, "tombstoned", at=NOW)
        record_use(writer, 1, "m3", event_id="u1", at=NOW)


def dump(reader: StoreReader) -> dict[tuple[str, ...], list[Json]]:
    """Read the rows of all memories by the names of their namespaces."""
    found: dict[tuple[str, ...], list[Json]] = {}
    for owner in list_namespaces(reader):
        for name in TABLES:
            given = {"name": name, "namespace_id": owner.namespace_id}
            rows = reader.records(ROWS, given)
            kept = [{k: v for k, v in row.items() if k not in OWN_COLUMNS} for row in rows]
            if kept:
                found[*owner.namespace.model_dump().values(), name] = sorted(kept, key=repr)
    return found


def dump_store(store: Store) -> dict[tuple[str, ...], list[Json]]:
    with store.read() as reader:
        assert [check for check in check_invariants(reader) if check.broken] == []
        return dump(reader)


def move(store: Store, folder: Path, form: str) -> tuple[Store, ExportReport, ImportReport]:
    """Export a store and import the file into an empty one."""
    file = folder / f"all.{form}"
    exported = export_file(store, file)
    other = copy_store(folder / "other")
    return other, exported, import_file(other, file, is_strict=True, clock=NOW + timedelta(1))


@pytest.mark.parametrize("form", FORMS, ids=[f"C53-{form}" for form in FORMS])
def test_every_field_comes_back(store: Store, load: Importer, tmp_path: Path, form: str) -> None:
    fill(load)
    before = dump_store(store)
    assert len(before["default", "default", "default", "memories"]) == 8
    other, exported, imported = move(store, tmp_path, form)
    assert (exported.form, exported.memories, exported.namespaces) == (form, 9, 2)
    assert exported.byte_count == exported.path.stat().st_size
    assert exported.warnings == []
    assert counts(imported) == (9, 0, 0, 0)
    assert imported.rejects == imported.warnings == []
    assert dump_store(other) == before


@pytest.mark.parametrize("form", FORMS, ids=[f"C53-{form}" for form in FORMS])
def test_digests_come_back(store: Store, load: Importer, tmp_path: Path, form: str) -> None:
    fill(load)
    other, _, _ = move(store, tmp_path, form)
    assert digests_of(other) == digests_of(store)


def digests_of(store: Store) -> list[object]:
    with store.read() as reader:
        found: list[object] = []
        for namespace in (DEFAULT_NAMESPACE, OTHER):
            owner = find_namespace(reader, namespace)
            assert owner is not None
            shot = take_snapshot(reader, namespace, statuses=list(Status), profile=HISTORY_PROFILE)
            records = [read_record(reader, owner.namespace_id, name) for name in shot.ids]
            found += [shot.digest, *(digest_record(one) for one in records if one is not None)]
        return found


@pytest.mark.parametrize("form", FORMS)
def test_equal_stores_give_equal_files(
    store: Store, load: Importer, tmp_path: Path, form: str
) -> None:
    fill(load)
    other, exported, _ = move(store, tmp_path, form)
    again = tmp_path / f"again.{form}"
    export_file(store, again)
    assert again.read_bytes() == exported.path.read_bytes()
    ids = [line["id"] for line in read_lines(store, tmp_path / "a") if "id" in line]
    assert ids == [line["id"] for line in read_lines(other, tmp_path / "b") if "id" in line]


def read_lines(store: Store, file: Path) -> list[Json]:
    export_file(store, file)
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("form", FORMS)
def test_export_into_its_own_store_changes_nothing(
    store: Store, load: Importer, tmp_path: Path, form: str
) -> None:
    fill(load)
    export_file(store, tmp_path / f"all.{form}")
    before = dump_store(store)
    report = import_file(store, tmp_path / f"all.{form}", clock=NOW)
    assert counts(report) == (0, 9, 0, 0)
    assert dump_store(store) == before


def test_one_namespace_goes_alone(store: Store, load: Importer, tmp_path: Path) -> None:
    fill(load)
    report = export_file(store, tmp_path / "one", namespace=OTHER)
    assert (report.memories, report.namespaces) == (1, 1)
    unknown = Namespace(tenant="t", principal="p", scope="s")
    with pytest.raises(AdmissionError, match="no such namespace"):
        export_file(store, tmp_path / "two", namespace=unknown)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.jsonl", "one", "store"]


def test_empty_store_exports_and_comes_back(store: Store, tmp_path: Path) -> None:
    for form in FORMS:
        report = export_file(store, tmp_path / f"all.{form}")
        assert (report.memories, report.namespaces) == (0, 0)
        assert counts(import_file(store, tmp_path / f"all.{form}", clock=NOW)) == (0, 0, 0, 0)


def test_writers_go_on_and_the_export_is_of_one_moment(
    store: Store, load: Importer, tmp_path: Path
) -> None:
    load(*(record(f"m{number:04}") for number in range(1_001)))

    def write(done: int, _total: int) -> None:
        with store.write() as writer:
            annotate_memory(writer, 1, "m1000", tags=[f"after {done}"], at=NOW)

    report = export_file(store, tmp_path / "all.jsonl", on_progress=write)
    assert report.memories == 1_001
    last = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[-1])
    assert (last["id"], last["revision"], last["tags"]) == ("m1000", 1, [])
    assert dump_store(store)["default", "default", "default", "memories"][-1]["revision"] == 4


def test_parquet_has_typed_columns(store: Store, load: Importer, tmp_path: Path) -> None:
    fill(load)
    export_file(store, tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet")
    instant = pa.timestamp("us", tz="UTC")
    assert {
        table.schema.field(name).type for name in table.column_names if name.endswith("_at")
    } == {instant}
    wanted = {"importance": pa.float32(), "access_count": pa.int64(), "pinned": pa.bool_()}
    assert {name: table.schema.field(name).type for name in wanted} == wanted
    row: dict[str, Any] = next(
        one for one in table.to_pylist() if one["content"] == WHOLE["content"]
    )
    assert row["updated_at"].isoformat() == "2025-06-09T12:00:00.123452+00:00"
    assert json.loads(row["metadata"]) == WHOLE["metadata"]
    assert json.loads(row["history"])[0]["content"] == FIRST["content"]


def test_salience_that_no_import_takes_is_left_out_and_told(
    store: Store, load: Importer, tmp_path: Path
) -> None:
    load(record("a", salience=1.5), record("b"), record("c"))
    with store.write() as writer:
        writer.execute("UPDATE memories SET salience = 'NaN'::FLOAT WHERE id = 'b'")
        writer.execute("UPDATE memories SET salience = 0.0 WHERE id = 'c'")
    other, exported, imported = move(store, tmp_path, "jsonl")
    assert [line.record for line in exported.warnings] == [
        "default/default/default b",
        "default/default/default c",
    ]
    assert counts(imported) == (3, 0, 0, 0)
    with other.read() as reader:
        rows = reader.rows("SELECT id, salience FROM memories ORDER BY id")
    assert rows == [("a", 1.5), ("b", None), ("c", None)]


@pytest.mark.parametrize("form", FORMS)
def test_history_of_any_length_comes_back(
    store: Store, load: Importer, tmp_path: Path, form: str
) -> None:
    past = [{"revision": n, "content": f"{n} "} for n in range(1, 61)]
    load(record("long", revision=61, history=past), record("short"), record("z"))
    with store.write() as writer:
        writer.execute("UPDATE revisions SET content = content || repeat(chr(1), 30000)")
    before = dump_store(store)
    other, exported, imported = move(store, tmp_path, form)
    assert counts(imported) == (3, 0, 0, 0)
    assert dump_store(other) == before
    if form == "jsonl":
        lines = exported.path.read_text().splitlines()
        assert len(lines) > 4
        assert max(map(len, lines)) < 8 * 1024 * 1024
