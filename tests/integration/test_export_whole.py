"""C53: an import brings the ledgers back, so that every table of memories has equal rows."""

from pathlib import Path

import pytest
from helpers.edits import annotate_memory, record_use
from helpers.imports import Importer, counts, edges, record
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.vectors import copy_store

from storage import Store
from storage.digests import encode_json
from storage.merge_sources import Sources, add_sources
from tasks.exporting import export_file
from tasks.importing import import_file

TABLES = (
    "memories",
    "revisions",
    "evidence",
    "relations",
    "access_events",
    "merge_sources",
    "merge_receipts",
    "kept_apart",
)
FIGURES = {
    "former_revision": 1,
    "former_uses": 0,
    "merged_uses": 2,
    "created_at": "2025-01-01T00:00:00.000000Z",
    "content_at": "2025-01-01T00:00:00.000000Z",
    "last_accessed_at": None,
    "merged_accessed_at": None,
}
ADD_RECEIPT = """
INSERT INTO merge_receipts BY NAME
SELECT
    'r1' AS receipt_id, 7 AS position, 1 AS namespace_id, 'p1' AS plan_id, 'run1' AS run_id,
    'kept' AS canonical_id, 2 AS revision, '{"lost":2}' AS losers, $figures AS figures,
    $at AS applied_at
"""
ADD_MARK = """
INSERT INTO kept_apart BY NAME
SELECT
    1 AS namespace_id, 'kept' AS memory_id, 'other' AS partner_id,
    repeat('a', 64) AS content_digest, repeat('b', 64) AS partner_digest, $at AS noted_at
"""
FORMS = ("jsonl", "parquet")


@pytest.fixture
def source(store: Store, tmp_path: Path) -> Store:
    """Give a store whose memories were imported, used and merged."""
    Importer(store, tmp_path / "lines", NOW)(
        record("kept", revision=2, revision_kind="merged", **edges(("supersedes", "lost"))),
        record("lost", status="superseded"),
        record("other"),
    )
    with store.write() as writer:
        record_use(writer, 1, "kept", event_id="e1", at=NOW)
        annotate_memory(writer, 1, "other", pinned=True, at=NOW)
        add_sources(writer, 1, [Sources("kept", 2, ("lost", "older"), '{"key":{"from":"lost"}}')])
        writer.execute(ADD_RECEIPT, {"figures": encode_json(FIGURES), "at": NOW})
        writer.execute(ADD_MARK, {"at": NOW})
    return store


def dump(store: Store) -> dict[str, list[tuple[object, ...]]]:
    tables = dump_tables(store)
    with store.read() as reader:
        names = "SELECT column_name FROM information_schema.columns WHERE table_name = 'memories'"
        columns = [row[0] for row in reader.rows(f"{names} ORDER BY ordinal_position")]
    number = columns.index("text_number")
    tables["memories"] = [
        tuple(value for place, value in enumerate(row) if place != number)
        for row in tables["memories"]
    ]
    return {name: tables[name] for name in TABLES}


@pytest.mark.parametrize("form", FORMS, ids=[f"C53-{form}" for form in FORMS])
def test_all_rows_about_memories_come_back(source: Store, tmp_path: Path, form: str) -> None:
    export_file(source, tmp_path / f"all.{form}")
    other = copy_store(tmp_path / "other")
    report = import_file(other, tmp_path / f"all.{form}", is_strict=True, clock=NOW)
    assert counts(report) == (3, 0, 0, 0)
    assert dump(other) == dump(source)
    again = import_file(other, tmp_path / f"all.{form}", is_strict=True, clock=NOW)
    assert counts(again) == (0, 3, 0, 0)
    assert dump(other) == dump(source)


def test_source_that_is_imported_again_is_unchanged_after_the_move(
    source: Store, tmp_path: Path
) -> None:
    """The digest of what the source said travels, so a nightly import goes on as before."""
    export_file(source, tmp_path / "all")
    other = copy_store(tmp_path / "other")
    import_file(other, tmp_path / "all", clock=NOW)
    assert counts(import_file(other, tmp_path / "lines", clock=NOW)) == (0, 3, 0, 0)


def test_memory_that_is_known_keeps_its_own_ledger(source: Store, tmp_path: Path) -> None:
    export_file(source, tmp_path / "all")
    with source.write() as writer:
        writer.execute("DELETE FROM merge_sources")
    before = dump(source)
    assert counts(import_file(source, tmp_path / "all", clock=NOW)) == (0, 3, 0, 0)
    assert dump(source) == before


def test_bad_ledger_is_rejected_with_its_memory(store: Store, tmp_path: Path) -> None:
    lines = [record("a", ledger={"origin_digest": "x"}), record("b", ledger=[]), record("c")]
    report = Importer(store, tmp_path / "lines", NOW)(*lines)
    assert counts(report) == (1, 0, 0, 2)
    assert [fault.record for fault in report.rejects] == [1, 2]
