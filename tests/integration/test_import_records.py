"""A record arrives as it was: every field, its history, its evidence, and edges on both ends."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.imports import OLD, Importer, counts, edges, record, related_to
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.vectors import Json, copy_store

from storage import Store
from storage.admission import Reject
from storage.invariants import check_invariants
from storage.memories import read_evidence, read_memory, read_relations, read_revisions
from storage.models import MAX_RELATIONS, Status, round_to_f32
from storage.namespaces import read_sequence

OWN = 1  # the number of the default namespace
DAY = "2025-06-{:02}T12:00:00.123456Z"


def evidence(number: int) -> Json:
    at = DAY.format(number)
    return {"uri": f"e://{number}", "digest": f"d{number}", "kind": "manual", "occurred_at": at}


FIRST: Json = {
    "revision": 1,
    "revision_kind": "created",
    "kind": "episodic",
    "status": "candidate",
    "content": "first words",
    "confidence": 0.25,
    "importance": 0.25,
    "salience": None,
    "tags": [],
    "metadata": {},
    "pinned": False,
    "evidence": [],
    "updated_at": DAY.format(1),
    "expires_at": None,
    **related_to("m2"),
}
SECOND = FIRST | {
    "revision": 2,
    "revision_kind": "activated",
    "status": "active",
    "evidence": [evidence(1), evidence(2)],
    "updated_at": DAY.format(2),
    **related_to("m2", "m3"),
}
# Revision 4: revision 3 was purged where the record comes from.
WHOLE = SECOND | {
    "id": "m1",
    "revision": 4,
    "revision_kind": "corrected",
    "kind": "semantic",
    "content": "last words, 数据库",
    "confidence": 0.9,
    "importance": 0.75,
    "salience": 1.5,
    "tags": ["b", "a"],
    "metadata": {"keep": "yes", "empty": ""},
    "pinned": True,
    "evidence": [evidence(1), evidence(2), evidence(3)],
    "created_at": DAY.format(1),
    "updated_at": DAY.format(9),
    "content_at": DAY.format(8),
    "restored_at": DAY.format(7),
    "last_accessed_at": DAY.format(11),
    "expires_at": "2027-01-01T00:00:00Z",
    "access_count": 5,
    "origin": "change_set",
    "history": [FIRST, SECOND],
    **related_to("m3"),
}
STORED = (
    "revision_kind",
    "kind",
    "status",
    "content",
    "tags",
    "metadata",
    "pinned",
    "access_count",
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Give an empty store."""
    return copy_store(tmp_path / "store")


@pytest.fixture
def load(store: Store, tmp_path: Path, now: datetime) -> Importer:
    return Importer(store, tmp_path / "lines.jsonl", now)


def read(store: Store, memory_id: str) -> Json:
    with store.read() as reader:
        return read_memory(reader, OWN, memory_id)


def read_edges(store: Store, memory_id: str) -> list[tuple[object, ...]]:
    with store.read() as reader:
        rows = read_relations(reader, OWN, [memory_id])
    names = ("kind", "target_id", "since_revision", "until_revision")
    return [tuple(row[name] for name in names) for row in rows]


def revisions_of(store: Store, memory_id: str) -> list[tuple[object, ...]]:
    with store.read() as reader:
        rows = read_revisions(reader, OWN, memory_id)
    return [(row["revision"], row["revision_kind"], row["status"]) for row in rows]


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Give a store that holds the whole record, for tests that only read."""
    directory = tmp_path_factory.mktemp("whole")
    store = copy_store(directory / "store")
    report = Importer(store, directory / "lines", NOW)(WHOLE, record("m2"), record("m3"))
    assert counts(report) == (3, 0, 0, 0)
    return store


def test_imported_records_break_no_invariant(whole_store: Store) -> None:
    with whole_store.read() as reader:
        assert [check for check in check_invariants(reader) if check.broken] == []


def test_record_with_every_field_arrives_as_it_was(whole_store: Store) -> None:
    row = read(whole_store, "m1")
    assert {name: row[name] for name in STORED} == {name: WHOLE[name] for name in STORED}
    assert (row["revision"], row["origin"]) == (4, "change_set")
    assert [row[name] for name in ("confidence", "importance", "salience")] == [
        round_to_f32(0.9),
        0.75,
        1.5,
    ]
    assert row["expires_at"] == datetime(2027, 1, 1, tzinfo=UTC)
    assert row["tombstoned_at"] is None


@pytest.mark.parametrize(
    ("field", "day"),
    [
        ("created_at", 1),
        ("restored_at", 7),
        ("content_at", 8),
        ("updated_at", 9),
        ("last_accessed_at", 11),
    ],
)
def test_instants_arrive_to_the_microsecond(whole_store: Store, field: str, day: int) -> None:
    wanted = datetime(2025, 6, day, 12, 0, 0, 123456, tzinfo=UTC)
    assert read(whole_store, "m1")[field] == wanted


def test_history_arrives_as_rows_of_revisions(whole_store: Store) -> None:
    with whole_store.read() as reader:
        first, second = read_revisions(reader, OWN, "m1")
    assert (first["revision"], first["content"], first["status"]) == (1, "first words", "candidate")
    assert (second["revision"], second["revision_kind"]) == (2, "activated")
    assert second["updated_at"] == datetime(2025, 6, 2, 12, 0, 0, 123456, tzinfo=UTC)
    assert (json.loads(first["tags"]), first["importance"]) == ([], 0.25)


def test_evidence_and_edges_hold_from_their_revision(whole_store: Store) -> None:
    with whole_store.read() as reader:
        found = read_evidence(reader, OWN, ["m1"])
    since = {item["uri"]: item["since_revision"] for item in found}
    assert since == {"e://1": 2, "e://2": 2, "e://3": 4}
    assert read_edges(whole_store, "m1") == [
        ("related_to", "m2", 1, 4),
        ("related_to", "m3", 2, None),
    ]


def test_edge_that_ended_and_came_back_has_two_spans(store: Store, load: Importer) -> None:
    states = [{"content": "x", "revision": number} for number in (1, 2)]
    states[0] |= related_to("m2")
    load(record(revision=3, history=states, **related_to("m2")), record("m2"))
    assert read_edges(store, "m1") == [
        ("related_to", "m2", 1, 2),
        ("related_to", "m2", 3, None),
    ]


def test_history_without_times_takes_the_time_of_its_record(
    store: Store, load: Importer, now: datetime
) -> None:
    history = [{"content": "old"}]
    report = load({"id": "m1", "content": "new", "revision": 2, "history": history})
    assert counts(report) == (1, 0, 0, 0)
    with store.read() as reader:
        (old,) = read_revisions(reader, OWN, "m1")
    assert old["updated_at"] == now


def test_record_without_evidence_says_where_it_comes_from(store: Store, load: Importer) -> None:
    load(record())
    with store.read() as reader:
        (item,) = read_evidence(reader, OWN, ["m1"])
    assert item["kind"] == "artifact"
    assert item["uri"] == f"import:{read(store, 'm1')['origin_digest']}"
    assert item["occurred_at"] == datetime(2025, 1, 1, tzinfo=UTC)


def test_expiry_that_is_a_day_is_the_end_of_it(store: Store, load: Importer) -> None:
    load(record(expires_at="2026-12-31"))
    assert read(store, "m1")["expires_at"] == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("is_target_first", [True, False])
def test_edge_within_a_file_is_stored_on_both_ends(
    store: Store, load: Importer, is_target_first: bool
) -> None:
    lines = [record("a", **related_to("b")), record("b")]
    load(*(lines[::-1] if is_target_first else lines))
    assert read_edges(store, "a") == [("related_to", "b", 1, None)]
    assert read_edges(store, "b") == [("related_to", "a", 1, None)]
    assert read(store, "b")["revision"] == 1


def test_edge_that_both_ends_list_is_stored_once(store: Store, load: Importer) -> None:
    load(record("a", **related_to("b")), record("b", **related_to("a")))
    assert len(read_edges(store, "a")) == len(read_edges(store, "b")) == 1


def test_edge_to_a_missing_memory_is_told_and_the_memory_stays(
    store: Store, load: Importer
) -> None:
    report = load(record("a", **related_to("b", "m9")), record("b"))
    assert counts(report) == (2, 0, 0, 0)
    assert report.rejects == [Reject(1, "relations", "related_to: the target does not exist")]
    metadata = read(store, "a")["metadata"]
    assert metadata == {"source.relations": '[["related_to","m9"]]'}
    assert read_edges(store, "a") == [("related_to", "b", 1, None)]


def test_edge_to_a_rejected_record_is_an_edge_to_nothing(load: Importer) -> None:
    report = load(record("a", **related_to("b")), record("b", importance=7))
    assert [(fault.record, fault.field) for fault in report.rejects] == [
        (2, "importance"),
        (1, "relations"),
    ]


def test_edge_to_a_known_memory_moves_it_by_one_revision(
    store: Store, load: Importer, now: datetime
) -> None:
    load(record("known", tags=["x"]))
    load(record("a", **related_to("known")), record("b", **related_to("known")))
    row = read(store, "known")
    assert (row["revision"], row["revision_kind"], row["updated_at"]) == (
        2,
        "relation_changed",
        now,
    )
    assert (row["tags"], row["content"]) == (["x"], "memory known")
    assert revisions_of(store, "known") == [(1, "created", "active")]
    assert read_edges(store, "known") == [
        ("related_to", "a", 2, None),
        ("related_to", "b", 2, None),
    ]
    with store.read() as reader:
        assert read_sequence(reader, OWN) == 2


def test_edge_to_a_known_memory_does_not_come_twice(store: Store, load: Importer) -> None:
    load(record("known"))
    load(record("a", **related_to("known")))
    before = dump_tables(store)
    assert counts(load(record("a", **related_to("known")), record("known"))) == (0, 2, 0, 0)
    assert dump_tables(store) == before


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "of-the-file"])
def test_only_a_memory_that_gave_way_can_be_superseded(
    store: Store, load: Importer, is_known: bool
) -> None:
    older = [record(status.value, status=status.value) for status in Status]
    newer = [record(f"after-{name['id']}", **edges(("supersedes", name["id"]))) for name in older]
    report = [load(*older), load(*newer)][-1] if is_known else load(*newer, *older)
    reason = "supersedes: the older memory is not superseded"
    assert [(fault.record, fault.reason) for fault in report.rejects] == [
        (line, reason) for line in (1, 2, 4)
    ]
    linked = [status.value for status in Status if read_edges(store, status.value)]
    assert linked == ["superseded", "tombstoned"]
    kinds = [read_edges(store, name)[0][0] for name in ("superseded", "after-superseded")]
    assert kinds == ["superseded_by", "supersedes"]


def test_active_memory_cannot_say_that_it_is_superseded(load: Importer) -> None:
    report = load(record("old", **edges(("superseded_by", "new"))), record("new"))
    reason = "superseded_by: the older memory is not superseded"
    assert report.rejects == [Reject(1, "relations", reason)]


def test_edges_over_the_limit_are_told_wherever_they_come_from(
    store: Store, load: Importer
) -> None:
    load(record("hub"))
    first = [record(f"a{number}", **related_to("hub")) for number in range(MAX_RELATIONS - 1)]
    assert load(*first).rejects == []
    report = load(*(record(f"b{number}", **related_to("hub")) for number in range(3)))
    assert counts(report) == (3, 0, 0, 0)
    reason = f"related_to: more than {MAX_RELATIONS} relations"
    assert report.rejects == [Reject(line, "relations", reason) for line in (2, 3)]
    assert len(read_edges(store, "hub")) == MAX_RELATIONS
    assert counts(load(record("hub", content="other"))) == (0, 0, 0, 1)


def test_dropped_edges_do_not_overfill_the_metadata(store: Store, load: Importer) -> None:
    full = {str(number): "x" for number in range(64)}
    assert counts(load(record(metadata=full, **related_to("m9")))) == (1, 0, 0, 0)
    assert read(store, "m1")["metadata"] == full


def test_times_of_a_record_in_another_zone_are_the_same_instant(
    store: Store, load: Importer
) -> None:
    load(
        record("naive", created_at="2026-01-01 19:00:47"),
        record("offset", created_at="2026-01-01T19:00:47-05:00"),
        record("zulu", created_at=OLD),
    )
    naive = read(store, "naive")["created_at"]
    assert naive == datetime(2026, 1, 1, 19, 0, 47, tzinfo=UTC)
    offset = read(store, "offset")["created_at"]
    assert offset == datetime(2026, 1, 2, 0, 0, 47, tzinfo=UTC)
