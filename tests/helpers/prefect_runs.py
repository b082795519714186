"""Flow runs in tests: started in this process, and what the Prefect server keeps of them."""

import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import State

from flows.janitor import janitor
from flows.prune import prune
from flows.refresh import refresh
from flows.sweep import sweep

FLOWS: dict[str, Flow[..., State]] = {
    "prune": prune,
    "sweep": sweep,
    "refresh": refresh,
    "janitor": janitor,
}
_LONGEST_WAIT_S = 20.0
_END = "Finished in state"


@dataclass(frozen=True, slots=True)
class Kept:
    """What the server keeps of a flow run."""

    parameters: str
    states: list[str]
    task_runs: list[str]
    logs: list[str]
    artifacts: list[str]

    def texts(self) -> str:
        """Give all of it as one text."""
        return "\n".join([self.parameters, *self.states, *self.logs, *self.artifacts])


def run_flow(job: str, store: Path, **options: object) -> State:
    """Run a job's flow and give its final state, whatever it is."""
    state: State = FLOWS[job](store=str(store), **options, return_state=True)
    return state


def read_kept(state: State, *, executions: int = 1) -> Kept:
    """Read what the server keeps of the flow run that ended in `state`.

    Task runs and logs reach the server a little later: it waits for the last log of each execution
    of the flow run, and for a task run for each end of one that the logs tell.
    """
    flow_run_id = state.state_details.flow_run_id
    assert flow_run_id is not None
    deadline = time.monotonic() + _LONGEST_WAIT_S
    with get_client(sync_client=True) as client:
        while True:
            kept, is_complete = _read_once(client, flow_run_id, executions)
            if is_complete:
                return kept
            assert time.monotonic() < deadline
            time.sleep(0.1)


def _read_once(client: SyncPrefectClient, flow_run_id: UUID, executions: int) -> tuple[Kept, bool]:
    run = client.read_flow_run(flow_run_id)
    one_run = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]))
    tasks = client.read_task_runs(flow_run_filter=one_run)
    logs = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run_id])))
    made = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run_id]))
    kept = Kept(
        parameters=repr(run.parameters),
        states=[repr(run.state), *(repr(task.state) for task in tasks)],
        task_runs=[task.name for task in tasks],
        logs=[log.message for log in logs],
        artifacts=[str(one.data) for one in client.read_artifacts(artifact_filter=made)],
    )
    ends = [log.task_run_id for log in logs if log.message.startswith(_END)]
    is_complete = ends.count(None) == executions and len(ends) == len(tasks) + executions
    return kept, is_complete
