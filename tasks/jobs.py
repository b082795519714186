"""The jobs as data: the policy of each, how it plans, explains and is limited while it applies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pydantic import ValidationError

from storage import StoreReader
from storage.errors import AdmissionError
from storage.plans import Plan, PlanHeader
from tasks.policies import Policy, PrunePolicy, SweepPolicy
from tasks.prune import allow_prune, plan_prune
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


def _allow_all(_reader: StoreReader, _plan: PlanHeader, _reason: str) -> None:
    return None


JOBS = {
    job.name: job
    for job in (
        Job("prune", PrunePolicy, plan_prune, explain_prune, allow_prune),
        Job("sweep", SweepPolicy, plan_sweep, explain_sweep, _allow_all),
    )
}


def find_job(name: str) -> Job:
    """Find a job by name.

    Raises:
        AdmissionError: There is no such job.
    """
    if name not in JOBS:
        raise AdmissionError("job", f"must be one of {', '.join(JOBS)}")
    return JOBS[name]


def parse_policy(job: Job, values: Mapping[str, object]) -> Policy:
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
