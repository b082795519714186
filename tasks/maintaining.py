"""maintain: the upkeep of a store in one go: sweep, prune, consolidate, refresh, health.

Each step is a run of its own job under its own lease, and a step that fails does not stop the next
one. maintain has a lease and a row, too, so that no two of it interleave and a missed slot is
judged once. Source: spec/maintenance.md 3.2, R9, R23; DESIGN 10.24.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import Field, ValidationError

from storage.errors import AdmissionError, MaintenanceError
from storage.models import Namespace
from storage.runs import Outcome, RunEnd
from tasks.health.policy import HealthPolicy
from tasks.inline import Call, call_directly, preview_job, run_job
from tasks.jobs import DIRECT_JOBS, find_any_job, parse_policy
from tasks.maintain_run import MaintainRun
from tasks.policies import ConsolidatePolicy, Policy, PrunePolicy, RefreshPolicy, SweepPolicy
from tasks.report import WORST_FIRST, RunResult, describe_error, end_with_error, find_worst
from tasks.requests import JobRequest, OnBatch
from tasks.stages import find_targets

MAINTAIN = "maintain"
STEPS = ("sweep", "prune", "consolidate", "refresh", "health")
# These remove memories, so the mode is theirs; the others always apply: they make what can be made
# anew.
GUARDED = frozenset({"sweep", "prune", "consolidate"})
# Stands for the namespaces of a run that stopped before it had found any.
EVERYWHERE = Namespace(tenant="*", principal="*", scope="*")

# Runs a step on each of its requests and reports each batch; it raises nothing.
RunStep = Callable[[Sequence[JobRequest], OnBatch], list[RunResult]]


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


def attempt_jobs(
    requests: Iterable[JobRequest], on_batch: OnBatch, *, call: Call = call_directly
) -> list[RunResult]:
    """Run each request, whatever becomes of the others."""
    return [result for one in requests for result in attempt_job(one, call=call, on_batch=on_batch)]


def tell_all(*told: OnBatch) -> OnBatch:
    """Report each batch to several."""

    def tell(count: int) -> None:
        for one in told:
            one(count)

    return tell


def run_maintain(request: JobRequest, run_step: RunStep = attempt_jobs) -> list[Step]:
    """Run the steps one after the other, whatever becomes of each.

    Args:
        request: What to do; its mode is that of the guarded steps, its policy a MaintainPolicy.
        run_step: Runs the requests of one step.

    Returns:
        The steps; with a first one named maintain for the namespaces that were not to be had, and
        a last one for what ended the run before its last step.
    """
    try:
        request, targets = find_targets(request)
    except Exception as error:  # noqa: BLE001 - every error becomes an outcome
        return [Step(MAINTAIN, [_end_unstarted(request, error)])]
    run = MaintainRun(request)
    steps: list[Step] = []
    try:
        run.begin(targets)
        if run.skipped:
            steps.append(Step(MAINTAIN, run.skipped))
        if run.namespaces:
            _run_steps(request, run, run_step, steps)
    except MaintenanceError as error:
        ended = run.finish(_end_all(run.namespaces, list_results(steps), error))
        said = describe_error(error)
        return [*steps, Step(MAINTAIN, [replace(one, error=said) for one in ended])]
    except BaseException as error:
        run.finish(_end_all(run.namespaces, list_results(steps), error))
        raise
    run.finish(_end_all(run.namespaces, list_results(steps)))
    return steps


def record_settled(request: JobRequest, results: Sequence[RunResult]) -> None:
    """Note in a row of maintain what became of its plans that a person decided about."""
    request, targets = find_targets(replace(request, trigger="manual", slot=None))
    run, settled = MaintainRun(request), {one.namespace for one in results}
    run.begin([one for one in targets if one.namespace in settled])
    run.finish(_end_all(run.namespaces, results))


def _run_steps(request: JobRequest, run: MaintainRun, run_step: RunStep, steps: list[Step]) -> None:
    def keep(_count: int) -> None:
        if run.is_due():
            # What a lost lease means is decided between two steps: each step has its own.
            with suppress(MaintenanceError):
                run.keep()

    for job in STEPS:
        run.keep()
        steps.append(Step(job, run_step(run.narrow(find_step(request, job)), keep)))


def _end_all(
    namespaces: Iterable[Namespace],
    results: Sequence[RunResult],
    error: BaseException | None = None,
) -> dict[Namespace, RunEnd]:
    """Say how maintain ended in each namespace; what ended it early counts everywhere."""
    by_namespace: dict[Namespace, list[RunResult]] = {}
    for one in results:
        if one.job != MAINTAIN:
            by_namespace.setdefault(one.namespace, []).append(one)
    everywhere = by_namespace.get(EVERYWHERE, [])
    return {one: _end_one(by_namespace.get(one, []) + everywhere, error) for one in namespaces}


def _end_one(results: Sequence[RunResult], error: BaseException | None) -> RunEnd:
    worst = find_worst(results)
    if error is not None:
        end = end_with_error(error, None)
    elif worst is None:
        end = RunEnd("unchanged")
    else:
        end = RunEnd(judge_results(results), code=worst.end.code, error=worst.end.error)
    return replace(end, **_add_up(one for one in results if one.job != "health"))


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
    """Give the request of one step, with its own policy; the slot is that of maintain."""
    policy: Policy = getattr(MaintainPolicy.model_validate(request.policy.model_dump()), job)
    direct = DIRECT_JOBS.get(job)
    is_store_wide = direct is not None and direct.is_store_wide
    return replace(
        request,
        job=job,
        policy=policy,
        mode=request.mode if job in GUARDED else "apply",
        namespace=None if is_store_wide else request.namespace,
        slot=None,
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
    return {
        "job": step.job,
        "outcome": step.outcome,
        "runs": len(step.results),
        **_add_up(step.results),
        "errors": sorted({str(one.end.error) for one in step.results if one.end.error}),
    }


def _add_up(results: Iterable[RunResult]) -> dict[str, Any]:
    ends = [one.end for one in results]
    skipped: Counter[str] = Counter()
    for end in ends:
        skipped.update(end.skipped)
    return {
        "found": sum(end.found for end in ends),
        "applied": sum(end.applied for end in ends),
        "skipped": dict(skipped),
        "failed": sum(end.failed for end in ends),
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
