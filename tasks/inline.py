"""Run a job's stages in order without Prefect: command line, notebooks, tests.

The same driver serves the flows, which pass a `call` that makes a Prefect task of each stage.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from storage.leases import Lease
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import StoredNamespace
from storage.plans import PlanHeader
from storage.runs import RunEnd
from tasks.jobs import DIRECT_JOBS, DirectJob
from tasks.memory_protocol import MemoryStore, PruneNotAppliedError, UnsupportedError
from tasks.policies import PrunePolicy
from tasks.report import Performed, RunResult, describe_error, end_with_error
from tasks.requests import JobRequest, OnBatch
from tasks.stages import (
    apply_stage,
    begin_stage,
    end_stage,
    fail_stage,
    find_targets,
    finish_stage,
    guard_stage,
    plan_stage,
)

P = ParamSpec("P")
R = TypeVar("R")


class Call(Protocol):
    """How a stage is called: directly, or as a Prefect task."""

    def __call__(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the stage and give its result."""
        ...


def call_directly(stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a stage in this process."""
    return stage(*args, **kwargs)


def run_job(
    request: JobRequest, *, call: Call = call_directly, on_batch: OnBatch | None = None
) -> list[RunResult]:
    """Run a job on each namespace of the request, one after the other.

    A namespace that fails does not stop the next one: each result has its own outcome and error.

    Args:
        request: What to do; `mode` says whether the plan is applied.
        call: How stages are called.
        on_batch: Told how many decisions were dealt with, after each batch.

    Raises:
        StoreNotFoundError: There is no store.
        PlanNotFoundError: There is no stored plan with the given id.
        AdmissionError: Unknown job or namespace, or a plan of another job.
    """
    request, targets = find_targets(request)
    return [_run_target(request, target, call, on_batch) for target in targets]


def preview_job(request: JobRequest) -> list[dict[str, Any]]:
    """Tell what a direct job would do in each namespace of the request; nothing is written.

    Raises:
        StoreNotFoundError: There is no store.
        AdmissionError: Unknown job or namespace.
    """
    request, targets = find_targets(request)
    preview = DIRECT_JOBS[request.job].preview
    return [
        {
            "plan_id": None,
            "job": request.job,
            "namespace": target.namespace.model_dump(),
            "now": request.now,
            "warnings": [],
            **preview(request, target),
        }
        for target in targets
    ]


def prune_store(
    store: MemoryStore,
    policy: PrunePolicy,
    *,
    run_id: str,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> RunResult:
    """Run the prune job on a store that a host offers as an object.

    A store that cannot prune ends refused, never as a run that found nothing.

    Args:
        store: The host's store.
        policy: What is old and unimportant.
        run_id: Names the run, unless the store made one of its own.
        namespace: What the result says the run was about.
    """
    if not store.supports_prune:
        refusal = UnsupportedError("prune")
        end = RunEnd("refused", None, code=refusal.code, error=str(refusal))
        return RunResult(run_id, "prune", namespace, end, error=describe_error(refusal))
    try:
        applied = store.prune(policy)
    except PruneNotAppliedError as error:
        return error.result
    end = RunEnd("applied" if applied else "unchanged", None, found=applied, applied=applied)
    return RunResult(run_id, "prune", namespace, end)


def _run_target(
    request: JobRequest, target: StoredNamespace, call: Call, on_batch: OnBatch | None
) -> RunResult:
    run_id = request.new_run_id()
    direct = DIRECT_JOBS.get(request.job)
    if direct is not None and request.mode == "plan":
        found = call(direct.preview, request, target)["found"]
        end = RunEnd("planned", found=found, skipped={"dry_run": found} if found else {})
        return _result(request, target, run_id, end)
    lease = call(begin_stage, request, target, run_id)
    if not isinstance(lease, Lease):
        return _result(request, target, run_id, end_with_error(lease, None), error=lease)
    if direct is not None:
        return _perform_target(request, target, lease, job=direct, call=call, on_batch=on_batch)
    plan: PlanHeader | None = None
    failure: BaseException | None = None
    try:
        plan = call(plan_stage, request, target, lease)
        ended = end_stage(plan, request.mode)
        if ended is None:
            failure = call(guard_stage, request, plan)
            ended = (
                call(apply_stage, request, plan, lease, on_batch)
                if failure is None
                else end_with_error(failure, plan)
            )
    except Exception as error:  # noqa: BLE001 - every error becomes the run's outcome
        failure, ended = error, fail_stage(request, plan, lease, error)
    except BaseException as error:
        finish_stage(request, lease, fail_stage(request, plan, lease, error))
        raise
    call(finish_stage, request, lease, ended)
    return _result(request, target, run_id, ended, plan=plan, error=failure)


def _perform_target(  # noqa: PLR0913 - what `_run_target` knows
    request: JobRequest,
    target: StoredNamespace,
    lease: Lease,
    *,
    job: DirectJob,
    call: Call,
    on_batch: OnBatch | None,
) -> RunResult:
    try:
        done = call(job.perform, request, target, lease, on_batch)
    except Exception as error:  # noqa: BLE001 - every error becomes the run's outcome
        done = Performed(end_with_error(error, None), error)
    except BaseException as error:
        finish_stage(request, lease, end_with_error(error, None))
        raise
    call(finish_stage, request, lease, done.end)
    return _result(request, target, lease.holder, done.end, error=done.error)


def _result(  # noqa: PLR0913 - one place builds results
    request: JobRequest,
    target: StoredNamespace,
    run_id: str,
    end: RunEnd,
    *,
    plan: PlanHeader | None = None,
    error: BaseException | None = None,
) -> RunResult:
    said = describe_error(error) if error is not None else None
    return RunResult(run_id, request.job, target.namespace, end, plan, said)
