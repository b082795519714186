"""Which publications can be collected; V77 and what must never be touched, in real tables."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from helpers.vectors import VECTORS

from storage import Store, StoreWriter
from storage.publications import begin_collecting, end_collecting, list_collectable
from storage.queries import read_statements

FILE = json.loads((VECTORS / "refresh-vectors.json").read_text(encoding="utf-8"))
CASES = FILE["collection_cases"]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TABLE = "mv_0123456789abcdef_d2"
INSERT_PUBLICATION = read_statements("storage.sql", "publications")["insert_publication"]
INSERT_PARTITION = """
INSERT INTO partitions
SELECT $partition, 1, '', '{}', '', '', 1, $phase, $publication_id, NULL, 0, 0
"""
INSERT_LEASE = """
INSERT INTO leases SELECT 'key', 1, 'refresh', 'run', $fence, $clock, $clock, NULL
"""
SET_PHASE = """
UPDATE publications
SET phase = $phase, verified_at = $verified_at, ended_at = $ended_at
WHERE publication_id = $id
"""


def at(second: int | None) -> datetime | None:
    return None if second is None else EPOCH + timedelta(seconds=second)


def insert_publication(writer: StoreWriter, given: dict[str, Any], table: str = TABLE) -> None:
    texts = ("run_id", "index_history", "store_history", "snapshot_digest", "set_digest")
    counts = ("base_revision", "snapshot_bytes", "source_token", "record_count", "byte_count")
    fixed = dict.fromkeys(texts, "") | dict.fromkeys(counts, 1) | {"counts": "{}"}
    params = {
        "publication_id": given["id"],
        "partition": given["partition"],
        "namespace_id": 1,
        "vector_table": table,
        "record_profile": "memtend.record.v1",
        "lease_fence": given["fence"],
        "staged_at": at(given["staged_at"]),
    }
    writer.execute(INSERT_PUBLICATION, fixed | params)
    instants = {name: at(given[name]) for name in ("verified_at", "ended_at")}
    writer.execute(SET_PHASE, {"id": given["id"], "phase": given["phase"], **instants})


def insert_case(writer: StoreWriter, case: dict[str, Any]) -> None:
    for given in case["publications"]:
        insert_publication(writer, given)
    for partition, served in case["pointers"].items():
        phase = "verified" if served else "empty"
        params = {"partition": partition, "phase": phase, "publication_id": served}
        writer.execute(INSERT_PARTITION, params)
    writer.execute(INSERT_LEASE, {"fence": case["current_fence"], "clock": EPOCH})


def list_ids(store: Store, case: dict[str, Any], tables: list[str], later_s: int = 0) -> list[str]:
    before = at(case["now"] - case["grace_s"] + later_s)
    assert before is not None
    with store.read() as reader:
        return [one.publication_id for one in list_collectable(reader, tables, before=before)]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_collectable_publications(store: Store, case: dict[str, Any]) -> None:
    with store.write() as writer:
        insert_case(writer, case)
    assert list_ids(store, case, [TABLE]) == case["collected"]
    one_second_later = list_ids(store, case, [TABLE], later_s=1)
    assert one_second_later == sorted([*case["collected"], "p6"])


def test_publications_of_other_tables_are_left_alone(store: Store) -> None:
    (case,) = CASES
    with store.write() as writer:
        insert_case(writer, case)
    assert list_ids(store, case, ["mv_fedcba9876543210_d2"]) == []


def test_begun_collection_is_finished_whatever_its_table(store: Store) -> None:
    """W8: the run died between its two transactions."""
    (case,) = CASES
    with store.write() as writer:
        insert_case(writer, case)
        begin_collecting(writer, ["p1", "p9"])
    assert list_ids(store, case, []) == ["p1", "p9"]
    with store.write() as writer:
        end_collecting(writer, ["p1", "p9"])
    assert list_ids(store, case, []) == []
    assert list_ids(store, case, [TABLE]) == ["p2", "p5", "p8"]


def test_what_a_pointer_names_never_begins_to_be_collected(store: Store) -> None:
    (case,) = CASES
    with store.write() as writer:
        insert_case(writer, case)
        assert begin_collecting(writer, ["p4", "p1"]) == 1
        end_collecting(writer, ["p4", "p1"])
        phases = dict(writer.rows("SELECT publication_id, phase FROM publications"))
    assert (phases["p1"], phases["p4"]) == ("collected", "verified")


def test_staged_rows_wait_until_another_run_has_the_lease(store: Store) -> None:
    (case,) = CASES
    with store.write() as writer:
        insert_case(writer, case)
        writer.execute("UPDATE leases SET lease_fence = 10")
    assert list_ids(store, case, [TABLE]) == sorted([*case["collected"], "p7"])
    with store.write() as writer:
        writer.execute("DELETE FROM leases")
    assert list_ids(store, case, [TABLE]) == ["p1", "p2", "p5", "p9"]
