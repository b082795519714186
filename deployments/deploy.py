"""Register all deployments for a work pool: workers anywhere run them instead of `serve`.

A worker imports the flows by module name and knows its store by MEMTEND_STORE; no path of the
machine that deploys gets into a deployment.
"""

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectNotFound

from deployments.automations import list_automations, register_automations
from deployments.catalogue import build_deployments, list_switches, switch_off_new
from deployments.serve_server import SETTINGS
from storage.errors import StorageError
from storage.settings import Settings
from tasks.schedules import SETTING, read_timings

# A worker's runs would give signs of life every three minutes, after which ours count as dead.
HEARTBEAT = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
JOB_VARIABLES = {"env": {HEARTBEAT: SETTINGS[HEARTBEAT]}}


def deploy_all(settings: Settings, *, name: str, pool: str) -> dict[str, bool]:
    """Register the deployments under one name, with the pool if it is missing.

    Doing it again changes nothing but what the settings changed.

    Returns:
        The jobs that have a schedule, and whether it is switched on.

    Raises:
        StorageError: The server does not answer.
    """
    chosen = read_timings(settings.schedules)
    # A run judges its slot by the schedule that it was registered with.
    said = {SETTING: settings.schedules} if settings.schedules else {}
    with get_client(sync_client=True) as client:
        if client.api_healthcheck() is not None:
            raise StorageError("no Prefect server answers at PREFECT_API_URL")
        _ensure_pool(client, pool)
        deployments = build_deployments(name, settings.scheduled_mode, chosen)
        switch_off_new(client, deployments, chosen)
        for deployment in deployments:
            deployment.job_variables = {"env": JOB_VARIABLES["env"] | said}
            deployment.apply(work_pool_name=pool)
        register_automations(client, list_automations(settings.approval_timeout_s))
        return list_switches(client, name)


def _ensure_pool(client: SyncPrefectClient, pool: str) -> None:
    try:
        client.read_work_pool(pool)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
