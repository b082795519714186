"""The verb that removes memories for good: erase."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console

from deployments import render
from deployments.desk import EXIT_DONE, Desk, Where
from deployments.options import parse_limits
from deployments.render_index import render_previews
from deployments.serve_state import STATE_FOLDER, ServeState
from flows.edge import read_clock
from storage.models import Namespace
from storage.plans import EVERYTHING
from tasks.erasing.job import read_proofs
from tasks.erasing.selection import check_found
from tasks.inline import preview_job, run_job
from tasks.report import RunResult, describe_result

erasing_app = typer.Typer()

_OUT_OF_REACH = "backups, exported files, and what was sent elsewhere before"
Some = list[str] | None
Rows = Sequence[Mapping[str, Any]]


@erasing_app.command()
def erase(
    ctx: typer.Context,
    ids: Annotated[Some, typer.Argument(metavar="ID…", help="the memories")] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="subject:ID", help="all memories of a subject")
    ] = None,
    namespace: Where = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="only show what would be erased")
    ] = False,
    confirm: Annotated[
        Some, typer.Option(metavar="PLAN", help="erase exactly what this plan lists, over a limit")
    ] = None,
    limit: Annotated[Some, typer.Option(metavar="KEY=VALUE", help="a safety limit")] = None,
) -> int:
    """Erase memories, a subject or, with --namespace alone, a namespace: for good, with proof."""
    desk: Desk = ctx.obj
    is_whole = not ids and tag is None and namespace is not None
    request = desk.request(
        "erase",
        mode="plan" if dry_run else "apply",
        now=read_clock(),
        values={
            "ids": ids or [],
            "tag": tag,
            "whole_namespace": is_whole,
            "plan_ids": confirm or [],
        },
        namespace=namespace,
        limits=parse_limits(limit),
    )
    previews = preview_job(request)
    found = {row["id"] for one in previews for row in one["decisions"]}
    check_found(desk.open(), ids or [], found)
    at_work = [one for one in previews if one["found"] or one["unproved"]] or previews[:1]
    if dry_run:
        desk.output.emit({"plans": at_work}, lambda out: _show_plans(out, at_work))
        return EXIT_DONE
    removed = _remove_artifacts(desk, found)
    results: list[RunResult] = []
    for one in at_work:
        where = Namespace.model_validate(one["namespace"])
        results += run_job(replace(request, namespace=where))
    proofs = read_proofs(desk.open(), [result.run_id for result in results])
    value = {
        "runs": [describe_result(result) for result in results],
        "proofs": proofs,
        "prefect_artifacts_removed": removed,
        "out_of_reach": _OUT_OF_REACH,
    }
    return desk.finish(value, results, lambda out: _show(out, results, proofs))


def _remove_artifacts(desk: Desk, ids: Collection[str]) -> int | None:
    """Remove what a server shows of these memories; None: there is no server, or no answer."""
    api_url = os.environ.get("PREFECT_API_URL") or _find_server(desk)
    if not api_url or not ids:
        return None
    from flows.erased_artifacts import remove_artifacts_at  # noqa: PLC0415 - imports Prefect

    try:
        return remove_artifacts_at(api_url, ids)
    except Exception as error:  # noqa: BLE001 - the store is erased all the same
        desk.output.note(f"warning: artifacts in Prefect were not removed ({type(error).__name__})")
        return None


def _find_server(desk: Desk) -> str | None:
    path = desk.settings.store
    server = ServeState(path).find_server() if (path / STATE_FOLDER).is_dir() else None
    return f"{server.url}/api" if server is not None else None


def _show_plans(console: Console, plans: Rows) -> None:
    render_previews(console, plans, shown=EVERYTHING)
    for one in plans:
        if one["found"]:
            console.print(f"exactly this: --confirm {one['plan_id']}", markup=False)


def _show(console: Console, results: Sequence[RunResult], proofs: Rows) -> None:
    render.render_results(console, results)
    for result in results:
        plan_id = (result.error or {}).get("plan_id")
        if plan_id is not None:
            console.print(f"look at it: --dry-run; erase it all the same: --confirm {plan_id}")
    for one in proofs:
        for line in _say_proof(one):
            console.print(line, style="" if one["phase"] == "proved" else "yellow")
    if proofs:
        console.print(f"out of reach: {_OUT_OF_REACH}")


def _say_proof(one: Mapping[str, Any]) -> Iterator[str]:
    proof = one["proof"]
    if not proof:
        yield f"{one['memories']} memories erased, not proved: the next erasure goes on with it"
        return
    left_out = proof["not_searched"]
    yield (
        f"{proof['memories']} memories erased, {proof['remaining']} rows left, "
        f"{proof['needles']} texts and vectors searched for in {proof['files']} files"
        f"{f', {left_out} too short or too many for it' if left_out else ''}: "
        f"{proof['found']} found"
    )
    if proof["unsearched"]:
        yield (
            f"the texts of these {proof['unsearched']} were not searched for in files: the run "
            "that took them ended before its proof; both stores were read back"
        )
    if one["phase"] != "proved":
        names = ", ".join([*proof["remaining_in"], *proof["found_in"]])
        yield f"not proved, still in: {names}; the next erasure tries again"
