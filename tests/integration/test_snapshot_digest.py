"""The digest of a snapshot without its payload is that of the payload."""

import pytest
from helpers.snapshots import AT, EVIDENCE, HERE, insert_records, make_record

from storage import Store, snapshot_digest
from storage.errors import LimitExceededError
from storage.namespaces import ensure_namespace, find_namespace
from storage.snapshot_digest import digest_active
from storage.snapshots import Snapshot, take_snapshot


def take_whole(store: Store) -> Snapshot:
    with store.read() as reader:
        return take_snapshot(reader, HERE)


def digest_here(store: Store, **limits: int) -> tuple[str, int]:
    with store.read() as reader:
        target = find_namespace(reader, HERE)
        assert target is not None
        budget = {"max_nodes": 1_000, "max_bytes": 10**9, **limits}
        return digest_active(reader, target, **budget)


PAST = {"revision": 1, "content": "before", "updated_at": AT}
RELATED = {"kind": "related_to", "target_id": "other"}
SUPERSEDES = {"kind": "supersedes", "target_id": "before"}
RECORDS = [
    make_record(id="plain"),
    make_record(id="draft", status="candidate", content="not told"),
    make_record(
        id="full",
        revision=3,
        kind="procedural",
        tags=["ops", "é"],
        metadata={"z": "1", "a": 'quote "'},
        pinned=True,
        salience=1.25,
        expires_at="2027-01-01T00:00:00Z",
        evidence=[EVIDENCE, {**EVIDENCE, "uri": "e://0", "kind": "session_turn"}],
        relations=[RELATED, SUPERSEDES],
        history=[{**PAST, "relations": [RELATED, {**RELATED, "target_id": "gone"}]}],
    ),
]
ODD = [
    make_record(id="control", content='bell \x07, escape \x1b, tab \t, quote " and \\ é 数'),
    make_record(id="small", importance=1e-7, confidence=0.00001, salience=0.25),
    make_record(id="zero", importance=0.0, confidence=1.0),
    make_record(id="exact", importance=0.1, confidence=0.30000001192092896),
]


@pytest.mark.parametrize("most_single", [0, 20])
def test_digest_without_payload_is_that_of_the_snapshot(
    store: Store, monkeypatch: pytest.MonkeyPatch, most_single: int
) -> None:
    monkeypatch.setattr(snapshot_digest, "_MOST_SINGLE", most_single)
    with store.write() as writer:
        insert_records(writer, [*RECORDS, *ODD])
    whole = take_whole(store)
    assert digest_here(store) == (whole.digest, whole.byte_count)


def test_digest_without_payload_of_nothing_is_that_of_an_empty_snapshot(store: Store) -> None:
    with store.write() as writer:
        ensure_namespace(writer, HERE)
    whole = take_whole(store)
    assert digest_here(store) == (whole.digest, whole.byte_count)


def test_digest_without_payload_keeps_its_budgets(store: Store) -> None:
    with store.write() as writer:
        insert_records(writer, RECORDS)
    whole = take_whole(store)
    with pytest.raises(LimitExceededError) as caught:
        digest_here(store, max_nodes=len(whole.ids) - 1)
    assert caught.value.facts["actual"] == len(whole.ids)
    with pytest.raises(LimitExceededError) as caught:
        digest_here(store, max_bytes=whole.byte_count - 1)
    assert caught.value.facts["resource"] == "namespace snapshot bytes"
    assert digest_here(store, max_bytes=whole.byte_count) == (whole.digest, whole.byte_count)
