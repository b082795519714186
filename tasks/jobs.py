"""The jobs as data: the policy of each, and what it does.

A planned job decides about memories and applies its plan; a direct one works on what can be made
anew, so it has no plan to approve.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from storage import StoreReader
from storage.errors import AdmissionError
from storage.plans import Plan, PlanHeader
from tasks.janitor import JanitorPolicy, perform_janitor, preview_janitor
from tasks.policies import Policy, PrunePolicy, RefreshPolicy, SweepPolicy
from tasks.prune import allow_prune, plan_prune
from tasks.refresh.job import perform_refresh, preview_refresh
from tasks.report import Performed
from tasks.rules.decide import explain_prune, explain_sweep
from tasks.sweep import plan_sweep


@dataclass(frozen=True, slots=True)
class Job:
    """One job; its functions take an instance of `policy_type`."""

    name: str
    policy_type: type[Policy]
    plan: Callable[..., Plan]
    explain: Callable[..., pa.Table]
    allow: Callable[[StoreReader, PlanHeader, str], int | None]


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


JOBS = {
    job.name: job
    for job in (
        Job("prune", PrunePolicy, plan_prune, explain_prune, allow_prune),
        Job("sweep", SweepPolicy, plan_sweep, explain_sweep, _allow_all),
    )
}


DIRECT_JOBS = {
    job.name: job
    for job in (
        DirectJob("refresh", RefreshPolicy, perform_refresh, preview_refresh),
        DirectJob("janitor", JanitorPolicy, perform_janitor, preview_janitor, is_store_wide=True),
    )
}


def find_any_job(name: str) -> Job | DirectJob:
    """Find a job by name, whatever it is.

    Raises:
        AdmissionError: There is no such job.
    """
    found = JOBS.get(name) or DIRECT_JOBS.get(name)
    if found is None:
        raise AdmissionError("job", f"must be one of {', '.join([*JOBS, *DIRECT_JOBS])}")
    return found


def find_job(name: str) -> Job:
    """Find a job that plans.

    Raises:
        AdmissionError: There is no such job, or it has no plans.
    """
    if name not in JOBS:
        raise AdmissionError("job", f"must be one of {', '.join(JOBS)}")
    return JOBS[name]


def parse_policy(job: Job | DirectJob, values: Mapping[str, object]) -> Policy:
    """Read the policy of a job from JSON values; absent fields keep their defaults.

    Raises:
        AdmissionError: An unknown field or a value out of bounds, named; nothing was read.
    """
    try:
        return job.policy_type.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "policy"
        raise AdmissionError(f"{job.name}.{field}", first["msg"]) from None
