"""Every record of a file is admitted once, or named with the reason; nobody else moves."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.edits import annotate_memory, record_use
from helpers.imports import (
    OLD,
    Importer,
    counts,
    forgetful_row,
    record,
    related_to,
    write_backup,
)
from helpers.runs import dump_tables, read_rows, request_job, run_one
from helpers.vectors import Json, copy_store

from storage import Store
from storage.admission import Reject
from storage.errors import AdmissionError
from storage.memories import count_memories, list_live
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import find_namespace, list_namespaces, read_sequence
from tasks.importing import import_file
from tasks.policies import PrunePolicy, SweepPolicy

CANARY = "canary-4711"
OTHER = Namespace(tenant="t", principal="p", scope="s")
ELSEWHERE = OTHER.model_dump()
HOSTILE = ("x' OR 1=1 --", "%", '"; DROP TABLE memories; --', "it's_a_note", "$id", "[red]x[/red]")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Give an empty store."""
    return copy_store(tmp_path / "store")


@pytest.fixture
def load(store: Store, tmp_path: Path, now: datetime) -> Importer:
    return Importer(store, tmp_path / "lines.jsonl", now)


def read(store: Store, namespace: Namespace = DEFAULT_NAMESPACE) -> dict[str, Json]:
    return read_rows(store, namespace)


def test_same_file_twice_changes_nothing(store: Store, load: Importer) -> None:
    lines = [
        record("a", **related_to("b")),
        record("b"),
        record("c", namespace=ELSEWHERE),
        {"x": 1},
    ]
    assert counts(load(*lines)) == (3, 0, 0, 1)
    before = dump_tables(store)
    assert counts(load(*lines)) == (0, 3, 0, 1)
    assert dump_tables(store) == before


def test_backup_twice_changes_nothing(store: Store, tmp_path: Path, now: datetime) -> None:
    rows = [forgetful_row(), forgetful_row(id=2, is_obsolete=1), forgetful_row(id=3)]
    rows.append(forgetful_row(id=4, is_obsolete=1, superseded_by=1))
    links = [{"source_id": 1, "target_id": 3}]
    path = write_backup(tmp_path / "backup.json", *rows, memory_links=links)
    assert counts(import_file(store, path, clock=now)) == (4, 0, 0, 0)
    before = dump_tables(store)
    assert counts(import_file(store, path, clock=now)) == (0, 4, 0, 0)
    assert dump_tables(store) == before


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        pytest.param(record("m2", importance=7), "importance", id="invalid"),
        pytest.param("{", "line", id="broken"),
        pytest.param(record("m2", **related_to("m9")), "relations", id="dangling-edge"),
        pytest.param(record("known", importance=0.9), "id", id="known-id"),
        pytest.param(record("m1", content="other"), "id", id="id-twice-in-the-file"),
    ],
)
def test_strict_import_is_all_or_nothing(
    store: Store, load: Importer, bad: object, field: str
) -> None:
    load(record("known"))
    before = dump_tables(store)
    report = load(record("m1", namespace=ELSEWHERE), record("m1"), bad, is_strict=True)
    assert (report.is_refused, report.imported) == (True, 0)
    assert [(fault.record, fault.field) for fault in report.rejects] == [(3, field)]
    assert dump_tables(store) == before


def test_strict_import_of_good_records_goes_in(load: Importer) -> None:
    report = load(record("m1"), record("m2"), is_strict=True)
    assert (report.is_refused, *counts(report)) == (False, 2, 0, 0, 0)


def test_known_id_with_other_content_is_rejected_and_left_alone(
    store: Store, load: Importer
) -> None:
    load(record())
    before = dump_tables(store)
    report = load(record(content="other"), record("m2"))
    assert counts(report) == (1, 0, 0, 1)
    (reject,) = report.rejects
    assert (reject.record, reject.field) == (1, "id")
    assert reject.reason.startswith("memory_already_exists: 'm1' is not the same in the store")
    assert "another id" in reject.reason
    assert {name: row["content"] for name, row in read(store).items()} == {
        "m1": "memory m1",
        "m2": "memory m2",
    }
    assert set(before["memories"]) <= set(dump_tables(store)["memories"])


def test_equal_state_in_other_words_is_unchanged(store: Store, load: Importer) -> None:
    said: Json = {"content_at": OLD, "updated_at": OLD, "evidence": [], "tags": ["a"]}
    evidence = {"uri": "e://1", "digest": "d", "kind": "manual", "occurred_at": OLD}
    load(record(**said | {"evidence": [evidence]}))
    before = dump_tables(store)
    words = {"evidence": [evidence], "tags": ["a", "a"], "created_at": "2025-01-01T01:00:00+01:00"}
    assert counts(load(record(**said | words))) == (0, 1, 0, 0)
    assert dump_tables(store) == before


def test_what_was_edited_since_is_unchanged_by_its_old_file(
    store: Store, load: Importer, now: datetime, namespace_id: int
) -> None:
    load(record())
    with store.write() as writer:
        annotate_memory(writer, namespace_id, "m1", at=now, pinned=True)
    before = dump_tables(store)
    assert counts(load(record())) == (0, 1, 0, 0)
    assert dump_tables(store) == before


@pytest.mark.parametrize("change", [{}, {"content": "other"}], ids=["C17-Q04", "other-content"])
def test_tombstone_holds_against_its_source(
    store: Store, load: Importer, now: datetime, namespace_id: int, change: dict[str, str]
) -> None:
    load(record(), record("m2", pinned=True))
    swept = run_one(request_job(store, job="sweep", policy=SweepPolicy(), now=now, mode="apply"))
    assert swept.end.applied == 1
    before = dump_tables(store)
    report = load(record(**change))
    assert counts(report) == (0, 0, 1, 0)
    assert report.warnings == [Reject(1, "id", "suppressed: tombstoned")]
    assert dump_tables(store) == before
    with store.read() as reader:
        live = list_live(reader, namespace_id, now=now, limit=10)
    assert [row["id"] for row in live] == ["m2"]


def test_tombstone_of_the_source_is_a_tombstone(store: Store, load: Importer) -> None:
    gone = record(status="tombstoned", tombstoned_at="2026-01-01T00:00:00Z")
    assert counts(load(gone)) == (1, 0, 0, 0)
    assert read(store)["m1"]["status"] == "tombstoned"
    assert counts(load(gone)) == (0, 1, 0, 0)
    assert counts(load(gone | {"content": "other"})) == (0, 0, 1, 0)


def test_record_that_contradicts_an_earlier_one_names_it(load: Importer) -> None:
    (reject,) = load(record(), record(content="other")).rejects
    assert reject == Reject(
        2, "id", "memory_already_exists: 'm1' says something else in record 1, which goes first"
    )


@pytest.mark.parametrize(
    ("second", "expected"),
    [(record(), (1, 1, 0, 0)), (record(importance=0.9), (1, 0, 0, 1))],
    ids=["equal", "other"],
)
def test_record_twice_in_a_file_goes_in_once(
    store: Store, load: Importer, second: Json, expected: tuple[int, ...]
) -> None:
    assert counts(load(record(), second)) == expected
    assert read(store)["m1"]["importance"] == 0.5


def test_texts_are_never_merged(store: Store, load: Importer) -> None:
    assert counts(load(*(record(name, content="same") for name in "abc"))) == (3, 0, 0, 0)
    assert len(read(store)) == 3


def test_each_record_goes_to_its_own_namespace(store: Store, load: Importer) -> None:
    report = load(
        record(content="ours"),
        record(content="theirs", namespace=ELSEWHERE, **related_to("m2")),
        record("m2", **related_to("m1")),
    )
    assert counts(report) == (3, 0, 0, 0)
    assert [fault.record for fault in report.rejects] == [2]
    assert read(store, OTHER)["m1"]["content"] == "theirs"
    assert read(store)["m1"]["content"] == "ours"
    with store.read() as reader:
        owners = list_namespaces(reader)
        assert [read_sequence(reader, owner.namespace_id) for owner in owners] == [1, 1]


def test_named_namespace_takes_only_its_own_records(store: Store, load: Importer) -> None:
    foreign = DEFAULT_NAMESPACE.model_dump()
    lines = [record("a"), record("b", namespace=ELSEWHERE), record("c", namespace=foreign)]
    report = load(*lines, namespace=OTHER)
    assert counts(report) == (2, 0, 0, 1)
    assert report.rejects == [Reject(3, "namespace", "is not the namespace of this import")]
    assert list(read(store, OTHER)) == ["a", "b"]
    assert read(store) == {}


def test_refused_namespace_is_not_made(store: Store, load: Importer) -> None:
    load(record("a", namespace=ELSEWHERE, importance=7))
    with store.read() as reader:
        assert find_namespace(reader, OTHER) is None


def test_figures_add_up(load: Importer) -> None:
    load(record("a"), record("b"), record("gone", status="tombstoned"))
    lines = [record("a"), record("b", content="x"), record("gone"), record("c"), "{", record("c")]
    assert counts(load(*lines)) == (1, 2, 1, 2)


def test_missing_time_is_the_import_time_and_told(store: Store, load: Importer) -> None:
    report = load({"id": "m1", "content": "x"})
    row = read(store)["m1"]
    assert (
        row["created_at"]
        == row["updated_at"]
        == row["content_at"]
        == datetime(2026, 9, 30, tzinfo=UTC)
    )
    assert [(note.field, note.reason[:12]) for note in report.warnings] == [
        ("created_at", "time_missing")
    ]


def test_future_time_is_kept_and_told(store: Store, load: Importer, now: datetime) -> None:
    report = load(record(created_at="2027-09-30T00:00:00Z"))
    assert read(store)["m1"]["created_at"] == now + timedelta(days=365)
    assert report.warnings == [Reject(1, "created_at", "time_future")]


def test_counter_past_31_bits_is_counted_on(
    store: Store, load: Importer, now: datetime, namespace_id: int
) -> None:
    """C15."""
    load(record(access_count=2_147_483_647, last_accessed_at="2026-09-29T00:00:00Z"))
    with store.write() as writer:
        record_use(writer, namespace_id, "m1", event_id="e1", at=now)
    assert read(store)["m1"]["access_count"] == 2_147_483_648
    for job, policy in (("prune", PrunePolicy()), ("sweep", SweepPolicy())):
        end = run_one(request_job(store, job=job, policy=policy, now=now, mode="apply")).end
        assert end.outcome == "unchanged"


def test_hostile_ids_are_plain_values(store: Store, load: Importer, namespace_id: int) -> None:
    lines = [record(name, tags=[name], **related_to(HOSTILE[0])) for name in HOSTILE[1:]]
    assert counts(load(record(HOSTILE[0]), *lines)) == (6, 0, 0, 0)
    assert counts(load(record(HOSTILE[0]), *lines)) == (0, 6, 0, 0)
    assert list(read(store)) == sorted(HOSTILE)
    with store.read() as reader:
        assert [one.namespace_id for one in list_namespaces(reader)] == [namespace_id]


def test_hostile_namespace_is_a_plain_value(store: Store, load: Importer, now: datetime) -> None:
    named = {"tenant": "a' OR 1=1 --", "principal": "%", "scope": "a/b"}
    load(record(namespace=named), record("m2"))
    assert list(read(store, Namespace.model_validate(named))) == ["m1"]
    with store.read() as reader:
        assert count_memories(reader, now=now, namespace=named)["total"] == 1


def test_report_never_quotes_what_a_memory_says(load: Importer) -> None:
    secret = CANARY * 100
    faults: list[Json] = [
        {"importance": CANARY},
        {"kind": CANARY},
        {"created_at": CANARY},
        {"metadata": {CANARY: secret}},
        {"tags": [secret]},
        {"history": [{"content": CANARY, "metadata": {CANARY: 1}}]},
        {"namespace": {"tenant": CANARY}},
        {"content": CANARY + "\0"},
        {"content": secret * 100},
        {"relations": [{"kind": CANARY, "target_id": "m2"}]},
        {"evidence": [{"uri": secret}]},
        {"content": CANARY, **related_to("m9")},
    ]
    lines = [record(f"m{line}", **fault) for line, fault in enumerate(faults)]
    report = load(*lines, record("m0", content=CANARY), '{"content": "' + CANARY)
    assert {fault.record for fault in report.rejects} == {*range(1, 13), 14}
    assert CANARY not in repr(report)


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_file_that_is_none_is_named(store: Store, tmp_path: Path, now: datetime, name: str) -> None:
    with pytest.raises(AdmissionError, match="file: there is no such file"):
        import_file(store, tmp_path / name, clock=now)


def test_progress_is_told_to_the_end(load: Importer, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    load(record("a"), record("b"), on_progress=lambda done, total: told.append((done, total)))
    size = (tmp_path / "lines.jsonl").stat().st_size
    assert told[-1] == (size, size)
