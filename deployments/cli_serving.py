"""The verbs that run jobs on a schedule: serve and deploy."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deployments.desk import EXIT_BUSY, EXIT_DONE, Desk
from deployments.serve_server import run_server, set_environment
from deployments.serve_state import ServeState
from flows.edge import choose_embedder, read_clock
from storage.errors import AdmissionError, StoreNotFoundError
from storage.stores import read_store_id
from tasks.schedules import Timing, activate_intervals, list_timings, read_timings

serving_app = typer.Typer()


@serving_app.command()
def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="address of the UI and the API")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one")] = 4200,
) -> int:
    """Start the Prefect server, the schedules and the UI of this store; Ctrl-C ends them.

    MEMTEND_SCHEDULES names other times than the shipped ones, as JSON, for deploy and status, too:

    {"prune": {"cron": "30 2 * * *", "zone": "Europe/Berlin"}}

    {"refresh": {"interval_s": 900, "offset_s": 60}}

    The zone is UTC where none is named; intervals count from 1970-01-01 and the offset on.
    A schedule with a name there begins switched on; later it is switched in the UI.
    """
    desk: Desk = ctx.obj
    store = desk.open()
    timings = list_timings(read_timings(desk.settings.schedules))
    choose_embedder(desk.settings.embedder).load()  # or each refresh would be refused
    state = ServeState(store.path)
    is_foreign = bool(os.environ.get("PREFECT_API_URL"))
    with store.read() as reader:
        store_id = read_store_id(reader)
    # Another server may have several stores: the names of the deployments keep them apart.
    name = f"local-{store_id[:8]}" if is_foreign else "local"
    with state.hold_serve() as is_mine:
        if not is_mine:
            found = state.find_server()
            place = f" at {found.url}" if found is not None else ""
            message = f"this store is served already{place}"
            desk.output.fail({"type": "already_served", "message": message})
            return EXIT_BUSY
        set_environment(os.environ, store.path, state)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            with run_server(state, host=host, port=port) as url:
                is_lost = partial(_is_lost, state, is_foreign=is_foreign)
                _serve(desk, name, url, timings, is_lost)
        except KeyboardInterrupt:
            desk.output.note("stopped")
    return EXIT_DONE


@serving_app.command()
def deploy(
    ctx: typer.Context,
    pool: Annotated[str, typer.Option(help="work pool; made if it is missing")] = "memtend",
    name: Annotated[str, typer.Option(help="name of each deployment")] = "pool",
) -> int:
    """Register all deployments for a work pool, on the server of PREFECT_API_URL."""
    desk: Desk = ctx.obj
    if not os.environ.get("PREFECT_API_URL"):
        raise AdmissionError("PREFECT_API_URL", "must name the Prefect server to deploy to")
    from deployments.catalogue import CATALOGUE  # noqa: PLC0415 - imports Prefect
    from deployments.deploy import deploy_all  # noqa: PLC0415 - likewise

    switches = deploy_all(desk.settings, name=name, pool=pool)
    with suppress(StoreNotFoundError):  # the workers may have it elsewhere
        _activate(desk, list_timings(read_timings(desk.settings.schedules)), switches)
    made = [f"{row.job}/{name}" for row in CATALOGUE]
    lines = [*made, f"a worker: prefect worker start --pool {pool}"]
    value = {"pool": pool, "deployments": made}
    desk.output.emit(value, lambda console: console.print("\n".join(lines)))
    return EXIT_DONE


def _is_lost(state: ServeState, *, is_foreign: bool) -> bool:
    return not is_foreign and state.find_server() is None


def _activate(desk: Desk, timings: Mapping[str, Timing], switches: Mapping[str, bool]) -> None:
    on = {job: timing for job, timing in timings.items() if switches[job]}
    activate_intervals(desk.open(), on, clock=read_clock())


def _serve(
    desk: Desk, name: str, url: str, timings: Mapping[str, Timing], is_lost: Callable[[], bool]
) -> None:
    from deployments.catalogue import CATALOGUE  # noqa: PLC0415 - imports Prefect
    from deployments.serve import serve_deployments  # noqa: PLC0415 - likewise

    def tell(switches: Mapping[str, bool]) -> None:
        _activate(desk, timings, switches)
        rows = [
            {
                "deployment": f"{row.job}/{name}",
                "cron": None,
                **(asdict(timings[row.job]) if row.job in timings else {}),
                "mode": desk.settings.scheduled_mode if row.is_guarded else row.mode,
                "is_on": switches.get(row.job, False),
            }
            for row in CATALOGUE
        ]
        desk.output.emit(
            {"url": url, "deployments": rows}, lambda console: _show(console, url, rows)
        )
        sys.stdout.flush()

    serve_deployments(desk.settings, name, tell, is_lost)


def _show(console: Console, url: str, rows: Sequence[Mapping[str, object]]) -> None:
    table = Table("deployment", "schedule", "mode", box=None)
    for row in rows:
        said = _describe(row)
        schedule = said if row["is_on"] or said == "none" else f"{said} (off)"
        table.add_row(str(row["deployment"]), schedule, str(row["mode"]))
    console.print(table)
    console.print(f"UI: {url}   (Ctrl-C stops schedules and server)")


def _describe(row: Mapping[str, object]) -> str:
    if "interval_s" in row:
        return f"every {row['interval_s']} s"
    return f"{row['cron']} {row['zone']}" if row["cron"] else "none"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Let SIGTERM end what is running as Ctrl-C does, until the runner takes it over."""
    raise KeyboardInterrupt
