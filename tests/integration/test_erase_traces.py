"""What stands beside the memories leaves no trace of them either: index, exports, receipts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from helpers.erasures import erase, export, fill, kill_after_rows, proof_of, refresh, remember
from helpers.rows import NOW

from storage import Store, StoreReader
from storage.exports import EXPORT_DIRECTORY, read_export
from tasks.doctor_store import StoreDoctor
from tasks.health.exports import export_health
from tasks.health.policy import HealthPolicy
from tasks.health.snapshot import Asked, take_snapshot

LATER = NOW + timedelta(hours=1)
NAMED = "SELECT DISTINCT place FROM named_memories WHERE memory_id = $id ORDER BY place"
ADD_EVENT = """
INSERT INTO access_events BY NAME
SELECT
    1 AS namespace_id, 'use' AS event_kind, 'e1' AS event_id, 'm1' AS memory_id, 1 AS revision,
    $at AS occurred_at
"""
ADD_RECEIPTS = """
INSERT INTO apply_receipts BY NAME
SELECT
    'key-' || memory_id AS receipt_key, 'p1' AS plan_id, 'run1' AS run_id, 1 AS namespace_id,
    memory_id, 'purge' AS reason, 'purge' AS action, 2 AS revision, 1 AS revisions_deleted, carried,
    ancestors_kept, '{}' AS figures, $at AS applied_at
FROM (VALUES ('a', '["x","m1"]', '[]'), ('b', NULL, '["m1"]'), ('c', '["y"]', NULL))
    AS r(memory_id, carried, ancestors_kept)
"""


def test_index_has_nothing_to_complain_of_before_the_next_refresh(
    store: Store, tmp_path: Path
) -> None:
    fill(store, tmp_path / "in.jsonl", *(remember(f"m{n}", f"text {n}") for n in range(4)))
    refresh(store)
    erase(store, "m2")
    assert StoreDoctor(store, lambda: NOW).check_pointers().broken == 0


def test_receipt_of_an_emptied_index_counts_no_rows(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"))
    refresh(store)
    erase(store, "m1")
    assert refresh(store).end.outcome == "applied"
    with store.read() as reader:
        counts = reader.rows("SELECT record_count FROM refresh_receipts ORDER BY verified_at")
    assert counts == [(1,), (0,)]
    assert refresh(store).end.outcome == "unchanged"


def test_exports_name_nothing_any_more(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"), remember("m2", "the dog"))
    export(store)
    assert list((store.path / EXPORT_DIRECTORY).iterdir())
    result = erase(store, "m1")
    assert list((store.path / EXPORT_DIRECTORY).iterdir()) == []
    assert proof_of(store, result)["proof"]["exports_removed"]
    assert export(store).end.outcome == "applied"


class ErasedWhileRead(Store):
    """A store in which m1 is erased when its memories have been read for the exports."""

    reads = 0

    @contextmanager
    def read(self) -> Iterator[StoreReader]:
        with super().read() as reader:
            yield reader
        self.reads += 1
        if self.reads == 2:
            erase(Store(self.path), "m1")


def test_exports_that_are_written_beside_an_erasure_name_nothing_of_it(
    store: Store, tmp_path: Path
) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"), remember("m2", "the dog"))
    policy = HealthPolicy()
    snapshot = take_snapshot(store, Asked(policy=policy, now=NOW, clock=NOW, jobs=()))
    beside = ErasedWhileRead(store.path)
    export_health(beside, policy, snapshot, now=NOW, run_id="r1")
    told = read_export(store.path, "memories")
    assert beside.reads > 2
    assert told is not None
    assert told.column("memory_id").to_pylist() == ["m2"]


def test_receipts_of_others_name_it_no_more(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"), remember("m2", "the dog"))
    with store.write() as writer:
        writer.execute(ADD_RECEIPTS, {"at": NOW})
    erase(store, "m1")
    with store.read() as reader:
        rows = reader.rows("SELECT carried, ancestors_kept FROM apply_receipts ORDER BY memory_id")
        assert reader.rows(NAMED, {"id": "m1"}) == []
    (carried, nothing), (none, kept), last = rows
    assert (nothing, none, last) == ("[]", None, ('["y"]', None))
    assert [name[:7] for name in json.loads(carried)] == ["x", "erased-"]
    assert [name[:7] for name in json.loads(kept)] == ["erased-"]


def test_row_that_came_back_leaves_the_proof_open_until_it_is_taken(
    store: Store, tmp_path: Path
) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"), remember("m2", "the dog"))
    assert kill_after_rows(store, "m1") == ["ready", "rows"]
    with store.write() as writer:
        writer.execute(ADD_EVENT, {"at": NOW})
    second = erase(store, "m2", now=LATER)
    assert (second.end.outcome, second.end.figures["remaining"]) == ("partial", 1)
    assert proof_of(store, second)["proof"]["remaining_in"] == {"access_events": 1}
    third = erase(store, "m1", now=LATER)
    assert (third.end.outcome, third.end.figures["resumed"]) == ("applied", 2)
    with store.read() as reader:
        assert reader.rows(NAMED, {"id": "m1"}) == []
