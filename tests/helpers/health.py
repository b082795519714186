"""Health in tests: runs with chosen outcomes, and snapshots at chosen instants."""

from datetime import datetime, timedelta
from typing import Any

from helpers.rows import NOW
from helpers.runs import new_run_id, request_job, run_one

from storage import Store
from storage.leases import acquire_lease, release_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.runs import Outcome, RunEnd, RunStart, Trigger, begin_run, finish_run, record_skipped
from storage.slots import activate_job
from tasks.health.policy import HealthPolicy
from tasks.report import RunResult
from tasks.status import show_status

Json = dict[str, Any]


class Timeline:
    """Runs of one job in the default namespace; instants are seconds after `NOW`."""

    def __init__(self, store: Store, job: str = "prune") -> None:
        """Begin without any run."""
        self.store = store
        self.job = job
        with store.write() as writer:
            self.target = ensure_namespace(writer, DEFAULT_NAMESPACE)

    def activate(self, interval_s: int, at: int = 0) -> None:
        """Let the job run at an interval from an instant on."""
        with self.store.write() as writer:
            owner = self.target.namespace_id
            activate_job(writer, owner, self.job, interval_s=interval_s, clock=instant(at))

    def start(self, at: int, trigger: Trigger = "manual") -> str:
        """Start a run and leave it at work; give its id."""
        start = self._start(at, trigger)
        with self.store.write() as writer:
            lease = acquire_lease(
                writer, self.target, self.job, holder=start.run_id, clock=start.started_at
            )
            begin_run(writer, start, lease_fence=lease.fence)
        return start.run_id

    def settle(self, at: int, outcome: Outcome, **end: Any) -> None:  # noqa: ANN401 - of RunEnd
        """Start a run, end it a second later and give its lease back."""
        trigger = end.pop("trigger", "manual")
        start, ended = self._start(at, trigger), instant(at + 1)
        with self.store.write() as writer:
            lease = acquire_lease(
                writer, self.target, self.job, holder=start.run_id, clock=start.started_at
            )
            begin_run(writer, start, lease_fence=lease.fence)
            finish_run(writer, start.run_id, RunEnd(outcome, **end), clock=ended)
            release_lease(writer, lease, clock=ended)

    def skip(self, at: int) -> None:
        """Note a run that found the lease taken."""
        with self.store.write() as writer:
            end = RunEnd("skipped_busy", code="lease_held")
            record_skipped(writer, self._start(at, "manual"), end)

    def _start(self, at: int, trigger: Trigger) -> RunStart:
        moment, owner = instant(at), self.target.namespace_id
        return RunStart(new_run_id(), self.job, owner, "apply", trigger, moment, moment)

    def read(self, at: int, **asked: Any) -> Json:  # noqa: ANN401 - arguments of show_status
        """Read the state of the store at an instant."""
        return show_status(self.store, now=instant(at), **asked)

    def read_job(self, at: int, **asked: Any) -> Json:  # noqa: ANN401 - arguments of show_status
        """Read the record of the job at an instant."""
        job: Json = self.read(at, **asked)["jobs"][self.job]
        return job


def instant(seconds: float) -> datetime:
    """Give the instant that many seconds after `NOW`."""
    return NOW + timedelta(seconds=seconds)


def run_health(store: Store, at: datetime = NOW, **policy: Any) -> RunResult:  # noqa: ANN401
    """Run the health job."""
    asked = HealthPolicy(**policy)
    return run_one(request_job(store, job="health", policy=asked, now=at, mode="apply"))
