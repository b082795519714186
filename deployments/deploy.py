"""Register all deployments for a work pool: workers anywhere run them instead of `serve`.

A worker imports the flows by module name and knows its store by MEMTEND_STORE; no path of the
machine that deploys gets into a deployment.
"""

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectNotFound

from deployments.automations import list_automations, register_automations
from deployments.catalogue import build_deployments, switch_off_new
from deployments.serve_server import SETTINGS
from storage.settings import Settings

# A worker's runs would give signs of life every three minutes, after which ours count as dead.
HEARTBEAT = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
JOB_VARIABLES = {"env": {HEARTBEAT: SETTINGS[HEARTBEAT]}}


def deploy_all(settings: Settings, *, name: str, pool: str) -> list[str]:
    """Register the deployments under one name, with the pool if it is missing; give their names.

    Doing it again changes nothing but what the settings changed.
    """
    made = []
    with get_client(sync_client=True) as client:
        _ensure_pool(client, pool)
        deployments = build_deployments(name, settings.scheduled_mode)
        switch_off_new(client, deployments)
        for deployment in deployments:
            deployment.job_variables = JOB_VARIABLES
            deployment.apply(work_pool_name=pool)
            made.append(f"{deployment.flow_name}/{name}")
        register_automations(client, list_automations(settings.approval_timeout_s))
    return made


def _ensure_pool(client: SyncPrefectClient, pool: str) -> None:
    try:
        client.read_work_pool(pool)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
