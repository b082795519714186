"""Failed rows wait longer each time, up to a day, and are given up in the end."""

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from helpers.rows import NOW
from helpers.vectors import VECTORS

from storage import Store
from storage.attempts import (
    FAILURE_SCHEMA,
    RetryPolicy,
    clear_in_flight,
    count_crashes,
    has_due,
    mark_in_flight,
    record_failures,
    reset_attempts,
)

FILE: dict[str, Any] = json.loads((VECTORS / "refresh-vectors.json").read_text(encoding="utf-8"))
PARTITION = "p"
ROWS = "SELECT record_id, state, attempts, crashes, in_flight FROM embedding_attempts ORDER BY ALL"


def fail(store: Store, attempts: int, *, is_permanent: bool = False) -> None:
    row = {"record_id": "r1", "reason": "non_finite", "is_permanent": is_permanent}
    failures = pa.Table.from_pylist([row], schema=FAILURE_SCHEMA)
    with store.write() as writer:
        for _ in range(attempts):
            record_failures(writer, PARTITION, failures, RetryPolicy(), clock=NOW)


def is_due(store: Store, seconds: float) -> bool:
    with store.read() as reader:
        return has_due(reader, PARTITION, clock=NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize("case", FILE["backoff_cases"], ids=lambda case: case["id"])
def test_next_attempt_comes_after_the_delay(case: dict[str, int], store: Store) -> None:
    fail(store, case["attempts"])
    assert not is_due(store, case["delay_s"] - 0.000001)
    assert is_due(store, case["delay_s"])


def test_permanent_row_is_never_due_until_it_is_reset(store: Store) -> None:
    fail(store, 1, is_permanent=True)
    assert not is_due(store, 10**9)
    with store.write() as writer:
        assert reset_attempts(writer, PARTITION) == 1
    with store.read() as reader:
        assert reader.rows(ROWS) == []


def test_second_crash_with_a_row_quarantines_it(store: Store) -> None:
    for fence, state in ((1, "suspect"), (2, "quarantined")):
        with store.write() as writer:
            mark_in_flight(writer, PARTITION, ["r1", "r2"], lease_fence=fence, clock=NOW)
        with store.write() as writer:
            assert count_crashes(writer, PARTITION, lease_fence=fence, clock=NOW) == 0
            assert count_crashes(writer, PARTITION, lease_fence=fence + 1, clock=NOW) == 2
        with store.read() as reader:
            assert reader.rows(ROWS) == [(name, state, 0, fence, None) for name in ("r1", "r2")]
    assert not is_due(store, 10**9)


def test_batch_that_was_survived_leaves_nothing(store: Store) -> None:
    with store.write() as writer:
        mark_in_flight(writer, PARTITION, ["r1"], lease_fence=1, clock=NOW)
        clear_in_flight(writer, PARTITION, lease_fence=1)
        assert reader_rows(writer) == []


def reader_rows(reader: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - any handle
    rows: list[tuple[Any, ...]] = reader.rows(ROWS)
    return rows
