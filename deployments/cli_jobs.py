"""The verbs about jobs: plan, run, show, runs, diff."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deployments import render
from deployments.desk import EXIT_DONE, SHOWN, Desk, Now, Where
from deployments.maintaining import plan_steps, run_steps, run_stores
from deployments.options import parse_limits, parse_moment, parse_values
from deployments.render_index import render_previews
from deployments.what_if import list_variants, render_comparison
from flows.edge import read_clock
from storage.errors import AdmissionError
from storage.plans import EVERYTHING
from tasks.explain import diff_since, explain_plan, show_plan, show_plan_or_run, show_runs
from tasks.inline import preview_job, run_job
from tasks.jobs import DIRECT_JOBS
from tasks.maintaining import MAINTAIN
from tasks.report import describe_result
from tasks.whatif import compare_policies

jobs_app = typer.Typer()

Job = Annotated[str, typer.Argument(help="a job, or maintain: all the daily ones")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="policy field; repeatable"),
]
Limits = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="FIELD=VALUE", help="a safety limit; repeatable"),
]
Rows = Annotated[int, typer.Option(min=0, help="rows to print; 0: all")]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=VALUE,VALUE",
        help="only compare values of a policy field; repeatable: one field at a time, no products",
    ),
]


@jobs_app.command()
def plan(
    ctx: typer.Context,
    job: Job,
    namespace: Where = None,
    sets: Sets = None,
    what_if: WhatIf = None,
    limits: Limits = None,
    now: Now = None,
    rows: Rows = SHOWN,
) -> int:
    """Store and show what a job would do; no memory changes."""
    desk: Desk = ctx.obj
    if what_if:
        variants = list_variants(
            desk, job, what_if, sets=sets, limits=limits, namespace=namespace, now=now
        )
        compared = compare_policies(variants)
        desk.output.emit(
            {"what_if": compared}, lambda console: render_comparison(console, compared)
        )
        return EXIT_DONE
    if limits:
        raise AdmissionError("--limit", "is judged by run, and by plan with --what-if")
    at = parse_moment(now, read_clock())
    request = desk.request(job, mode="plan", now=at, values=parse_values(sets), namespace=namespace)
    if job == MAINTAIN:
        return plan_steps(desk, request, shown=rows or EVERYTHING)
    if job in DIRECT_JOBS:
        previews = preview_job(request)
        desk.output.emit(
            {"plans": previews},
            lambda console: render_previews(console, previews, shown=rows or EVERYTHING),
        )
        return EXIT_DONE
    results = run_job(request)
    store = desk.open()
    made = [one for one in results if one.error is None and one.end.plan_id is not None]
    plans = [show_plan(store, str(one.end.plan_id)) for one in made]

    def show(console: Console) -> None:
        for one in plans:
            render.render_plan(console, one, shown=rows or EVERYTHING)
        failed = [one for one in results if one.error is not None]
        if failed:
            render.render_results(console, failed)

    return desk.finish({"plans": plans}, results, show)


@jobs_app.command()
def run(
    ctx: typer.Context,
    job: Job,
    namespace: Where = None,
    plan_id: Annotated[str | None, typer.Option("--plan", help="apply this stored plan")] = None,
    confirm: Annotated[
        str | None, typer.Option(help="apply this stored plan although it is over a limit")
    ] = None,
    sets: Sets = None,
    limits: Limits = None,
    now: Now = None,
    fleet: Annotated[
        Path | None, typer.Option(help="maintain each store that this file lists")
    ] = None,
) -> int:
    """Plan and apply a job, or apply a stored plan."""
    desk: Desk = ctx.obj
    if now is not None and (plan_id or confirm):
        raise AdmissionError("--now", "a stored plan keeps the instant that it was made for")
    request = desk.request(
        job,
        mode="apply",
        now=parse_moment(now, read_clock()),
        values=parse_values(sets),
        namespace=namespace,
        limits=parse_limits(limits),
        plan_id=plan_id,
        confirm_plan_id=confirm,
    )
    if fleet is not None:
        return run_stores(desk, request, fleet)
    if job == MAINTAIN:
        return run_steps(desk, request)
    with desk.output.counting(job) as count:
        results = run_job(request, on_batch=count)
    value = {"runs": [describe_result(result) for result in results]}
    return desk.finish(value, results, lambda console: render.render_results(console, results))


@jobs_app.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="id of a plan or a run")],
    everything: Annotated[
        bool,
        typer.Option("--all", help="judge every memory, kept ones too"),
    ] = False,
    rows: Rows = SHOWN,
) -> int:
    """Show why each memory is in a plan, or how a run ended."""
    desk: Desk = ctx.obj
    store = desk.open()
    what, found = show_plan_or_run(store, name)
    shown = rows or EVERYTHING
    if what == "run":
        desk.output.emit({"runs": [found]}, lambda out: render.render_runs(out, [found]))
        return EXIT_DONE
    if everything:
        found["verdicts"] = explain_plan(store, name)

    def print_plan(console: Console) -> None:
        render.render_plan(console, found, shown=shown)
        if everything:
            render.render_verdicts(console, found["verdicts"], shown=shown)

    desk.output.emit({"plans": [found]}, print_plan)
    return EXIT_DONE


@jobs_app.command()
def runs(ctx: typer.Context, rows: Rows = SHOWN) -> int:
    """List runs, newest first."""
    desk: Desk = ctx.obj
    found = show_runs(desk.open(), limit=rows or EVERYTHING)
    desk.output.emit({"runs": found}, lambda console: render.render_runs(console, found))
    return EXIT_DONE


@jobs_app.command()
def diff(
    ctx: typer.Context,
    plan_id: Annotated[str, typer.Argument(metavar="PLAN")],
    rows: Rows = SHOWN,
) -> int:
    """Show what changed since a plan was made."""
    desk: Desk = ctx.obj
    found = diff_since(desk.open(), plan_id)
    shown = rows or EVERYTHING
    desk.output.emit(
        {"diffs": [found]}, lambda console: render.render_diff(console, found, shown=shown)
    )
    return EXIT_DONE
