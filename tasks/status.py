"""What `memtend status` shows: the snapshot of now, or the last one while a writer holds the store.

Source: spec/maintenance.md R29-R32; DESIGN 9.
"""

from datetime import datetime
from typing import Any

from storage import Store, open_store
from storage.errors import StoreBusyError
from storage.models import Namespace
from tasks.health.exports import read_status
from tasks.health.jobs import Schedules
from tasks.health.policy import HealthPolicy
from tasks.health.snapshot import Asked, take_snapshot
from tasks.jobs import list_jobs

_PATIENCE_S = 5.0


def show_status(
    store: Store,
    *,
    now: datetime,
    clock: datetime | None = None,
    namespace: Namespace | None = None,
    schedules: Schedules | None = None,
) -> dict[str, Any]:
    """Show the store's state: lifecycle counters, index, jobs, backlog, forecast, files.

    Args:
        store: Where the store is; it is opened here, and nothing in it is written.
        now: As of when memories are judged.
        clock: Wall time, for leases and due runs; absent: `now`.
        namespace: The only one whose memories are counted; jobs and files are the store's.
        schedules: When jobs run by themselves, as far as the caller knows.

    Returns:
        The tree of a snapshot. `age_s` is 0, or how old the last exported snapshot is that stands
        in for a store which a writer holds.

    Raises:
        StoreNotFoundError: There is no store.
        AdmissionError: The store has no such namespace.
        StoreBusyError: A writer holds the store, and there is no snapshot.
    """
    at = clock or now
    asked = Asked(
        policy=HealthPolicy(),
        now=now,
        clock=at,
        jobs=list_jobs(),
        schedules=schedules or {},
        namespace=namespace,
    )
    try:
        patient = open_store(store.path, lock_wait_s=min(store.lock_wait_s, _PATIENCE_S))
        return take_snapshot(patient, asked).describe() | {"age_s": 0.0}
    except StoreBusyError:
        kept = read_status(store) if namespace is None else None
        if kept is None:
            raise
        return kept | {"age_s": (at - kept["taken_at"]).total_seconds()}
