"""Serve all deployments of one store from this process; each run gets a process of its own.

Registering again changes nothing that an operator chose: switched-off schedules stay off.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress

import anyio
from prefect.client.orchestration import get_client
from prefect.exceptions import TerminationSignal
from prefect.runner import Runner

from deployments.automations import list_automations, register_automations
from deployments.catalogue import build_deployments, list_switches, switch_off_new
from storage.errors import StorageError
from storage.settings import Settings
from tasks.schedules import read_timings

RUNS_AT_ONCE = 2
_WATCH_S = 1.0
_LOST = "the Prefect server does not answer any more"


def serve_deployments(
    settings: Settings,
    name: str,
    on_ready: Callable[[Mapping[str, bool]], None],
    is_lost: Callable[[], bool],
) -> None:
    """Register deployments and automations, then start runs until a signal ends it.

    Args:
        settings: What schedules do, and how long an approval waits.
        name: The name of each deployment.
        on_ready: Called once all is registered, before the first run starts, with the jobs that
            have a schedule and whether it is switched on.
        is_lost: Whether the Prefect server has ended; Prefect itself needs minutes to give up.

    Raises:
        StorageError: The Prefect server is gone: who watches this process starts it again, and it
            the server.
    """
    runner = Runner(name="memtend", limit=RUNS_AT_ONCE)
    chosen = read_timings(settings.schedules)
    deployments = build_deployments(name, settings.scheduled_mode, chosen)
    with get_client(sync_client=True) as client:
        switch_off_new(client, deployments, chosen)
        for deployment in deployments:
            runner.add_deployment(deployment)
        register_automations(client, list_automations(settings.approval_timeout_s))
        switches = list_switches(client, name)
    on_ready(switches)
    _run(runner, is_lost)


def _run(runner: Runner, is_lost: Callable[[], bool]) -> None:
    # What the runner prints about a lost server would stand among our JSON.
    with suppress(KeyboardInterrupt, TerminationSignal), redirect_stdout(sys.stderr):
        try:
            anyio.run(_run_watched, runner, is_lost)
        except Exception:
            if _is_answering():
                raise
            raise StorageError(_LOST) from None
        if is_lost():
            raise StorageError(_LOST)


async def _run_watched(runner: Runner, is_lost: Callable[[], bool]) -> None:
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while not is_lost():  # noqa: ASYNC110 - the end of a process sends no event
                await anyio.sleep(_WATCH_S)
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await runner.start()
        group.cancel_scope.cancel()


def _is_answering() -> bool:
    with get_client(sync_client=True) as client:
        return client.api_healthcheck() is None
