"""Failure history of vector rows: what waits, what never works, what killed a process.

Keyed by record id, so new content starts afresh. Source: spec/refresh.md R45, R48, R52, R53.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "attempts")

MAX_CRASHES = 2
_QUARANTINE_KEPT = timedelta(days=90)

# What `classify` reads: the members of a snapshot, under the ids that their vectors have.
MEMBER_SCHEMA = pa.schema(
    [
        ("memory_id", pa.string()),
        ("revision", pa.int64()),
        ("content_digest", pa.string()),
        ("record_id", pa.string()),
        ("created_at", pa.timestamp("us", tz="UTC")),
        ("is_pooled", pa.bool_()),
    ]
)
FAILURE_SCHEMA = pa.schema(
    [("record_id", pa.string()), ("reason", pa.string()), ("is_permanent", pa.bool_())]
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed row is tried again, in seconds, and when it is given up."""

    base_s: int = 900
    cap_s: int = 86_400
    max_attempts: int = 5


def classify(  # noqa: PLR0913 - one place asks, with all that decides
    reader: StoreReader,
    partition: str,
    members: pa.Table,
    *,
    publication_id: str | None,
    by_revision: bool,
    clock: datetime,
) -> pa.Table:
    """Sort members (MEMBER_SCHEMA) into pool, reuse, quarantined, permanent, waiting and miss.

    Args:
        reader: An open handle.
        partition: Whose failure history counts.
        members: The snapshot.
        publication_id: The publication whose vectors can be copied, if there is one.
        by_revision: Only copy vectors of the same revision of the memory.
        clock: Wall time, for rows that wait.

    Returns:
        memory_id, revision, content_digest, record_id, class, is_suspect, attempts; fewest
        attempts first, then oldest.
    """
    params = {
        "partition": partition,
        "publication_id": publication_id or "",
        "by_revision": by_revision,
        "clock": clock,
    }
    return reader.table(_SQL["classify"], params, incoming=members)


def has_due(reader: StoreReader, partition: str, *, clock: datetime) -> bool:
    """Tell whether a row waits to be tried again, or to be tried alone."""
    params = {"partition": partition, "clock": clock}
    return bool(reader.rows(_SQL["has_due"], params)[0][0])


def mark_in_flight(
    writer: StoreWriter, partition: str, ids: Sequence[str], *, lease_fence: int, clock: datetime
) -> None:
    """Note which rows are with the embedder, before they are."""
    params = {"partition": partition, "ids": list(ids)}
    writer.execute(_SQL["add_markers"], {**params, "clock": clock})
    writer.execute(_SQL["set_markers"], {**params, "lease_fence": lease_fence})


def clear_in_flight(writer: StoreWriter, partition: str, *, lease_fence: int) -> None:
    """Note that the process survived its batch."""
    params: dict[str, object] = {"partition": partition}
    writer.execute(_SQL["clear_markers"], {**params, "lease_fence": lease_fence})
    writer.execute(_SQL["forget_unmarked"], params)


def count_crashes(writer: StoreWriter, partition: str, *, lease_fence: int, clock: datetime) -> int:
    """Count a crash for each row that a process with a lower fence died with."""
    params = {"partition": partition, "lease_fence": lease_fence, "clock": clock}
    return writer.execute(_SQL["count_crashes"], {**params, "limit": MAX_CRASHES})


def record_failures(
    writer: StoreWriter, partition: str, failures: pa.Table, policy: RetryPolicy, *, clock: datetime
) -> None:
    """Count an attempt of each failed row (FAILURE_SCHEMA) and set when it is tried again."""
    if failures.num_rows == 0:
        return
    params = {"partition": partition, "clock": clock}
    writer.insert(_SQL["add_failures"], failures, params)
    figures = {"base_s": policy.base_s, "cap_s": policy.cap_s}
    writer.insert(_SQL["record_failures"], failures, {**params, **figures})


def forget_embedded(writer: StoreWriter, partition: str, records: pa.Table) -> None:
    """Forget the failures of rows that have vectors now (a column record_id)."""
    if _has_attempts(writer, partition):
        writer.insert(_SQL["forget_embedded"], records, {"partition": partition})


def forget_departed(
    writer: StoreWriter, partition: str, records: pa.Table, *, clock: datetime
) -> None:
    """Forget the failures of rows that left the snapshot; quarantined ones after 90 days."""
    if _has_attempts(writer, partition):
        params = {"partition": partition, "before": clock - _QUARANTINE_KEPT}
        writer.insert(_SQL["forget_departed"], records, params)


def reset_attempts(writer: StoreWriter, partition: str) -> int:
    """Let permanent and quarantined rows be tried again."""
    return writer.execute(_SQL["reset_attempts"], {"partition": partition})


def _has_attempts(reader: StoreReader, partition: str) -> bool:
    return bool(reader.rows(_SQL["has_attempts"], {"partition": partition})[0][0])
