"""The run of maintain itself: a lease and a row in each namespace while its steps work.

The leases keep two runs of maintain from interleaving in a namespace; what a step may change is
decided by the step's own lease. Source: spec/maintenance.md 3.2, R6, R12, R20.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from storage.errors import StoreBusyError
from storage.leases import Lease, keep_lease
from storage.models import Namespace
from storage.namespaces import StoredNamespace
from storage.runs import RunEnd
from tasks.jobs import DIRECT_JOBS
from tasks.report import RunResult, describe_error, end_with_error
from tasks.requests import JobRequest
from tasks.stages import begin_stage, finish_stage


class MaintainRun:
    """What a run of maintain holds; `skipped` tells of the namespaces that it did not get."""

    def __init__(self, request: JobRequest) -> None:
        """Hold nothing yet."""
        self._request = request
        self._leases: dict[Namespace, Lease] = {}
        self._kept_at = request.clock()
        self.skipped: list[RunResult] = []

    @property
    def namespaces(self) -> list[Namespace]:
        """The namespaces that it holds."""
        return list(self._leases)

    def begin(self, targets: Sequence[StoredNamespace]) -> None:
        """Ask for the lease of each namespace."""
        for target in targets:
            run_id = self._request.new_run_id()
            lease = begin_stage(self._request, target, run_id)
            if isinstance(lease, Lease):
                self._leases[target.namespace] = lease
                continue
            end, said = end_with_error(lease, None), describe_error(lease)
            job = self._request.job
            self.skipped.append(RunResult(run_id, job, target.namespace, end, error=said))

    def narrow(self, step: JobRequest) -> list[JobRequest]:
        """Give the requests of a step: one, unless there are namespaces to leave out."""
        direct = DIRECT_JOBS.get(step.job)
        if not self.skipped or (direct is not None and direct.is_store_wide):
            return [step]
        return [replace(step, namespace=one) for one in self._leases]

    def keep(self) -> None:
        """Prolong all leases; while the store is locked, they are prolonged the next time.

        Raises:
            FenceLostError: Another run took one of them over.
            RunCancelledError: Somebody asked the run to end.
        """
        now = self._request.clock()
        with suppress(StoreBusyError):
            with self._request.handle().write() as writer:
                for lease in self._leases.values():
                    keep_lease(writer, lease, clock=now)
            self._kept_at = now

    def is_due(self) -> bool:
        """Tell whether a third of the leases' time has passed since they were prolonged."""
        third = timedelta(seconds=self._request.lease_ttl_s / 3)
        return self._request.clock() - self._kept_at >= third

    def finish(self, ends: Mapping[Namespace, RunEnd]) -> list[RunResult]:
        """Write the outcome of each namespace and give its lease back.

        Where the store stays locked, the lease runs out and the next run settles the row: what the
        steps did is told by their own rows.
        """
        results = []
        for namespace, lease in self._leases.items():
            end = ends[namespace]
            with suppress(StoreBusyError):
                finish_stage(self._request, lease, end)
            results.append(RunResult(lease.holder, lease.job, namespace, end))
        self._leases = {}
        return results
