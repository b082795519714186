"""The verbs that run jobs on a schedule: serve and deploy."""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deployments.desk import EXIT_BUSY, EXIT_DONE, Desk
from deployments.serve_server import run_server, set_environment
from deployments.serve_state import ServeState
from storage.errors import AdmissionError
from storage.stores import read_store_id

serving_app = typer.Typer()


@serving_app.command()
def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="address of the UI and the API")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one")] = 4200,
) -> int:
    """Start the Prefect server, the schedules and the UI of this store; Ctrl-C ends them."""
    desk: Desk = ctx.obj
    store = desk.open()
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
                _serve(desk, name, url, lambda: not is_foreign and state.find_server() is None)
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
    from deployments.deploy import deploy_all  # noqa: PLC0415 - imports Prefect

    made = deploy_all(desk.settings, name=name, pool=pool)
    lines = [*made, f"a worker: prefect worker start --pool {pool}"]
    value = {"pool": pool, "deployments": made}
    desk.output.emit(value, lambda console: console.print("\n".join(lines)))
    return EXIT_DONE


def _serve(desk: Desk, name: str, url: str, is_lost: Callable[[], bool]) -> None:
    from deployments.catalogue import CATALOGUE  # noqa: PLC0415 - imports Prefect
    from deployments.serve import serve_deployments  # noqa: PLC0415 - likewise

    def tell(switches: Mapping[str, bool]) -> None:
        rows = [
            {
                "deployment": f"{row.job}/{name}",
                "cron": row.cron,
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
    table = Table("deployment", "schedule (UTC)", "mode", box=None)
    for row in rows:
        cron = str(row["cron"] or "none")
        schedule = cron if row["is_on"] or not row["cron"] else f"{cron} (off)"
        table.add_row(str(row["deployment"]), schedule, str(row["mode"]))
    console.print(table)
    console.print(f"UI: {url}   (Ctrl-C stops schedules and server)")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Let SIGTERM end what is running as Ctrl-C does, until the runner takes it over."""
    raise KeyboardInterrupt
