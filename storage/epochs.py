"""Ownership epochs: which runs of a job belong together, and the metrics over them.

A run row is the only record; everything here is read from it, so a metric and the history never
disagree. No text, id, digest or provider is in it. Source: spec/maintenance.md R33-R38.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from storage.digests import digest_parts
from storage.gateway import StoreReader, StoreWriter
from storage.history import read_store_uuid
from storage.identities import digest_store_history
from storage.leases import Lease
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "epochs")

RECENT_RUNS = 64


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one epoch of a job on a namespace; `recent` is newest first."""

    epoch: int
    totals: dict[str, int]
    counters: dict[str, int]
    recent: list[dict[str, Any]]


def derive_owner_key(store_history: str, lease_key: str, generation: str = "") -> str:
    """Derive what makes the runs of a job comparable; another key begins another epoch."""
    parts = [text.encode() for text in (store_history, lease_key, generation)]
    return "sha256:" + digest_parts("memtend.owner.v1", parts).hex()


def enter_epoch(writer: StoreWriter, lease: Lease, *, generation: str = "", clock: datetime) -> int:
    """Find the epoch of a granted run, or begin one; the run's row gets its number."""
    owner = {"namespace_id": lease.namespace_id, "job": lease.job}
    history = digest_store_history(read_store_uuid(writer))
    key = derive_owner_key(history, lease.lease_key, generation)
    found = writer.rows(_SQL["read_epoch"], owner)
    epoch, known = found[0] if found else (0, None)
    epoch = int(epoch)
    if key != known:
        epoch = _open(writer, owner, epoch + 1, key, clock)
    writer.execute(_SQL["assign_run"], {"run_id": lease.holder, "epoch": epoch})
    return epoch


def reset_epoch(writer: StoreWriter, namespace_id: int, job: str, *, clock: datetime) -> int:
    """Begin an epoch with the same owner: figures start at zero, earlier ones stay readable."""
    owner = {"namespace_id": namespace_id, "job": job}
    found = writer.rows(_SQL["read_epoch"], owner)
    epoch, key = found[0] if found else (0, "")
    return _open(writer, owner, epoch + 1, key, clock)


def _open(writer: StoreWriter, owner: dict[str, Any], epoch: int, key: str, clock: datetime) -> int:
    writer.execute(_SQL["close_epoch"], {**owner, "clock": clock})
    writer.execute(_SQL["open_epoch"], {**owner, "epoch": epoch, "owner_key": key, "clock": clock})
    return epoch


def read_metrics(
    reader: StoreReader, namespace_id: int, job: str, *, epoch: int | None = None
) -> Metrics:
    """Read the figures of an epoch, by default the current one; epoch 0: there never was a run."""
    owner = {"namespace_id": namespace_id, "job": job}
    if epoch is None:
        found = reader.rows(_SQL["read_epoch"], owner)
        epoch = found[0][0] if found else 0
    scope = {**owner, "epoch": epoch}
    recent = reader.records(_SQL["list_recent"], {**scope, "limit": RECENT_RUNS})
    for row in recent:
        row["skipped"] = json.loads(row["skipped"])
        row["figures"] = json.loads(row["figures"] or "{}")
    return Metrics(
        epoch=epoch,
        totals=reader.records(_SQL["read_totals"], scope)[0],
        counters=dict(reader.rows(_SQL["read_counters"], scope)),
        recent=recent,
    )


def list_epochs(reader: StoreReader, namespace_id: int, job: str) -> list[dict[str, Any]]:
    """List the epochs of a job on a namespace, oldest first."""
    return reader.records(_SQL["list_epochs"], {"namespace_id": namespace_id, "job": job})
