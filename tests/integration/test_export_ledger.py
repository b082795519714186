"""What a store knows of a memory beside its states is in the file, and comes back with it (C53)."""

from pathlib import Path

import pytest
from helpers.edits import annotate_memory, record_use
from helpers.imports import Importer, counts, edges, record
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.vectors import Json, copy_store
from pydantic import ValidationError

from storage import Store
from storage.digests import encode_json
from storage.exporting import read_values
from storage.exporting_ledger import Ledger, attach_ledgers
from storage.merge_sources import Sources, add_sources
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import find_namespace
from tasks.exporting import export_file
from tasks.importing import import_file

FORMS = ("jsonl", "parquet")
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
TABLES = ("access_events", "merge_sources", "merge_receipts", "kept_apart")
ALL_TABLES = ("memories", "revisions", "evidence", "relations", *TABLES)
COLUMNS = """
SELECT column_name
FROM information_schema.columns
WHERE table_name = 'memories'
ORDER BY ordinal_position
"""


@pytest.fixture
def merged(store: Store, tmp_path: Path) -> Store:
    """Give a store with a memory that has taken another one in, was used, and is no third one."""
    load_memories(store, tmp_path)
    with store.write() as writer:
        for name in ("e2", "e1"):
            record_use(writer, 1, "kept", event_id=name, at=NOW)
        annotate_memory(writer, 1, "other", pinned=True, at=NOW)
        add_sources(writer, 1, [Sources("kept", 2, ("lost", "older"), '{"key":{"from":"lost"}}')])
        writer.execute(ADD_RECEIPT, {"figures": encode_json(FIGURES), "at": NOW})
        writer.execute(ADD_MARK, {"at": NOW})
    return store


def load_memories(store: Store, folder: Path) -> None:
    Importer(store, folder / "lines", NOW)(
        record("kept", revision=2, revision_kind="merged", **edges(("supersedes", "lost"))),
        record("lost", status="superseded"),
        record("other"),
    )


def read_ledgers(store: Store) -> dict[str, Json]:
    with store.read() as reader:
        owner = find_namespace(reader, DEFAULT_NAMESPACE)
        assert owner is not None
        return {values["id"]: values["ledger"] for values in read_values(reader, owner)}


def dump(store: Store) -> dict[str, list[tuple[object, ...]]]:
    tables = dump_tables(store)
    return {name: tables[name] for name in TABLES}


def dump_all(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Dump every table about memories; the numbers of texts are each store's own."""
    tables = dump_tables(store)
    with store.read() as reader:
        number = [name for (name,) in reader.rows(COLUMNS)].index("text_number")
    tables["memories"] = [row[:number] + row[number + 1 :] for row in tables["memories"]]
    return {name: tables[name] for name in ALL_TABLES}


def attach(store: Store, ledgers: dict[str, Json]) -> None:
    parsed = {name: Ledger.model_validate(values) for name, values in ledgers.items()}
    with store.write() as writer:
        attach_ledgers(writer, 1, parsed)


def test_ledger_says_what_was_used_merged_and_kept_apart(merged: Store) -> None:
    ledger = read_ledgers(merged)["kept"]
    assert [event["event_id"] for event in ledger["access_events"]] == ["e1", "e2"]
    assert [one["source_id"] for one in ledger["merge_sources"]] == ["lost", "older"]
    assert ledger["merge_sources"][0]["losses"] == {"key": {"from": "lost"}}
    (receipt,) = ledger["merge_receipts"]
    assert (receipt["losers"], receipt["figures"]) == (
        {"lost": 2},
        FIGURES,
    )
    assert [mark["partner_id"] for mark in ledger["kept_apart"]] == ["other"]
    assert ledger["origin_digest"].startswith("sha256:")


def test_memory_that_nobody_used_has_its_origin_only(merged: Store) -> None:
    assert read_ledgers(merged)["lost"].keys() == {"origin_digest"}


def test_attached_ledger_makes_equal_rows(merged: Store, tmp_path: Path) -> None:
    other = copy_store(tmp_path / "other")
    load_memories(other, tmp_path)
    ledgers = read_ledgers(merged)
    attach(other, ledgers)
    assert dump(other) == dump(merged)
    assert read_ledgers(other) == ledgers


def test_what_the_store_has_already_stays(merged: Store) -> None:
    before = dump(merged)
    ledgers = read_ledgers(merged)
    del ledgers["kept"]["merge_sources"]
    ledgers["kept"]["access_events"][0]["actor"] = "somebody else"
    attach(merged, ledgers)
    assert dump(merged) == before


def test_ledger_of_no_memory_is_left_out(merged: Store, tmp_path: Path) -> None:
    other = copy_store(tmp_path / "other")
    attach(other, read_ledgers(merged))
    assert not any(dump(other).values())


def test_repeated_items_are_attached_once(merged: Store, tmp_path: Path) -> None:
    other = copy_store(tmp_path / "other")
    load_memories(other, tmp_path)
    ledger = read_ledgers(merged)["kept"]
    doubled = {name: ledger[name] * 2 for name in TABLES}
    turned = {**ledger["kept_apart"][0], "partner_id": "kept"}
    attach(other, {"kept": doubled, "other": {"kept_apart": [turned]}})
    assert dump(other) == dump(merged)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("access_events", {"event_kind": "read"}),
        ("access_events", {"revision": 0}),
        ("access_events", {"event_id": "\x00"}),
        ("merge_sources", {"losses": "{}"}),
        ("merge_sources", {"position": -1}),
        ("merge_receipts", {"figures": {}}),
        ("merge_receipts", {"figures": FIGURES | {"former_revision": "1"}}),
        ("merge_receipts", {"figures": FIGURES | {"created_at": None}}),
        ("merge_receipts", {"figures": FIGURES | {"merged_accessed_at": "soonish"}}),
        ("merge_receipts", {"losers": ["lost"]}),
        ("merge_receipts", {"owner": "kim"}),
        ("kept_apart", {"content_digest": "x"}),
    ],
)
def test_ledger_that_no_export_writes_is_refused(merged: Store, name: str, change: Json) -> None:
    ledger = read_ledgers(merged)["kept"]
    Ledger.model_validate(ledger)
    ledger[name][0] |= change
    with pytest.raises(ValidationError):
        Ledger.model_validate(ledger)


@pytest.mark.parametrize("form", FORMS, ids=[f"C53-{form}" for form in FORMS])
def test_all_rows_about_memories_come_back(merged: Store, tmp_path: Path, form: str) -> None:
    export_file(merged, tmp_path / f"all.{form}")
    other = copy_store(tmp_path / "other")
    report = import_file(other, tmp_path / f"all.{form}", is_strict=True, clock=NOW)
    assert counts(report) == (3, 0, 0, 0)
    assert dump_all(other) == dump_all(merged)
    again = import_file(other, tmp_path / f"all.{form}", is_strict=True, clock=NOW)
    assert counts(again) == (0, 3, 0, 0)
    assert dump_all(other) == dump_all(merged)


def test_source_that_is_imported_again_is_unchanged_after_the_move(
    merged: Store, tmp_path: Path
) -> None:
    """The digest of what the source said travels, so a nightly import goes on as before."""
    export_file(merged, tmp_path / "all")
    other = copy_store(tmp_path / "other")
    import_file(other, tmp_path / "all", clock=NOW)
    assert counts(import_file(other, tmp_path / "lines", clock=NOW)) == (0, 3, 0, 0)


def test_memory_that_is_known_keeps_its_own_ledger(merged: Store, tmp_path: Path) -> None:
    export_file(merged, tmp_path / "all")
    with merged.write() as writer:
        writer.execute("DELETE FROM merge_sources")
    before = dump_all(merged)
    assert counts(import_file(merged, tmp_path / "all", clock=NOW)) == (0, 3, 0, 0)
    assert dump_all(merged) == before


def test_bad_ledger_is_rejected_with_its_memory(store: Store, tmp_path: Path) -> None:
    lines = [record("a", ledger={"origin_digest": "x"}), record("b", ledger=[]), record("c")]
    report = Importer(store, tmp_path / "lines", NOW)(*lines)
    assert counts(report) == (1, 0, 0, 2)
    assert [fault.record for fault in report.rejects] == [1, 2]
