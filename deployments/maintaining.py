"""maintain on the command line: its steps on one store, or on each store of a fleet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column

from deployments.desk import Desk
from deployments.render import render_plan, render_results
from deployments.render_index import render_previews
from deployments.tables import make_table
from storage.errors import AdmissionError
from tasks.explain import show_plan
from tasks.fleet import Maintained, read_fleet, run_fleet
from tasks.maintaining import (
    EVERYWHERE,
    MAINTAIN,
    Step,
    attempt_jobs,
    describe_step,
    judge_results,
    list_results,
    plan_maintain,
    run_maintain,
    tell_all,
)
from tasks.report import RunResult, describe_result
from tasks.requests import JobRequest, OnBatch


def plan_steps(desk: Desk, request: JobRequest, *, shown: int) -> int:
    """Plan what removes memories, preview the rest, and print both."""
    store = desk.open()
    results, previews = plan_maintain(request)
    made = [one for one in results if one.error is None and one.end.plan_id is not None]
    plans = [show_plan(store, str(one.end.plan_id)) for one in made]
    failed = [one for one in results if one.error is not None]

    def show(console: Console) -> None:
        for plan in plans:
            render_plan(console, plan, shown=shown)
        render_previews(console, previews, shown=shown)
        if failed:
            render_results(console, failed)

    return desk.finish({"plans": plans + previews}, results, show)


def run_steps(desk: Desk, request: JobRequest) -> int:
    """Run the steps on one store, and print what became of each."""
    _check_without_plan(request)
    desk.open()
    steps = _run(desk, request)
    results = list_results(steps)
    value = {
        "outcome": judge_results(results),
        "runs": [describe_result(one) for one in results],
        "steps": _describe(steps),
    }
    return desk.finish(value, results, lambda console: _render(console, steps))


def run_stores(desk: Desk, request: JobRequest, file: Path) -> int:
    """Run the steps on each store of a fleet, and print what became of each."""
    _check_without_plan(request)
    if request.job != MAINTAIN:
        raise AdmissionError("--fleet", f"is for {MAINTAIN}")
    if request.namespace is not None:
        raise AdmissionError("--namespace", "the file of the fleet names namespaces")
    fleet = run_fleet(read_fleet(file), request, lambda one: _run(desk, one))
    results = [result for one in fleet for result in list_results(one.steps)]
    value = {
        "runs": [describe_result(one) for one in results],
        "stores": [_describe_store(one) for one in fleet],
    }

    def show(console: Console) -> None:
        for one in fleet:
            console.print(one.store.describe(), style="bold")
            _render(console, one.steps)

    return desk.finish(value, results, show)


def _check_without_plan(request: JobRequest) -> None:
    if request.plan_id or request.confirm_plan_id:
        option = "--plan" if request.plan_id else "--confirm"
        raise AdmissionError(option, "a plan is of one job: run that")


def _run(desk: Desk, request: JobRequest) -> list[Step]:
    def run_step(requests: Sequence[JobRequest], keep: OnBatch) -> list[RunResult]:
        with desk.output.counting(requests[0].job) as count:
            return attempt_jobs(requests, tell_all(count, keep))

    return run_maintain(request, run_step)


def _describe(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [describe_step(step) for step in steps]


def _describe_store(one: Maintained) -> dict[str, Any]:
    outcome = judge_results(list_results(one.steps))
    return {**one.store.model_dump(mode="json"), "outcome": outcome, "steps": _describe(one.steps)}


def _render(console: Console, steps: Sequence[Step]) -> None:
    right = [Column(name, justify="right") for name in ("found", "applied", "failed")]
    table = make_table("step", "outcome", *right, "skipped")
    for row in _describe(steps):
        told = ", ".join(f"{name} {count}" for name, count in row["skipped"].items())
        figures = (str(row[name]) for name in ("found", "applied", "failed"))
        table.add_row(str(row["job"]), str(row["outcome"]), *figures, told)
    console.print(table)
    failed = [one for one in list_results(steps) if one.error is not None]
    begun = [one for one in failed if one.namespace != EVERYWHERE]
    for error in sorted({str(one.end.error) for one in failed if one.namespace == EVERYWHERE}):
        console.print(error, style="red")
    if begun:
        render_results(console, begun)
