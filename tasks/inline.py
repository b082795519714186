"""Run a job's stages in order without Prefect: command line, notebooks, tests.

The same driver serves the flows, which pass a `call` that makes a Prefect task of each stage.
"""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from storage.errors import LeaseHeldError
from storage.leases import Lease
from storage.namespaces import StoredNamespace
from storage.plans import PlanHeader
from storage.runs import RunEnd
from tasks.apply import OnBatch
from tasks.report import RunResult, describe_error, end_with_error
from tasks.stages import (
    JobRequest,
    apply_stage,
    begin_stage,
    end_stage,
    find_targets,
    finish_stage,
    guard_stage,
    plan_stage,
    skip_stage,
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


def _run_target(
    request: JobRequest, target: StoredNamespace, call: Call, on_batch: OnBatch | None
) -> RunResult:
    run_id = request.new_run_id()
    lease = call(begin_stage, request, target, run_id)
    if not isinstance(lease, Lease):
        end = end_with_error(lease, None)
        if isinstance(lease, LeaseHeldError):
            call(skip_stage, request, target, run_id, end)
        return _result(request, target, run_id, end, error=lease)
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
        failure, ended = error, end_with_error(error, plan)
    except BaseException as error:
        call_directly(finish_stage, request, lease, end_with_error(error, plan))
        raise
    call(finish_stage, request, lease, ended)
    return _result(request, target, run_id, ended, plan=plan, error=failure)


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
