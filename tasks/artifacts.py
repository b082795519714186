"""What Prefect shows of a run: a summary, the plan, progress, events. Ids and figures only."""

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.events import emit_event
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from storage.errors import PlanRefusedError
from storage.models import format_namespace
from storage.plans import PlanHeader
from storage.runs import Outcome
from tasks.explain import show_plan
from tasks.health.job import describe_event, find_breaches
from tasks.report import RunResult, write_summary
from tasks.requests import JobRequest

MAX_ROWS = 200  # PLATFORM P12
LONG_ROWS = 1_000  # a plan of less is applied before anybody looks
_FACTS = ("id", "reason", "action", "expected_revision", "outcome")


class ProgressArtifact:
    """Shows how far the apply of a long plan is; other long work leaves a log line a batch."""

    def __init__(self, job: str) -> None:
        """Expect no plan yet."""
        self._key = f"memtend-{job}-progress"
        self._total = 0
        self._done = 0
        self._artifact_id: UUID | None = None

    def expect(self, plan: PlanHeader) -> None:
        """Begin anew: the next batches are of this plan."""
        self._total, self._done, self._artifact_id = plan.planned + plan.carried, 0, None

    def advance(self, count: int) -> None:
        """Take note of a batch: its decisions, or, where there is no plan, all that is done."""
        if self._total == 0:
            _logger().info("%d done so far", count)
            return
        self._done = min(self._done + count, self._total)
        if self._total < LONG_ROWS:
            return
        percent = 100.0 * self._done / self._total
        if self._artifact_id is None:
            self._artifact_id = UUID(str(create_progress_artifact(percent, key=self._key)))
        else:
            update_progress_artifact(self._artifact_id, percent)


def report_results(request: JobRequest, results: Sequence[RunResult]) -> None:
    """Publish what became of a request: log lines, summary, tables, one event per outcome."""
    for result in results:
        end = result.end
        _logger().info(
            "%s %s: applied %d of %d", result.run_id, end.outcome, end.applied, end.found
        )
    job = request.job
    create_markdown_artifact(
        key=f"memtend-{job}", markdown=_describe(request, results), description=f"memtend {job}"
    )
    plans = list(islice(_list_decisions(request, results), MAX_ROWS))
    if plans:
        create_table_artifact(
            key=f"memtend-{job}-plan",
            table=plans,
            description=f"The first {MAX_ROWS} rows at most; all: memtend show PLAN --rows 0",
        )
    figures = list(islice(_list_figures(results), MAX_ROWS))
    if figures:
        create_table_artifact(
            key=f"memtend-{job}-figures", table=figures, description="What was done, in figures"
        )
    _emit_outcomes(request, results)
    if job == "health":
        _emit_breaches(request, results)


def record_decision(job: str, plan_id: str, *, decision: str, approver: str, note: str) -> None:
    """Keep what a person decided about a plan, with the run."""
    _logger().info("%s: %s", plan_id, decision)
    said = {"plan": plan_id, "decision": decision, "approver": approver, "note": note}
    create_table_artifact(key=f"memtend-{job}-decision", table=[said], description="A decision")


def _logger() -> "logging.Logger | logging.LoggerAdapter[logging.Logger]":
    try:
        return get_run_logger()
    except MissingContextError:
        return logging.getLogger(__name__)


def _describe(request: JobRequest, results: Sequence[RunResult]) -> str:
    lines = [f"## {request.job}, {request.mode}, {request.trigger}", "", write_summary(results)]
    for result in results:
        plan_id = result.end.plan_id
        if plan_id is None:
            continue
        command = f"memtend show {plan_id} --rows 0"
        if result.end.code == PlanRefusedError.code:
            command += f"; memtend run {request.job} --confirm {plan_id}"
            lines += ["", f"**{result.end.error}**"]
        lines += ["", f"`{command}`"]
    return "\n".join(lines[: MAX_ROWS * 2])


def _list_decisions(
    request: JobRequest, results: Sequence[RunResult]
) -> Iterator[dict[str, object]]:
    for result in results:
        if result.end.plan_id is None:
            continue
        shown = show_plan(request.handle(), result.end.plan_id, limit=MAX_ROWS)
        for decision in shown["decisions"]:
            facts = {name: decision.pop(name, None) for name in _FACTS}
            figures = " ".join(f"{name}={_round(value)}" for name, value in decision.items())
            yield {"namespace": format_namespace(result.namespace), **facts, "figures": figures}


def _round(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def _list_figures(results: Sequence[RunResult]) -> Iterator[dict[str, object]]:
    for result in results:
        where = format_namespace(result.namespace)
        for name, value in result.end.figures.items():
            yield {"namespace": where, "figure": name, "value": value}


def _emit_outcomes(request: JobRequest, results: Sequence[RunResult]) -> None:
    by_outcome: dict[Outcome, list[RunResult]] = {}
    for result in results:
        by_outcome.setdefault(result.end.outcome, []).append(result)
    for outcome, some in by_outcome.items():
        codes = sorted({one.end.code for one in some if one.end.code is not None})
        emit_event(
            f"memtend.{request.job}.{outcome}",
            resource=_resource(request),
            payload={
                "mode": request.mode,
                "trigger": request.trigger,
                "runs": len(some),
                "found": sum(one.end.found for one in some),
                "applied": sum(one.end.applied for one in some),
                "skipped": sum(sum(one.end.skipped.values()) for one in some),
                "failed": sum(one.end.failed for one in some),
                "codes": codes[:MAX_ROWS],
                "run_ids": [one.run_id for one in some[:MAX_ROWS]],
            },
        )


def _emit_breaches(request: JobRequest, results: Sequence[RunResult]) -> None:
    for breach in find_breaches(request, results)[:MAX_ROWS]:
        event, payload = describe_event(breach)
        emit_event(event, resource=_resource(request), payload=payload)


def _resource(request: JobRequest) -> dict[str, str]:
    return {"prefect.resource.id": f"memtend.job.{request.job}"}
