"""Prefect tasks of the stages, and the state that a flow ends in.

At most 20 task runs a flow run: a store with many namespaces goes on with direct calls.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from storage.errors import InternalError, MaintenanceError
from storage.plans import PlanHeader
from storage.runs import Outcome
from tasks.artifacts import ProgressArtifact
from tasks.report import RunResult, find_worst

P = ParamSpec("P")
R = TypeVar("R")
MAX_TASK_RUNS = 20  # PLATFORM P50
_FAILURES: frozenset[Outcome] = frozenset({"failed", "refused"})


class TaskCall:
    """Calls each stage as a task run, as long as the flow run's budget lasts."""

    def __init__(self, job: str, budget: int) -> None:
        """Begin with a budget of task runs; `progress` is told of each plan that is made."""
        self._left = budget
        self.progress = ProgressArtifact(job)

    def __call__(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the stage; errors reach the caller either way."""
        result = self._call(stage, *args, **kwargs)
        if isinstance(result, PlanHeader):
            self.progress.expect(result)
        return result

    def _call(self, stage: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._left == 0:
            return stage(*args, **kwargs)
        self._left -= 1
        name = stage.__name__.removesuffix("_stage")
        as_task = task(name=name, cache_policy=NO_CACHE, persist_result=False)(_veiled(stage))
        return as_task(*args, **kwargs)


def _veiled(stage: Callable[P, R]) -> Callable[P, R]:
    """Let no stranger's error text out of a task: Prefect logs and keeps it."""

    @wraps(stage)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return stage(*args, **kwargs)
        except MaintenanceError as error:
            # Without its cause: the engine's message, which quotes values, is in every traceback.
            raise error from None
        except Exception as error:  # noqa: BLE001 - whatever it is, only its class may leave
            raise InternalError(type(error).__name__) from None

    return call


def call_step(
    name: str,
    run: Callable[[], list[RunResult]],
    report: Callable[[list[RunResult]], None],
) -> list[RunResult]:
    """Run a step and report it as one task run, whose state has the name of the outcome."""
    results: list[RunResult] = []

    def step() -> State:
        results.extend(run())
        report(results)
        return end_state(results)

    task(name=name, cache_policy=NO_CACHE, persist_result=False)(_veiled(step))(return_state=True)
    return results


def end_state(results: Sequence[RunResult]) -> State:
    """Give the flow the name of its outcome: the worst of its runs."""
    worst = find_worst(results)
    outcome: Outcome = worst.end.outcome if worst is not None else "unchanged"
    return make_state(outcome, "; ".join(f"{one.run_id} {one.end.outcome}" for one in results))


def make_state(outcome: Outcome, message: str) -> State:
    """Make the state that an outcome has in Prefect."""
    if outcome in _FAILURES:
        return Failed(name=outcome, message=message[:1024])
    return Completed(name=outcome, message=message[:1024])
