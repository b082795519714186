"""The verbs that merge memories by hand, and give back what a job or a person took."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from deployments import render
from deployments.desk import EXIT_DONE, Desk, Now, Where
from deployments.options import parse_moment, parse_selector
from deployments.render_index import render_previews
from flows.edge import read_clock
from storage.models import DEFAULT_NAMESPACE
from storage.plans import EVERYTHING
from tasks.consolidate.by_hand import merge_memories
from tasks.inline import preview_job, run_job
from tasks.report import describe_result
from tasks.restoring import check_known

merging_app = typer.Typer()

Ids = Annotated[list[str], typer.Argument(metavar="ID ID…", help="the memories")]
SomeIds = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="the memories")]


@merging_app.command()
def merge(
    ctx: typer.Context,
    ids: Ids,
    namespace: Where = None,
    force: Annotated[
        bool, typer.Option("--force", help="merge although a guard or a mark keeps them apart")
    ] = False,
    now: Now = None,
) -> int:
    """Merge memories that say the same into the oldest of them."""
    desk: Desk = ctx.obj
    done = merge_memories(
        desk.open(),
        parse_selector(namespace) or DEFAULT_NAMESPACE,
        ids,
        force=force,
        now=parse_moment(now, read_clock()),
        clock=read_clock(),
    )

    def show(console: Console) -> None:
        for loser in done.merged:
            console.print(f"{loser} merged into {done.canonical_id}", markup=False)
        for loser, reason in done.skipped.items():
            console.print(f"{loser} left alone: {reason}", markup=False)
        if done.has_adopted:
            said = f"{done.canonical_id} has their text now; merge again after the next refresh"
            console.print(said, markup=False)
        if done.merged or done.has_adopted:
            console.print(f"take it back: memtend restore --run {done.run_id}", markup=False)

    desk.output.emit({"merge": asdict(done)}, show)
    return EXIT_DONE


@merging_app.command()
def restore(
    ctx: typer.Context,
    ids: SomeIds = None,
    run: Annotated[str | None, typer.Option(help="give back all that this run took")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="ISO", help="give back all that was taken since")
    ] = None,
    namespace: Where = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only show what would come back")
    ] = False,
    now: Now = None,
) -> int:
    """Give back memories that were retired or merged."""
    desk: Desk = ctx.obj
    values = {"ids": ids, "run_id": run, "since": parse_moment(since, None, "--since")}
    request = desk.request(
        "restore",
        mode="plan" if dry_run else "apply",
        now=parse_moment(now, read_clock()),
        values={name: value for name, value in values.items() if value},
        namespace=namespace,
    )
    check_known(desk.open(), ids or [], run)
    if dry_run:
        previews = preview_job(request)
        desk.output.emit(
            {"plans": previews}, lambda out: render_previews(out, previews, shown=EVERYTHING)
        )
        return EXIT_DONE
    results = run_job(request)
    value = {"runs": [describe_result(result) for result in results]}
    return desk.finish(value, results, lambda out: render.render_results(out, results))
