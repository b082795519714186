"""Runs of deployments on the test server, executed in this process as a worker would."""

from contextlib import suppress
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow_sync
from prefect.states import Scheduled

from deployments.catalogue import CATALOGUE, build_deployments, load_flow

NAME = "test"


def deploy(job: str) -> UUID:
    """Register the deployment of a job."""
    (found,) = (one for one in build_deployments(NAME, "plan") if one.flow_name == job)
    return UUID(str(found.apply()))


def order_run(job: str, store: Path, **parameters: object) -> FlowRun:
    """Create a run of a deployment, as the form does."""
    with get_client(sync_client=True) as client:
        return client.create_flow_run_from_deployment(
            deploy(job), parameters={"store": str(store), **parameters}, state=Scheduled()
        )


def execute(flow_run_id: UUID) -> State:
    """Execute a run until it ends or waits, and give its state."""
    with get_client(sync_client=True) as client:
        ordered = client.read_flow_run(flow_run_id)
        row = next(row for row in CATALOGUE if row.job in ordered.tags)
        with suppress(Pause):
            run_flow_sync(
                load_flow(row),
                flow_run=ordered,
                parameters=ordered.parameters,
                return_type="state",
            )
        return _read_state(client, flow_run_id)


def resume(flow_run_id: UUID, **answer: str) -> str:
    """Answer a waiting run as the form does; give what the server made of it."""
    with get_client(sync_client=True) as client:
        return str(client.resume_flow_run(flow_run_id, run_input=answer).status.value)


def _read_state(client: SyncPrefectClient, flow_run_id: UUID) -> State:
    state = client.read_flow_run(flow_run_id).state
    assert state is not None
    return state
