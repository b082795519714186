"""What Prefect shows of a run: a summary, the plan, progress, events. Ids and figures only."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import ParamSpec
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
from tasks.maintaining import Step, describe_step, judge_results, list_results, write_steps
from tasks.report import RunResult, find_worst, write_summary
from tasks.requests import JobRequest

P = ParamSpec("P")
MAX_ROWS = 200  # PLATFORM P12
LONG_ROWS = 1_000  # a plan of less is applied before anybody looks
_FACTS = ("id", "reason", "action", "outcome", "expected_revision")


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
        """Take note of a batch: how many decisions or memories were dealt with in it."""
        self._done += count
        if self._total == 0:
            _logger().info("%d done so far", self._done)
            return
        if self._total < LONG_ROWS:
            return
        percent = min(100.0, 100.0 * self._done / self._total)
        if self._artifact_id is None:
            self._artifact_id = UUID(str(create_progress_artifact(percent, key=self._key)))
        else:
            update_progress_artifact(self._artifact_id, percent)


def publish(report: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Report what became of a run; what Prefect does not take changes nothing of it (R38)."""
    try:
        report(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the rows in the store tell all the same
        _logger().warning("metrics_not_stored: %s", type(error).__name__)


def report_results(request: JobRequest, results: Sequence[RunResult]) -> None:
    """Publish what became of a request: log lines, summary, tables, one event per outcome."""
    for result in results:
        end = result.end
        _logger().info(
            "%s %s: applied %d of %d", result.run_id, end.outcome, end.applied, end.found
        )
    job, worst = request.job, find_worst(results)
    # A run that was approved has a second set: the page tells them apart by this word only.
    outcome = "unchanged" if worst is None else worst.end.outcome
    create_markdown_artifact(
        key=f"memtend-{job}",
        markdown=_describe(request, results),
        description=f"{outcome}: the figures of memtend {job}",
    )
    plans = list(islice(_list_decisions(request, results), MAX_ROWS))
    if plans:
        create_table_artifact(
            key=f"memtend-{job}-plan",
            table=plans,
            description=(
                f"{outcome}: the first {MAX_ROWS} rows at most; all: memtend show PLAN --rows 0"
            ),
        )
    figures = list(islice(_list_figures(results), MAX_ROWS))
    if figures:
        create_table_artifact(
            key=f"memtend-{job}-figures", table=figures, description="What was done, in figures"
        )
    _emit_outcomes(request, results)
    taken = [one for one in results if one.end.outcome == "applied"]
    if job == "health" and taken:
        _emit_breaches(request, taken)


def report_steps(request: JobRequest, steps: Sequence[Step]) -> None:
    """Publish what became of each step of a run, and one event for all of them."""
    rows = [describe_step(step) for step in steps]
    for row in rows:
        _logger().info("%(job)s %(outcome)s: applied %(applied)d of %(found)d", row)
    head = f"## {request.job}, {request.mode}, {request.trigger}\n\n"
    outcome = judge_results(list_results(steps))
    create_markdown_artifact(
        key=f"memtend-{request.job}",
        markdown=head + write_steps(rows),
        description=f"{outcome}: the figures of memtend {request.job}",
    )
    emit_event(
        f"memtend.{request.job}.{outcome}",
        resource=_resource(request.job),
        payload={
            "mode": request.mode,
            "trigger": request.trigger,
            "steps": {step.job: step.outcome for step in steps},
        },
    )


def report_stores(job: str, outcome: Outcome, rows: Sequence[Mapping[str, str]]) -> None:
    """Publish what became of each store of a fleet, and one event for all of them."""
    table = ["| store | outcome | state | flow run |", "|---|---|---|---|"]
    for row in rows:
        _logger().info("%s: %s, %s", row["store"], row["outcome"], row["state"])
        cells = [row[name].replace("|", "\\|") for name in ("store", "outcome", "state", "run")]
        table.append(f"| {' | '.join(cells)} |")
    counts = Counter(row["outcome"] for row in rows)
    total = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    create_markdown_artifact(
        key=f"memtend-{job.replace('_', '-')}",
        markdown="\n".join([f"## {job}: {total}", "", *table]),
        description=f"{outcome}: the stores of memtend {job}",
    )
    payload = {"stores": len(rows), "outcomes": dict(counts)}
    emit_event(f"memtend.{job}.{outcome}", resource=_resource(job), payload=payload)


def record_decision(job: str, plan_id: str, *, decision: str, approver: str, note: str) -> None:
    """Keep what a person decided about a plan, with the run."""
    _logger().info("%s: %s", plan_id, decision)
    said = {"plan": plan_id, "decision": decision, "approver": approver, "note": note}
    create_table_artifact(
        key=f"memtend-{job}-decision", table=[said], description=f"{decision}, by {approver}"
    )


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
        commands = [f"memtend show {plan_id} --rows 0"]
        if result.end.code == PlanRefusedError.code:
            commands.append(f"memtend run {request.job} --confirm {plan_id}")
            lines += ["", f"**{result.end.error}**"]
        for command in commands:
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
            yield {**facts, "figures": figures, "namespace": format_namespace(result.namespace)}


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
            resource=_resource(request.job),
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
        emit_event(event, resource=_resource(request.job), payload=payload)


def _resource(job: str) -> dict[str, str]:
    return {"prefect.resource.id": f"memtend.job.{job}"}
