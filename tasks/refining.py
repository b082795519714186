"""Summaries of clusters by a refiner, as candidates beside their sources: bounded, kept, judged.

No lock is held while the refiner works. What it answers becomes a candidate only if it is valid
and no source has changed since it was read; sources are never touched. A cluster that was refined
is not asked about again, so neither a kill nor another run makes a second candidate.
Source: spec/consolidate.md R90-R94.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from storage import Store, StoreReader, StoreWriter
from storage.attempts import RetryPolicy
from storage.change_errors import IdempotencyConflictError, MemoryExistsError
from storage.changes import parse_change_set
from storage.errors import LimitExceededError
from storage.models import MemoryRecord, Namespace
from storage.namespaces import find_namespace
from storage.records import read_records
from storage.refiner_attempts import (
    ClusterAttempts,
    ClusterKey,
    read_attempts,
    record_candidate,
    record_failure,
)
from storage.repository import commit_change_set
from tasks.providers.refiner import Refiner, RefineRequest
from tasks.refine_calls import RefineLimits, RefinerCalls, Stop
from tasks.refined_memory import (
    build_candidate,
    digest_cluster,
    has_room,
    is_current,
    name_candidate,
)
from tasks.rules.refined import RefinedText

Result = Literal["refined", "failed", "skipped", "permanent", "not_attempted"]
State = Literal["unchanged", "completed", "completed_with_failures", "failed"]
CHANGED = "changed_since_plan"
WAITING = "waiting"
REFINED_BEFORE = "refined_before"
_REFUSALS = (IdempotencyConflictError, LimitExceededError, MemoryExistsError)


class ClusterOutcome(NamedTuple):
    """What became of one cluster.

    `detail` is the id of the candidate, the code of the failure or the reason of the skip.
    """

    memory_ids: tuple[str, ...]
    result: Result
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class RefineReport:
    """What a run of the refiner came to: an outcome a cluster, in the order they were given.

    `permanent` clusters were given up by an earlier run and are not pending work.
    """

    outcomes: tuple[ClusterOutcome, ...]
    calls: int
    tokens: int
    stop: Stop

    def count(self, result: Result) -> int:
        """Count the clusters that ended so."""
        return sum(outcome.result == result for outcome in self.outcomes)

    def count_details(self, result: Literal["failed", "skipped"]) -> Counter[str]:
        """Count the clusters that ended so, by code or reason."""
        return Counter(str(each.detail) for each in self.outcomes if each.result == result)

    @property
    def state(self) -> State:
        """The state of a run that did nothing else (spec/consolidate.md R9)."""
        is_kept = self.count("refined") > 0
        if self.count("failed"):
            return "completed_with_failures" if is_kept else "failed"
        return "completed" if is_kept else "unchanged"


def refine_clusters(  # noqa: PLR0913 - who, what, within which bounds, and the caller's callbacks
    store: Store,
    refiner: Refiner,
    clusters: Sequence[RefineRequest],
    *,
    limits: RefineLimits,
    now: datetime,
    clock: Callable[[], datetime],
    retry: RetryPolicy | None = None,
    before_call: Callable[[], None] = lambda: None,
    guard: Callable[[StoreWriter], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
) -> RefineReport:
    """Ask the refiner about clusters, those that failed least first, and keep what is valid.

    Args:
        store: The store; no lock may be held.
        refiner: Called from this thread only; it must not retry by itself.
        clusters: With the revisions and contents that were read; each once.
        limits: Calls and tokens of this run.
        now: The instant that decisions are made for: no memory that has expired takes part.
        clock: Wall time, for tries that wait.
        retry: When a failed cluster is tried again, and when it is given up.
        before_call: Called before each call, such as to prolong a lease; what it raises ends the
            run, and all that was stored stays.
        guard: Called first in each transaction that writes, such as to check a lease.
        sleep: Waits between tries, in seconds.
    """
    given = [_Cluster(request, digest_cluster(request)) for request in clusters]
    if len({cluster.digest for cluster in given}) != len(given):
        raise ValueError("a cluster occurs once in a run")
    calls = RefinerCalls(refiner, limits, before_call, sleep)
    work = _Work(store, calls, now, clock, retry or RetryPolicy(), guard)
    for cluster in work.select(given):
        work.outcomes[cluster.digest] = work.refine(cluster)
    outcomes = tuple(work.outcomes[cluster.digest] for cluster in given)
    return RefineReport(outcomes, calls.calls, calls.tokens, calls.stop)


@dataclass(frozen=True, slots=True)
class _Cluster:
    request: RefineRequest
    digest: str

    @property
    def memory_ids(self) -> tuple[str, ...]:
        return tuple(self.request.texts)

    def end(self, result: Result, detail: str | None = None) -> ClusterOutcome:
        return ClusterOutcome(self.memory_ids, result, detail)

    def key(self, namespace_id: int) -> ClusterKey:
        return ClusterKey(namespace_id, self.digest, self.memory_ids)


@dataclass(slots=True)
class _Work:
    """One call of `refine_clusters` at work."""

    store: Store
    calls: RefinerCalls
    now: datetime
    clock: Callable[[], datetime]
    retry: RetryPolicy
    guard: Callable[[StoreWriter], None]
    outcomes: dict[str, ClusterOutcome] = field(default_factory=dict)

    def select(self, given: Sequence[_Cluster]) -> list[_Cluster]:
        """Find the clusters to ask about, and end the others."""
        by_namespace: defaultdict[Namespace, list[_Cluster]] = defaultdict(list)
        for cluster in given:
            by_namespace[cluster.request.namespace].append(cluster)
        failed_runs: dict[str, int] = {}
        with self.store.read() as reader:
            for namespace, clusters in by_namespace.items():
                failed_runs |= self._select_in(reader, namespace, clusters)
        pending = [cluster for cluster in given if cluster.digest in failed_runs]
        return sorted(pending, key=lambda cluster: failed_runs[cluster.digest])

    def _select_in(
        self, reader: StoreReader, namespace: Namespace, clusters: Sequence[_Cluster]
    ) -> dict[str, int]:
        """Give the failed runs of the clusters to ask about, by digest."""
        owner = find_namespace(reader, namespace)
        known: Mapping[str, ClusterAttempts] = {}
        records: Mapping[str, MemoryRecord] = {}
        if owner is not None:
            known = read_attempts(reader, owner.namespace_id, [each.digest for each in clusters])
            ids = {name for each in clusters for name in each.memory_ids}
            records = read_records(reader, owner.namespace_id, sorted(ids))
        pending = {}
        for cluster in clusters:
            attempts = known.get(cluster.digest)
            outcome = self._refuse_now(cluster, attempts) or self._refuse(
                cluster, attempts, records
            )
            if outcome is None:
                pending[cluster.digest] = attempts.failed_runs if attempts else 0
            else:
                self.outcomes[cluster.digest] = outcome
        return pending

    def _refuse_now(
        self, cluster: _Cluster, attempts: ClusterAttempts | None
    ) -> ClusterOutcome | None:
        """Find why a cluster is not asked about in this run."""
        if attempts is None:
            return None
        if attempts.state == "permanent":
            return cluster.end("permanent")
        due = attempts.next_attempt_at
        return cluster.end("skipped", WAITING) if due is not None and due > self.clock() else None

    def _refuse(
        self,
        cluster: _Cluster,
        attempts: ClusterAttempts | None,
        records: Mapping[str, MemoryRecord],
    ) -> ClusterOutcome | None:
        """Find why nothing may be made of a cluster; asked before the calls and after them."""
        if attempts is not None and attempts.state == "refined":
            return cluster.end("skipped", REFINED_BEFORE)
        if not is_current(cluster.request, records, now=self.now):
            return cluster.end("skipped", CHANGED)
        if not has_room([records[name] for name in cluster.memory_ids]):
            return cluster.end("skipped", LimitExceededError.code)
        return None

    def refine(self, cluster: _Cluster) -> ClusterOutcome:
        """Ask about a cluster, and keep the answer or note that it failed."""
        answer = self.calls.ask(cluster.request)
        if answer is None:
            return cluster.end("not_attempted")
        if not isinstance(answer, RefinedText):
            return self._fail(cluster, answer.code)
        try:
            with self.store.write() as writer:
                self.guard(writer)
                return self._keep(writer, cluster, answer)
        except _REFUSALS as error:
            return self._fail(cluster, error.code)

    def _keep(self, writer: StoreWriter, cluster: _Cluster, text: RefinedText) -> ClusterOutcome:
        request = cluster.request
        owner = find_namespace(writer, request.namespace)
        if owner is None:
            return cluster.end("skipped", CHANGED)
        known = read_attempts(writer, owner.namespace_id, [cluster.digest])
        records = read_records(writer, owner.namespace_id, cluster.memory_ids)
        refused = self._refuse(cluster, known.get(cluster.digest), records)
        if refused is not None:
            return refused
        identity = self.calls.refiner.identity
        values = build_candidate(request, records, text.content, identity, now=self.now)
        commit_change_set(writer, parse_change_set(values))
        candidate_id = name_candidate(cluster.digest)
        key = cluster.key(owner.namespace_id)
        record_candidate(writer, key, candidate_id, clock=self.clock())
        return cluster.end("refined", candidate_id)

    def _fail(self, cluster: _Cluster, code: str) -> ClusterOutcome:
        with self.store.write() as writer:
            self.guard(writer)
            owner = find_namespace(writer, cluster.request.namespace)
            if owner is not None:
                key = cluster.key(owner.namespace_id)
                record_failure(writer, key, code, self.retry, clock=self.clock())
        return cluster.end("failed", code)
