"""maintain: the upkeep of a store in one go: sweep, prune, consolidate, refresh, health.

Each step is a run of its own job under its own lease, and a step that fails does not stop the next
one. Source: spec/maintenance.md R9, R23; DESIGN 10.24.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field, ValidationError

from storage.errors import AdmissionError
from storage.models import Namespace
from storage.runs import Outcome
from tasks.health.policy import HealthPolicy
from tasks.inline import Call, call_directly, preview_job, run_job
from tasks.jobs import DIRECT_JOBS, find_any_job, parse_policy
from tasks.policies import ConsolidatePolicy, Policy, PrunePolicy, RefreshPolicy, SweepPolicy
from tasks.report import WORST_FIRST, RunResult, describe_error, end_with_error, find_worst
from tasks.requests import JobRequest, OnBatch

MAINTAIN = "maintain"
STEPS = ("sweep", "prune", "consolidate", "refresh", "health")
# These remove memories, so the mode is theirs; the others always apply: they make what can be made
# anew.
GUARDED = frozenset({"sweep", "prune", "consolidate"})
# Stands for the namespaces of a run that stopped before it had found any.
EVERYWHERE = Namespace(tenant="*", principal="*", scope="*")

RunStep = Callable[[JobRequest], list[RunResult]]


class MaintainPolicy(Policy):
    """One policy for each step: the same as its own job has."""

    sweep: SweepPolicy = Field(
        default=SweepPolicy(), description="What has expired, and what nobody uses any more"
    )
    prune: PrunePolicy = Field(
        default=PrunePolicy(), description="What is old and unimportant, and the cap"
    )
    consolidate: ConsolidatePolicy = Field(
        default=ConsolidatePolicy(), description="Which memories say the same"
    )
    refresh: RefreshPolicy = Field(
        default=RefreshPolicy(), description="How much may be embedded, and how much may fail"
    )
    health: HealthPolicy = Field(
        default=HealthPolicy(), description="The thresholds, and how long figures are kept"
    )


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one step: its runs, one a namespace."""

    job: str
    results: Sequence[RunResult]

    @property
    def outcome(self) -> Outcome:
        """The worst of its runs; unchanged where there was nothing to work on."""
        worst = find_worst(self.results)
        return "unchanged" if worst is None else worst.end.outcome


def parse_any_policy(job: str, values: Mapping[str, object]) -> Policy:
    """Read the policy of a job, or of all steps, from JSON values; absent fields are defaults.

    Raises:
        AdmissionError: An unknown job or field, or a value out of bounds, named.
    """
    if job != MAINTAIN:
        return parse_policy(find_any_job(job), values)
    try:
        return MaintainPolicy.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise AdmissionError(f"{MAINTAIN}.{field}", first["msg"]) from None


def attempt_job(
    request: JobRequest, *, call: Call = call_directly, on_batch: OnBatch | None = None
) -> list[RunResult]:
    """Run a job; what stops it before its first run becomes a result, too, which has no row."""
    try:
        return run_job(request, call=call, on_batch=on_batch)
    except Exception as error:  # noqa: BLE001 - every error becomes an outcome
        return [_end_unstarted(request, error)]


def run_maintain(request: JobRequest, run_step: RunStep = attempt_job) -> list[Step]:
    """Run the steps one after the other, whatever becomes of each.

    Once a step has not been missed, the later ones that are not guarded look at no slot: what was
    refreshed before the sweep is not what is to be served after it.

    Args:
        request: What to do; its mode is that of the guarded steps, its policy a MaintainPolicy.
        run_step: Runs the request of one step; it raises nothing.
    """
    steps: list[Step] = []
    for job in STEPS:
        step = find_step(request, job)
        if job not in GUARDED and any(one.outcome != "skipped_missed" for one in steps):
            step = replace(step, slot=None)
        steps.append(Step(job, run_step(step)))
    return steps


def plan_maintain(request: JobRequest) -> tuple[list[RunResult], list[dict[str, Any]]]:
    """Plan the guarded steps and preview the others; no memory and no index changes.

    Returns:
        The runs that stored plans or failed, and what the other steps would do.
    """
    results: list[RunResult] = []
    previews: list[dict[str, Any]] = []
    for job in STEPS:
        step = find_step(request, job)
        if job in GUARDED:
            results += attempt_job(step)
            continue
        try:
            previews += preview_job(step)
        except Exception as error:  # noqa: BLE001 - one step says nothing about the others
            results.append(_end_unstarted(step, error))
    return results, previews


def find_step(request: JobRequest, job: str) -> JobRequest:
    """Give the request of one step, with its own policy."""
    policy: Policy = getattr(MaintainPolicy.model_validate(request.policy.model_dump()), job)
    direct = DIRECT_JOBS.get(job)
    is_store_wide = direct is not None and direct.is_store_wide
    return replace(
        request,
        job=job,
        policy=policy,
        mode=request.mode if job in GUARDED else "apply",
        namespace=None if is_store_wide else request.namespace,
    )


def judge_results(results: Iterable[RunResult]) -> Outcome:
    """Give the outcome of all steps: the worst one (R23).

    A snapshot of health is taken by every run and changes no memory and no index: where nothing
    else was done, the whole is unchanged.
    """
    outcomes = [
        "unchanged" if one.job == "health" and one.end.outcome == "applied" else one.end.outcome
        for one in results
    ]
    return min(outcomes, key=WORST_FIRST.index, default="unchanged")


def list_results(steps: Iterable[Step]) -> list[RunResult]:
    """List the runs of all steps."""
    return [result for step in steps for result in step.results]


def describe_step(step: Step) -> dict[str, Any]:
    """Give a step as data: its outcome, and the figures of its runs together."""
    skipped: dict[str, int] = {}
    for result in step.results:
        for reason, count in result.end.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count
    return {
        "job": step.job,
        "outcome": step.outcome,
        "runs": len(step.results),
        "found": sum(one.end.found for one in step.results),
        "applied": sum(one.end.applied for one in step.results),
        "skipped": skipped,
        "failed": sum(one.end.failed for one in step.results),
        "errors": sorted({str(one.end.error) for one in step.results if one.end.error}),
    }


def write_steps(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write a markdown table of described steps."""
    lines = [
        "| step | outcome | runs | found | applied | skipped | failed | error |",
        "|---|---|---:|---:|---:|---|---:|---|",
    ]
    for row in rows:
        skipped = ", ".join(f"{name} {count}" for name, count in row["skipped"].items()) or "0"
        errors = "; ".join(row["errors"]).replace("|", "\\|")
        figures = f"{row['runs']} | {row['found']} | {row['applied']} | {skipped} | {row['failed']}"
        lines.append(f"| {row['job']} | {row['outcome']} | {figures} | {errors} |")
    return "\n".join(lines)


def _end_unstarted(request: JobRequest, error: Exception) -> RunResult:
    where = request.namespace or EVERYWHERE
    end = end_with_error(error, None)
    said = describe_error(error)
    return RunResult(request.new_run_id(), request.job, where, end, error=said)
