"""The health job: take a snapshot, keep it, export it, and say which thresholds are broken.

It works on the whole store and changes no memory. The figures are read first, in short reads; the
history is written under the lease; the exports come last and are made anew by the next run if this
one is killed. Source: DESIGN 4, 7, 10.24; spec/maintenance.md R29-R32.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from storage import StoreWriter
from storage.epochs import enter_epoch
from storage.health import Breach, add_figures, delete_old_figures, list_breaches
from storage.leases import Lease, keep_lease
from storage.runs import RunEnd
from tasks.health.exports import export_health
from tasks.health.policy import HealthPolicy
from tasks.health.snapshot import Asked, Snapshot, take_snapshot
from tasks.report import Performed, RunResult
from tasks.requests import JobRequest


def perform_health(request: JobRequest, lease: Lease, *, jobs: Sequence[str]) -> Performed:
    """Take a snapshot of the store and publish it, under a lease that the caller gives back."""
    store, policy = request.handle(), _read_policy(request)
    with store.write() as writer:
        keep_lease(writer, lease, clock=request.clock())
        enter_epoch(writer, lease, clock=request.clock())
    snapshot = take_snapshot(store, _ask(request, policy, jobs))
    with store.write() as writer:
        keep_lease(writer, lease, clock=request.clock())
        _keep(writer, policy, snapshot, lease.holder)
    export_health(store, policy, snapshot, now=request.now, run_id=lease.holder)
    return Performed(RunEnd("applied", found=1, applied=1, figures=snapshot.list_counts()))


def preview_health(request: JobRequest, *, jobs: Sequence[str]) -> dict[str, Any]:
    """Tell which thresholds are broken now; nothing is kept or exported."""
    snapshot = take_snapshot(request.handle(), _ask(request, _read_policy(request), jobs))
    broken = {one.name: 1 for one in snapshot.broken}
    return {"found": len(broken), "reasons": broken, "decisions": []}


def _ask(request: JobRequest, policy: HealthPolicy, jobs: Sequence[str]) -> Asked:
    return Asked(
        policy=policy,
        now=request.now,
        clock=request.clock(),
        jobs=jobs,
        schedules=request.schedules,
    )


def _keep(writer: StoreWriter, policy: HealthPolicy, snapshot: Snapshot, run_id: str) -> None:
    add_figures(writer, snapshot.tabulate(run_id))
    delete_old_figures(writer, before=snapshot.taken_at - timedelta(days=policy.keep_days))


def _read_policy(request: JobRequest) -> HealthPolicy:
    return HealthPolicy.model_validate(request.policy.model_dump())


def find_breaches(request: JobRequest, results: Sequence[RunResult]) -> list[Breach]:
    """Find the thresholds that runs found broken: each is one event."""
    with request.handle().read() as reader:
        return list_breaches(reader, [one.run_id for one in results])


def describe_event(breach: Breach) -> tuple[str, dict[str, object]]:
    """Give a broken threshold as the name and the payload of an event."""
    payload = {"name": breach.name, "value": breach.value, "threshold": breach.threshold}
    return "memtend.health.breached", payload | {"run_id": breach.run_id}
