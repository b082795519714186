"""The verbs that operate a store: pause, resume, doctor."""

import os
from dataclasses import asdict
from typing import Annotated

import typer

from deployments.desk import EXIT_DONE, EXIT_FAILED, Desk
from deployments.render_operating import render_close, render_control, render_findings
from deployments.serve_state import STATE_FOLDER, ServeState
from flows.edge import read_clock
from storage import Store
from storage.errors import AdmissionError
from tasks.control import close_store, pause, resume
from tasks.doctor import Check, examine, repair
from tasks.doctor_store import StoreDoctor
from tasks.jobs import find_any_job
from tasks.maintaining import MAINTAIN

operating_app = typer.Typer()

OneJob = Annotated[str | None, typer.Argument(metavar="JOB", help="absent: every job")]


@operating_app.command("pause")
def pause_(
    ctx: typer.Context,
    job: OneJob = None,
    is_cancelling: Annotated[
        bool, typer.Option("--cancel", help="ask the runs that are at work to end, too")
    ] = False,
    close_s: Annotated[
        float | None,
        typer.Option("--close", metavar="SECONDS", help="close the store; wait for its runs"),
    ] = None,
) -> int:
    """Let no run of a job start any more, whoever starts it: the kill switch."""
    desk: Desk = ctx.obj
    if close_s is not None:
        return _close(desk, job, close_s)
    _check_job(job)
    state = pause(desk.open(), job, clock=read_clock, is_cancelling=is_cancelling)
    desk.output.emit({"control": asdict(state)}, lambda out: render_control(out, state))
    return EXIT_DONE


def _close(desk: Desk, job: str | None, timeout_s: float) -> int:
    if job is not None:
        raise AdmissionError("--close", "closes the whole store, not one job")
    report = close_store(desk.open(), timeout_s=timeout_s, clock=read_clock)
    desk.output.emit({"close": asdict(report)}, lambda out: render_close(out, report))
    return EXIT_DONE if report.is_clean else EXIT_FAILED


@operating_app.command("resume")
def resume_(ctx: typer.Context, job: OneJob = None) -> int:
    """Let runs of a job start again; without a job also those of a closed store."""
    desk: Desk = ctx.obj
    _check_job(job)
    state = resume(desk.open(), job, clock=read_clock)
    desk.output.emit({"control": asdict(state)}, lambda out: render_control(out, state))
    return EXIT_DONE


@operating_app.command()
def doctor(
    ctx: typer.Context,
    is_repairing: Annotated[
        bool, typer.Option("--repair/--check", help="do what is listed / only list it")
    ] = False,
) -> int:
    """Check a store and its server, and say what a repair would do; memories never change."""
    desk: Desk = ctx.obj
    store = desk.open()
    findings = examine(_list_checks(store))
    if is_repairing:
        findings = repair(findings)
    value = {"checks": [finding.describe() for finding in findings]}
    desk.output.emit(value, lambda out: render_findings(out, findings))
    return EXIT_FAILED if any(finding.left for finding in findings) else EXIT_DONE


def _check_job(job: str | None) -> None:
    if job is not None and job != MAINTAIN:
        find_any_job(job)


def _list_checks(store: Store) -> list[tuple[str, Check]]:
    checks = StoreDoctor(store, read_clock).list_checks()
    api_url = os.environ.get("PREFECT_API_URL") or _find_server(store)
    if not api_url:
        return checks
    from deployments.doctor_prefect import PrefectDoctor  # noqa: PLC0415 - imports Prefect

    return checks + PrefectDoctor(store, api_url, read_clock).list_checks()


def _find_server(store: Store) -> str | None:
    """Find the server that serves this store, if there is one."""
    if not (store.path / STATE_FOLDER).is_dir():
        return None
    server = ServeState(store.path).find_server()
    return f"{server.url}/api" if server is not None else None
