"""Snapshots of a real store: equal to those of its rows, in pages, under budgets, read-only."""

import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
from helpers.rows import memory_table
from helpers.snapshots import AT, EVIDENCE, HERE, THERE, Said, insert_records, make_record

from storage import Store, create_store, snapshot_pages
from storage.access import EventKind, parse_event, record_event
from storage.errors import AdmissionError, LimitExceededError
from storage.memories import (
    EVIDENCE_SCHEMA,
    insert_evidence,
    insert_memories,
)
from storage.models import MemoryRecord, Namespace, Status
from storage.namespaces import ensure_namespace, find_namespace
from storage.records import (
    read_history,
    read_records,
)
from storage.repository import apply_change_set
from storage.snapshot_profiles import HISTORY_PROFILE, PROFILES, UPSTREAM_PROFILE
from storage.snapshots import Snapshot, SnapshotRequest, snapshot_from_rows, take_snapshot

ALL = list(Status)
BYTES = "namespace snapshot bytes"
NODES = "namespace snapshot nodes"
DAY = timedelta(days=1)
START = datetime.fromisoformat(AT)
EARLY = "0001-01-01T00:00:00.000001Z"
LATE = "9999-12-31T23:59:59.999999Z"


def evidence(*names: str) -> list[Said]:
    return [{**EVIDENCE, "uri": f"e://{name}", "kind": "tool_result"} for name in names]


def edges(*kinds: str) -> list[Said]:
    return [{"kind": kind, "target_id": "x\\"} for kind in kinds]


def state(revision: int, **fields: object) -> Said:
    at = START + revision * DAY
    return {"revision": revision, "content": f"state {revision}", "updated_at": at, **fields}


HISTORY = [
    state(1, status="candidate", evidence=evidence("b"), tags=["old"]),
    state(2, evidence=evidence("b", "a"), relations=edges("related_to", "conflicts_with")),
    state(4, evidence=evidence("b", "a"), relations=edges("conflicts_with"), salience=0.25),
    state(12, evidence=evidence("é", "b", "a"), expires_at=LATE, metadata={"z": "", "é": "\x01"}),
]
RECORDS = [
    make_record(id="z", content='quote " backslash \\ \t\n\x01\x7f\u2028 数据库 \U0001f600'),
    make_record(id="B", created_at=EARLY, updated_at=LATE, expires_at=LATE, salience=1.5),
    make_record(
        id="_", evidence=[], tags=['"', "b", "a"], metadata={"é": "1", "z": "\n.", "Z": ""}
    ),
    make_record(id="a", kind="procedural", pinned=True, confidence=1e-7, importance=1 / 3),
    make_record(id="é", revision=2, history=[state(1)], revision_kind="annotated"),
    make_record(id="e\u0301", status="conflicted", relations=edges("conflicts_with", "supersedes")),
    make_record(id="\uff5a", status="tombstoned", origin="store_api", access_count=7),
    make_record(
        id="\U0001f600",
        revision=13,
        updated_at=START + 13 * DAY,
        evidence=evidence("é", "a", "b", "Z"),
        relations=edges("related_to", "superseded_by"),
        history=HISTORY,
    ),
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Create a store with RECORDS in one namespace and one memory in another; it is only read."""
    store, _ = create_store(tmp_path_factory.mktemp("snapshots") / "store", clock=START)
    with store.write() as writer:
        insert_records(writer, RECORDS)
        insert_records(writer, [make_record(id="other", content="foreign")], THERE)
    return store


def take(store: Store, namespace: Namespace = HERE, **options: Any) -> Snapshot:  # noqa: ANN401
    with store.read() as reader:
        return take_snapshot(reader, namespace, **options)


def refuse(store: Store, **options: Any) -> Said:  # noqa: ANN401 - of a request
    with pytest.raises(LimitExceededError) as caught:
        take(store, **options)
    return caught.value.facts


def pick(*statuses: str) -> list[MemoryRecord]:
    return [record for record in RECORDS if record.status in statuses]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("statuses", [["active"], ["tombstoned", "conflicted"], ALL])
def test_store_and_rows_give_the_same_snapshot(
    filled: Store, profile: str, statuses: list[str]
) -> None:
    request = SnapshotRequest(HERE, statuses=statuses, profile=profile)
    found = take(filled, keep_payload=True, statuses=statuses, profile=profile)
    rows = pick(*statuses)
    assert found == snapshot_from_rows(request, rows, token=0, keep_payload=True)
    assert found.ids == tuple(sorted((row.id for row in rows), key=str.encode))


@pytest.mark.parametrize("profile", PROFILES)
def test_records_read_back_give_the_same_snapshot(filled: Store, profile: str) -> None:
    with filled.read() as reader:
        stored = find_namespace(reader, HERE)
        assert stored is not None
        owner = stored.namespace_id
        records = [
            record.model_copy(update={"history": read_history(reader, owner, memory_id)})
            for memory_id, record in read_records(
                reader, owner, [record.id for record in RECORDS]
            ).items()
        ]
    request = SnapshotRequest(HERE, statuses=ALL, profile=profile)
    found = take(filled, statuses=ALL, profile=profile)
    assert found == snapshot_from_rows(request, records, token=0)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("page_bytes", [1, 1024, 2048, 4096])
def test_size_of_pages_does_not_matter(
    filled: Store, monkeypatch: pytest.MonkeyPatch, profile: str, page_bytes: int
) -> None:
    whole = take(filled, statuses=ALL, profile=profile)
    monkeypatch.setattr(snapshot_pages, "_PAGE_BYTES", page_bytes)
    monkeypatch.setattr(snapshot_pages, "_BATCH_ROWS", 2)
    assert take(filled, statuses=ALL, profile=profile) == whole


def test_unknown_namespace_is_empty_at_token_0(filled: Store) -> None:
    nowhere = Namespace(tenant="t", principal="p", scope="nowhere")
    found = take(filled, nowhere)
    assert (found.ids, found.token) == ((), 0)
    assert found == snapshot_from_rows(SnapshotRequest(nowhere), [], token=0)
    with filled.read() as reader:
        assert find_namespace(reader, nowhere) is None


def test_namespace_is_compared_part_by_part(filled: Store) -> None:
    assert take(filled, THERE).ids == ("other",)
    for parts in (("t", "p", "S"), ("tp", "s", "s"), ("T", "p", "s")):
        other = Namespace(**dict(zip(("tenant", "principal", "scope"), parts, strict=True)))
        assert take(filled, other, statuses=ALL).ids == ()


@pytest.mark.parametrize("profile", PROFILES)
def test_budgets_hold_to_the_byte_and_the_row(filled: Store, profile: str) -> None:
    whole = take(filled, statuses=ALL, profile=profile)
    size, count = whole.byte_count, len(RECORDS)
    exact = take(filled, statuses=ALL, profile=profile, max_bytes=size, max_nodes=count)
    assert exact == whole
    facts = refuse(filled, statuses=ALL, profile=profile, max_bytes=size - 1)
    assert facts == {"resource": BYTES, "limit": size - 1, "actual": size}
    facts = refuse(filled, statuses=ALL, profile=profile, max_nodes=count - 1)
    assert facts == {"resource": NODES, "limit": count - 1, "actual": count}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_budget_below_the_size_is_refused(filled: Store, profile: str) -> None:
    size = take(filled, statuses=ALL, profile=profile).byte_count
    for max_bytes in range(1, size, size // 8):
        facts = refuse(filled, statuses=ALL, profile=profile, max_bytes=max_bytes)
        assert facts == {"resource": BYTES, "limit": max_bytes, "actual": max_bytes + 1}


def test_request_is_checked_before_the_count_and_that_before_the_bytes(filled: Store) -> None:
    with pytest.raises(AdmissionError) as caught:
        take(filled, statuses=ALL, max_nodes=1, max_bytes=0)
    assert caught.value.field == "snapshot.max_bytes"
    facts = refuse(filled, statuses=ALL, max_nodes=1, max_bytes=1)
    assert facts == {"resource": NODES, "limit": 1, "actual": len(RECORDS)}


def test_bad_request_is_refused_in_an_unknown_namespace_too(filled: Store) -> None:
    with pytest.raises(AdmissionError):
        take(filled, Namespace(tenant="t", principal="p", scope="nowhere"), statuses=[])


def test_snapshot_inside_a_write_sees_what_was_written(store: Store) -> None:
    with store.write() as writer:
        insert_records(writer, [make_record()])
        assert take_snapshot(writer, HERE).ids == ("n1",)


def test_upstream_profile_refuses_a_working_memory(store: Store) -> None:
    with store.write() as writer:
        insert_records(writer, [make_record(kind="working")])
    assert take(store).ids == ("n1",)
    with pytest.raises(AdmissionError) as caught:
        take(store, profile=UPSTREAM_PROFILE)
    assert caught.value.field == "memory.kind"


OWNER: Said = {"namespace": HERE.model_dump(), "occurred_at": "2026-01-02T00:00:00Z"}
EVENT: Said = {"id": "e1", **OWNER, "memory_id": "n1", "revision": 1, "context_id": None}


@pytest.mark.parametrize("profile", PROFILES)
def test_access_moves_neither_digest_nor_token(store: Store, profile: str) -> None:
    with store.write() as writer:
        insert_records(writer, [make_record()])
    before = take(store, profile=profile)
    for kind in get_args(EventKind):
        with store.write() as writer:
            assert record_event(writer, kind, parse_event(EVENT))
    assert take(store, profile=profile) == before


def test_pin_moves_digest_and_token_and_unpinning_moves_both_again(store: Store) -> None:
    with store.write() as writer:
        insert_records(writer, [make_record()])
    seen = [take(store)]
    for revision, pinned in ((1, True), (2, False)):
        address = {"op": "annotate", "memory_id": "n1", "expected_revision": revision}
        operations = [{**address, "pinned": pinned}]
        change_set = {"idempotency_key": f"k{revision}", **OWNER, "operations": operations}
        apply_change_set(store, change_set)
        seen.append(take(store))
    assert [one.token for one in seen] == [0, 1, 2]
    assert len({one.digest for one in seen}) == 3


def test_two_snapshots_of_one_state_are_equal(filled: Store) -> None:
    assert take(filled, profile=HISTORY_PROFILE) == take(filled, profile=HISTORY_PROFILE)


def test_snapshot_writes_nothing(filled: Store) -> None:
    before = {entry: entry.read_bytes() for entry in _files(filled.path)}
    take(filled, statuses=ALL, keep_payload=True)
    assert {entry: entry.read_bytes() for entry in _files(filled.path)} == before


def _files(path: Path) -> list[Path]:
    return sorted(entry for entry in path.rglob("*") if entry.is_file())


COUNT = 20_000
CONTENT = "the same words again and again " * 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Create a store with 20,000 memories of 620 bytes, one evidence each."""
    store, _ = create_store(tmp_path_factory.mktemp("large") / "store", clock=START)
    with store.write() as writer:
        owner = ensure_namespace(writer, HERE).namespace_id
        ids = [f"m{number:05}" for number in range(COUNT)]
        row = memory_table(
            {"id": "", "namespace_id": owner, "content": CONTENT, "created_at": START}
        )
        names = pa.array(ids, pa.string())
        memories = pa.concat_tables([row] * COUNT).combine_chunks()
        insert_memories(writer, memories.set_column(1, "id", names))
        known = {**EVIDENCE, "occurred_at": START, "namespace_id": owner, "since_revision": 1}
        item = pa.Table.from_pylist([{**known, "memory_id": ""}], schema=EVIDENCE_SCHEMA)
        items = pa.concat_tables([item] * COUNT).combine_chunks()
        insert_evidence(writer, items.set_column(1, "memory_id", names))
    return store


@pytest.mark.slow
def test_payload_is_never_in_memory_as_a_whole(large: Store) -> None:
    tracemalloc.start()
    try:
        found = take(large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found.ids) == COUNT
    assert found.byte_count > 20_000_000
    assert peak < 8_000_000


def test_budget_that_the_texts_alone_pass_is_refused_before_they_are_read(
    large: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_pages, "_complete_row", pytest.fail)
    facts = refuse(large, max_bytes=COUNT * len(CONTENT) - 1)
    assert facts["actual"] == COUNT * len(CONTENT)
