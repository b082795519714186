"""The command line: a verb parses its options, calls one function and prints its result.

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 busy.
"""

import os
import sys
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from deployments import render
from deployments.cli_editing import editing_app
from deployments.cli_erasing import erasing_app
from deployments.cli_exchange import exchange_app
from deployments.cli_jobs import jobs_app
from deployments.cli_merging import merging_app
from deployments.cli_operating import operating_app
from deployments.cli_reading import reading_app
from deployments.cli_serving import serving_app
from deployments.console import Output
from deployments.desk import EXIT_BUSY, EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Desk, Now, Where
from deployments.options import parse_choice, parse_metadata, parse_moment, parse_selector
from deployments.render_health import render_health
from flows.edge import read_clock
from storage import Store, create_store
from storage.errors import AdmissionError, LeaseHeldError, StoreBusyError
from storage.settings import Settings
from tasks.feedback import SIGNALS, apply_feedback
from tasks.importing import FORMATS, import_file
from tasks.report import describe_error
from tasks.schedules import list_schedules
from tasks.status import show_status
from tasks.writing import add_memory

app = typer.Typer(
    name="memtend",
    help="Maintenance for the long-term memory of AI agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def configure(
    ctx: typer.Context,
    store: Annotated[
        Path | None,
        typer.Option(help="the store's directory; absent: $MEMTEND_STORE, ./memtend-store"),
    ] = None,
    is_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Maintenance for the long-term memory of AI agents."""
    settings = Settings.from_env(os.environ)
    if store is not None:
        settings = settings.model_copy(update={"store": store})
    ctx.obj = Desk(settings, Output(is_json=is_json))


@app.command()
def init(ctx: typer.Context) -> int:
    """Create the store, or bring an existing one up to date."""
    desk: Desk = ctx.obj
    store, applied = create_store(
        desk.settings.store, clock=read_clock(), lock_wait_s=desk.settings.lock_wait_s
    )
    names = [migration.name for migration in applied]
    done = "created" if "create_store" in names else "migrated" if names else "is up to date"
    desk.output.emit(
        {"store": store.path, "migrations": names},
        lambda console: console.print(f"store {store.path} {done}"),
    )
    return EXIT_DONE


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Path,
    file_format: Annotated[str, typer.Option("--format", help="auto, memtend, forgetful")] = "auto",
    namespace: Where = None,
    strict: Annotated[bool, typer.Option("--strict", help="all or nothing")] = False,
) -> int:
    """Import memories from a file; doing it again changes nothing."""
    desk: Desk = ctx.obj
    with desk.output.progress(f"importing {file.name}") as advance:
        report = import_file(
            desk.open(),
            file,
            file_format=parse_choice(file_format, FORMATS, "--format"),
            namespace=parse_selector(namespace),
            is_strict=strict,
            clock=read_clock(),
            on_progress=advance,
        )
    value = asdict(report)
    if value.pop("is_refused"):
        reason = f"--strict and {len(report.rejects)} rejects: nothing was imported"
        value["error"] = {"type": "import_rejected", "message": reason}
    desk.output.emit(value, lambda console: render.render_import(console, report))
    return EXIT_FAILED if report.is_refused else EXIT_DONE


@app.command()
def add(
    ctx: typer.Context,
    text: str,
    memory_id: Annotated[str | None, typer.Option("--id", help="absent: a fresh one")] = None,
    kind: Annotated[str, typer.Option(help="episodic, semantic, procedural, working")] = "episodic",
    importance: Annotated[float, typer.Option(help="0..1")] = 0.5,
    tag: Annotated[list[str] | None, typer.Option(help="repeatable")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=TEXT", help="repeatable")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="an instant, or a day (its end, UTC)")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="keep it until it expires")] = False,
    namespace: Where = None,
) -> int:
    """Add one memory."""
    desk: Desk = ctx.obj
    values = {
        "id": uuid.uuid4().hex if memory_id is None else memory_id,
        "content": text,
        "kind": kind,
        "importance": importance,
        "tags": tag or [],
        "metadata": parse_metadata(metadata),
        "expires_at": expires,
        "pinned": pin,
    }
    record = add_memory(
        desk.open(), values, namespace=parse_selector(namespace), clock=read_clock()
    )
    value = {"memory": {"id": record.id, "revision": record.revision}}
    desk.output.emit(value, lambda console: console.print(f"added {record.id}"))
    return EXIT_DONE


@app.command()
def status(ctx: typer.Context, namespace: Where = None, now: Now = None) -> int:
    """Count memories by lifecycle; say how the jobs and the index are, and what comes next."""
    desk: Desk = ctx.obj
    clock = read_clock()
    at, owner = parse_moment(now, clock), parse_selector(namespace)
    store = Store(desk.settings.store.absolute(), lock_wait_s=desk.settings.lock_wait_s)
    schedules = list_schedules(desk.settings.schedules)
    value = show_status(store, now=at, clock=clock, namespace=owner, schedules=schedules)
    desk.output.emit(value, lambda console: render_health(console, value))
    return EXIT_DONE


@app.command()
def feedback(
    ctx: typer.Context,
    memory_id: Annotated[str, typer.Argument(metavar="ID")],
    signal: Annotated[str, typer.Argument(help=", ".join(SIGNALS))],
    namespace: Where = None,
) -> int:
    """Say what a memory was worth: it moves the salience that the sweep reads."""
    desk: Desk = ctx.obj
    chosen = parse_choice(signal, SIGNALS, "signal")
    done = apply_feedback(
        desk.open(), memory_id, chosen, at=read_clock(), namespace=parse_selector(namespace)
    )
    desk.output.emit(
        {"feedback": asdict(done) | {"namespace": done.namespace}},
        lambda console: console.print(f"{memory_id}: salience {done.salience:g}"),
    )
    return EXIT_DONE


@app.command()
def demo(
    ctx: typer.Context,
    keep: Annotated[Path | None, typer.Option(help="keep the demo's store here")] = None,
) -> int:
    """Take the tour: sample memories, plans, applied runs, and what happened to each."""
    from deployments.demo import run_demo  # noqa: PLC0415 - only this verb needs it

    desk: Desk = ctx.obj
    return run_demo(desk.output, keep)


app.add_typer(jobs_app)
app.add_typer(reading_app)
app.add_typer(operating_app)
app.add_typer(serving_app)
app.add_typer(editing_app)
app.add_typer(erasing_app)
app.add_typer(exchange_app)
app.add_typer(merging_app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    os.umask(0o077)  # files that DuckDB creates beside the store are the owner's only
    given = hoist_globals(sys.argv[1:] if arguments is None else arguments)
    output = Output(is_json="--json" in takewhile(lambda word: word != "--", given))
    sys.exit(_run(given, output))


def _run(given: list[str], output: Output) -> int:
    try:
        _check_utf8(given)
        return int(app(given, standalone_mode=False) or EXIT_DONE)
    except Exception as error:  # noqa: BLE001 - a traceback would print stored text
        exit_code, said = _explain(error)
        if said["message"]:  # empty: the help was printed instead
            output.fail(said)
        return exit_code


def _check_utf8(words: list[str]) -> None:
    try:
        " ".join(words).encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("what is typed must be UTF-8") from None


def _explain(error: Exception) -> tuple[int, dict[str, object]]:
    """Give the exit code of an error and what is said about it."""
    if isinstance(error, ValidationError):
        names = [".".join(map(str, fault["loc"])) for fault in error.errors(include_input=False)]
        return EXIT_USAGE, {"type": "invalid_input", "message": f"settings: {', '.join(names)}"}
    if isinstance(error, typer.TyperException):
        return EXIT_USAGE, {"type": "usage", "message": str(error)}
    if isinstance(error, typer.Abort):
        return EXIT_FAILED, {"type": "cancelled", "message": "cancelled"}
    said = describe_error(error)
    if isinstance(error, AdmissionError) and error.field.startswith("--"):
        return EXIT_USAGE, said
    if isinstance(error, OSError):
        said["message"] = f"{error.filename or 'input or output'}: {error.strerror}"
    is_busy = isinstance(error, StoreBusyError | LeaseHeldError)
    return EXIT_BUSY if is_busy else EXIT_FAILED, said


def hoist_globals(arguments: Sequence[str]) -> list[str]:
    """Move --json and --store to the front, so that they may also stand after the verb."""
    front: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            rest += [word, *waiting]
            break
        if word == "--json" or word.startswith("--store="):
            front.append(word)
        elif word == "--store" and waiting:
            front += [word, waiting.pop(0)]
        else:
            rest.append(word)
    return front + rest
