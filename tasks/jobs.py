"""The jobs as data: the policy of each, and what it does.

A planned job decides about memories and applies its plan; a direct one works on what can be made
anew, so it has no plan to approve.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from storage import Store, StoreReader
from storage.errors import AdmissionError
from storage.leases import Lease
from storage.namespaces import StoredNamespace
from storage.plans import Plan, PlanHeader
from tasks.apply import apply_plan
from tasks.consolidate.apply import apply_consolidation
from tasks.consolidate.plan import plan_consolidate
from tasks.consolidate.reporting import explain_pairs
from tasks.erasing.job import perform_erase, preview_erase
from tasks.erasing.selection import ErasePolicy
from tasks.health.job import perform_health, preview_health
from tasks.health.policy import HealthPolicy
from tasks.janitor import JanitorPolicy, perform_janitor, preview_janitor
from tasks.policies import ConsolidatePolicy, Policy, PrunePolicy, RefreshPolicy, SweepPolicy
from tasks.prune import allow_prune, plan_prune
from tasks.refresh.job import perform_refresh, preview_refresh
from tasks.report import Performed
from tasks.requests import JobRequest, OnBatch
from tasks.restoring import RestorePolicy, perform_restore, preview_restore
from tasks.rules.decide import explain_prune, explain_sweep
from tasks.sweep import plan_sweep


@dataclass(frozen=True, slots=True)
class RuleJob:
    """A job whose decisions are made by one SQL rule, from one consistent view of a namespace.

    Its functions take an instance of `policy_type`; `allow` says how many rows of a reason may go.
    """

    name: str
    policy_type: type[Policy]
    plan: Callable[..., Plan]
    explain: Callable[..., pa.Table]
    allow: Callable[[StoreReader, PlanHeader, str], int | None]

    def make_plan(
        self, store: Store, policy: Policy, *, namespace: StoredNamespace, now: datetime
    ) -> Plan:
        """Decide what the job would do in a namespace."""
        with store.read() as reader:
            return self.plan(reader, policy, namespace=namespace, now=now)

    def apply(
        self,
        request: JobRequest,
        plan: PlanHeader,
        lease: Lease,
        on_batch: OnBatch | None = None,
    ) -> dict[str, int]:
        """Execute a stored plan; it does nothing beside its decisions."""
        store, clock = request.handle(), request.clock
        apply_plan(store, plan, lease, allow=self.allow, clock=clock, on_batch=on_batch)
        return {}

    def explain_plan(self, store: Store, plan: PlanHeader) -> list[dict[str, Any]]:
        """Judge every memory again as the plan did, on today's facts."""
        policy = parse_policy(self, plan.policy)
        with store.read() as reader:
            table = self.explain(reader, policy, namespace_id=plan.namespace_id, now=plan.now)
        rows: list[dict[str, Any]] = table.to_pylist()
        return [{"id": row.pop("memory_id"), **row} for row in rows]


@dataclass(frozen=True, slots=True)
class PairJob:
    """A job that compares memories with one another, outside of the lock."""

    name: str
    policy_type: type[Policy]
    make_plan: Callable[..., Plan]
    apply: Callable[..., dict[str, int]]
    explain_plan: Callable[[Store, PlanHeader], list[dict[str, Any]]]


PlannedJob = RuleJob | PairJob


@dataclass(frozen=True, slots=True)
class DirectJob:
    """One job without a plan: what it does under its lease, and what it would do."""

    name: str
    policy_type: type[Policy]
    perform: Callable[..., Performed]
    preview: Callable[..., dict[str, Any]]
    is_store_wide: bool = False


def _allow_all(_reader: StoreReader, _plan: PlanHeader, _reason: str) -> None:
    return None


_RULES = {
    job.name: job
    for job in (
        RuleJob("prune", PrunePolicy, plan_prune, explain_prune, allow_prune),
        RuleJob("sweep", SweepPolicy, plan_sweep, explain_sweep, _allow_all),
    )
}

JOBS: dict[str, PlannedJob] = {
    **_RULES,
    "consolidate": PairJob(
        "consolidate", ConsolidatePolicy, plan_consolidate, apply_consolidation, explain_pairs
    ),
}


def check_health(
    request: JobRequest, _target: StoredNamespace, lease: Lease, _on_batch: OnBatch | None = None
) -> Performed:
    """Take a snapshot of the store, with every job there is."""
    return perform_health(request, lease, jobs=list_jobs())


def preview_check(request: JobRequest, _target: StoredNamespace) -> dict[str, Any]:
    """Tell what a snapshot would find broken."""
    return preview_health(request, jobs=list_jobs())


def list_jobs() -> list[str]:
    """List the names of all jobs."""
    return [*JOBS, *DIRECT_JOBS]


DIRECT_JOBS = {
    job.name: job
    for job in (
        DirectJob("refresh", RefreshPolicy, perform_refresh, preview_refresh),
        DirectJob("restore", RestorePolicy, perform_restore, preview_restore),
        DirectJob("erase", ErasePolicy, perform_erase, preview_erase),
        DirectJob("health", HealthPolicy, check_health, preview_check, is_store_wide=True),
        DirectJob("janitor", JanitorPolicy, perform_janitor, preview_janitor, is_store_wide=True),
    )
}


def find_any_job(name: str) -> PlannedJob | DirectJob:
    """Find a job by name, whatever it is.

    Raises:
        AdmissionError: There is no such job.
    """
    found = JOBS.get(name) or DIRECT_JOBS.get(name)
    if found is None:
        raise AdmissionError("job", f"must be one of {', '.join([*JOBS, *DIRECT_JOBS])}")
    return found


def find_job(name: str) -> PlannedJob:
    """Find a job that plans.

    Raises:
        AdmissionError: There is no such job, or it has no plans.
    """
    if name not in JOBS:
        raise AdmissionError("job", f"must be one of {', '.join(JOBS)}")
    return JOBS[name]


def find_rule(name: str) -> RuleJob:
    """Find a job that one SQL rule decides."""
    return _RULES[name]


def parse_policy(job: PlannedJob | DirectJob, values: Mapping[str, object]) -> Policy:
    """Read the policy of a job from JSON values; absent fields keep their defaults.

    Raises:
        AdmissionError: An unknown field or a value out of bounds, named; nothing was read.
    """
    try:
        return job.policy_type.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "policy"
        reason = first["msg"].removeprefix("Value error, ")
        raise AdmissionError(f"{job.name}.{field}", reason) from None
