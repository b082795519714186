"""Leases: the exclusive right of a run to work on (store, namespace, job), with a fence.

The fence grows with every grant; a run whose lease was taken over fails at its next write. Rows
are inserted once and changed by plain UPDATE only.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from storage.digests import lease_key
from storage.errors import ConflictError, FenceLostError, LeaseHeldError
from storage.gateway import StoreReader, StoreWriter
from storage.instants import format_instant
from storage.namespaces import StoredNamespace
from storage.queries import read_statements
from storage.run_errors import RunCancelledError
from storage.stores import read_store_id

_SQL = read_statements("storage.sql", "leases")
DEFAULT_TTL_S = 300  # spec/maintenance.md R12

# Jobs that never run together in one namespace (spec/maintenance.md 3.2).
_EXCLUSIVE = frozenset({"prune", "sweep", "consolidate", "restore", "erase"})
# They rewrite the vector tables that all namespaces share, so no two of them, and no refresh beside
# one, whatever the namespace (DESIGN 5). A rebuild is a refresh that makes the tables anew: it
# takes this lease first and its refresh lease then, as the same holder.
_STORE_WIDE = frozenset({"erase", "janitor", "rebuild"})
_SHARING = _STORE_WIDE | {"refresh"}


@dataclass(frozen=True, slots=True)
class Lease:
    """A granted lease; every write of its run names the fence."""

    lease_key: str
    namespace_id: int
    job: str
    holder: str
    fence: int
    ttl_s: int


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease that has a holder, as its row says."""

    lease_key: str
    namespace_id: int
    job: str
    holder: str
    fence: int
    expires_at: datetime


def acquire_lease(  # noqa: PLR0913 - a grant has this many facts
    writer: StoreWriter,
    namespace: StoredNamespace,
    job: str,
    *,
    holder: str,
    clock: datetime,
    ttl_s: int = DEFAULT_TTL_S,
) -> Lease:
    """Take the lease for a run.

    Raises:
        LeaseHeldError: The same job, or one that excludes it, is at work in the namespace, or in
            any if one of both is a job of the whole store.
    """
    key = lease_key(read_store_id(writer), namespace.key, job)
    owner = {"namespace_id": namespace.namespace_id}
    writer.execute(_SQL["insert_lease"], owner | {"lease_key": key, "job": job})
    for live in writer.records(_SQL["find_live_leases"], owner | {"clock": clock}):
        other = live["job"]
        if _is_excluded(job, other, is_near=live["is_near"], is_own=live["holder"] == holder):
            reason = "lease_held" if other == job else "excluded_job"
            until = format_instant(live["expires_at"])
            raise LeaseHeldError(job=job, reason=reason, held_by=other, until=until)
    params = {"lease_key": key, "holder": holder, "clock": clock}
    if writer.execute(_SQL["grant_lease"], params | {"expires_at": _expiry(clock, ttl_s)}) != 1:
        message = "a lease that is not live could not be granted"
        raise ConflictError(message)
    fence = writer.rows(_SQL["read_lease_fence"], {"lease_key": key})[0][0]
    return Lease(key, namespace.namespace_id, job, holder, fence, ttl_s)


def _is_excluded(job: str, other: str, *, is_near: bool, is_own: bool) -> bool:
    """Tell whether a live lease forbids a job; `is_near`: it is one of the same namespace."""
    both = {job, other}
    if is_near and (job == other or both <= _EXCLUSIVE):
        return True
    return not is_own and both <= _SHARING and bool(both & _STORE_WIDE)


def keep_lease(
    writer: StoreWriter, lease: Lease, *, clock: datetime, is_committed: bool = False
) -> None:
    """Check the lease and prolong it; the first statement of every transaction of a run.

    Args:
        writer: The open transaction.
        lease: The lease of the run.
        clock: Wall time.
        is_committed: The run is past its commit point: it finishes, whoever asks it to end.

    Raises:
        FenceLostError: Another run took the lease over.
        RunCancelledError: Somebody asked the run to end.
    """
    expires_at = _expiry(clock, lease.ttl_s)
    params = {"clock": clock, "expires_at": expires_at, "holder": lease.holder}
    owner = {"lease_key": lease.lease_key, "lease_fence": lease.fence}
    if writer.execute(_SQL["keep_lease"], owner | params) != 1:
        raise FenceLostError(fence=lease.fence)
    if not is_committed and is_cancel_requested(writer, lease):
        raise RunCancelledError


def is_cancel_requested(reader: StoreReader, lease: Lease) -> bool:
    """Tell whether somebody asked the holder of a lease to end."""
    owner = {"lease_key": lease.lease_key, "lease_fence": lease.fence}
    return bool(reader.rows(_SQL["is_cancel_requested"], owner)[0][0])


def request_cancel(writer: StoreWriter, *, job: str | None = None, clock: datetime) -> int:
    """Ask the holders of live leases to end, of one job or all; count those that were not asked."""
    return writer.execute(_SQL["request_cancel"], {"job": job, "clock": clock})


def list_held(reader: StoreReader) -> list[HeldLease]:
    """List the leases that have a holder, live or not."""
    return [HeldLease(*row) for row in reader.rows(_SQL["list_held"])]


def free_expired(writer: StoreWriter, held: HeldLease, *, clock: datetime) -> bool:
    """Give an expired lease back for a holder that did not; False: it is live, or another's."""
    params = {"lease_key": held.lease_key, "lease_fence": held.fence, "clock": clock}
    return writer.execute(_SQL["free_expired"], params) == 1


def release_lease(writer: StoreWriter, lease: Lease, *, clock: datetime) -> None:
    """Give the lease back; a late release with an old fence changes nothing."""
    owner = {"lease_key": lease.lease_key, "lease_fence": lease.fence}
    writer.execute(_SQL["release_lease"], owner | {"clock": clock})


def _expiry(clock: datetime, ttl_s: int) -> datetime:
    return clock + timedelta(seconds=ttl_s)
