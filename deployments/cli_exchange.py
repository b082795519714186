"""The verbs that take a store elsewhere: export, backup."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from deployments.desk import EXIT_DONE, Desk, Where
from deployments.options import parse_selector
from flows.edge import new_run_id, read_clock
from tasks.backup import BackupReport, back_up
from tasks.exporting import ExportReport, export_file

exchange_app = typer.Typer()


@exchange_app.command("export")
def export_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="NAME.parquet becomes Parquet, others JSON Lines")],
    namespace: Where = None,
    is_forced: Annotated[bool, typer.Option("--force", help="replace an existing file")] = False,
) -> int:
    """Write all memories, with their history, into a file that import reads back."""
    desk: Desk = ctx.obj
    with desk.output.progress(f"exporting {file.name}") as advance:
        report = export_file(
            desk.open(),
            file,
            namespace=parse_selector(namespace),
            is_forced=is_forced,
            on_progress=advance,
        )
    desk.output.emit({"export": asdict(report)}, lambda out: _render_export(out, report))
    return EXIT_DONE


@exchange_app.command()
def backup(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty directory")],
) -> int:
    """Copy the whole store into another directory, and check the copy."""
    desk: Desk = ctx.obj
    with desk.output.progress("copying") as advance:
        report = back_up(
            desk.open(),
            directory,
            holder=new_run_id(),
            clock=read_clock,
            ttl_s=desk.settings.lease_ttl_s,
            on_progress=advance,
        )
    desk.output.emit({"backup": asdict(report)}, lambda out: _render_backup(out, report))
    return EXIT_DONE


def _render_export(console: Console, report: ExportReport) -> None:
    console.print(
        f"{report.path}: {report.memories} memories of {report.namespaces} namespaces, "
        f"{report.byte_count} bytes"
    )
    for line in report.warnings:
        console.print(Text(f"{line.record}: {line.field}: {line.reason}"))


def _render_backup(console: Console, report: BackupReport) -> None:
    console.print(
        f"{report.path}: {report.memories} memories of {report.namespaces} namespaces, "
        f"{report.file_count} files, {report.byte_count} bytes, checked"
    )
    if report.broken:
        console.print(
            f"the store, and so its copy, breaks {len(report.broken)} rules: memtend doctor",
            style="yellow",
        )
