"""Serve all deployments of one store from this process; each run gets a process of its own.

Registering again changes nothing that an operator chose: switched-off schedules stay off.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from prefect.client.orchestration import get_client
from prefect.exceptions import TerminationSignal
from prefect.runner import Runner

from deployments.automations import list_automations, register_automations
from deployments.catalogue import build_deployments
from storage.settings import Settings

RUNS_AT_ONCE = 2


def serve_deployments(settings: Settings, name: str, on_ready: Callable[[], None]) -> None:
    """Register deployments and automations, then start runs until a signal ends it.

    Args:
        settings: What schedules do, and how long an approval waits.
        name: The name of each deployment.
        on_ready: Called once all is registered, before the first run starts.
    """
    runner = Runner(name="memtend", limit=RUNS_AT_ONCE)
    for deployment in build_deployments(name, settings.scheduled_mode):
        runner.add_deployment(deployment)
    with get_client(sync_client=True) as client:
        register_automations(client, list_automations(settings.approval_timeout_s))
    on_ready()
    with suppress(KeyboardInterrupt, TerminationSignal):
        asyncio.run(runner.start())
