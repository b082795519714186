"""The doctor frees what dead flow runs keep on the Prefect server, and nothing else."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from helpers.prefect_runs import FLOWS
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate
from prefect.client.schemas.objects import State
from prefect.settings import PREFECT_API_URL
from prefect.states import Pending, Running

from deployments.doctor_prefect import PrefectDoctor
from storage import Store
from storage.leases import acquire_lease, release_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.runs import RunEnd, RunStart, begin_run, finish_run
from tasks.doctor import Finding, examine, repair

pytestmark = pytest.mark.slow

LATER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Server:
    """A deployment with a limit, and the flow runs that the test makes of it."""

    client: SyncPrefectClient
    deployment_id: UUID

    def start(self, state: State[None]) -> UUID:
        run = self.client.create_flow_run_from_deployment(self.deployment_id)
        self.client.set_flow_run_state(run.id, state, force=True)
        return run.id

    def name_of(self, run_id: UUID) -> str | None:
        return self.client.read_flow_run(run_id).state_name

    def take_slots(self, count: int) -> None:
        limit = self.client.read_deployment(self.deployment_id).global_concurrency_limit
        assert limit is not None
        change = GlobalConcurrencyLimitUpdate(active_slots=count)
        self.client.update_global_concurrency_limit(limit.name, change)

    def count_slots(self) -> int:
        limit = self.client.read_deployment(self.deployment_id).global_concurrency_limit
        assert limit is not None
        return limit.active_slots


def leave_row(store: Store, flow_run_id: UUID, *, job: str, at: datetime, ended: bool) -> None:
    with store.write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        run_id = f"run-{flow_run_id}"
        lease = acquire_lease(writer, target, job, holder=run_id, clock=at)
        start = RunStart(
            run_id, job, target.namespace_id, "apply", "schedule", at, at, str(flow_run_id)
        )
        begin_run(writer, start, lease_fence=lease.fence)
        if ended:
            finish_run(writer, run_id, RunEnd("unchanged"), clock=at)
            release_lease(writer, lease, clock=at)


def look(store: Store, *, clock: datetime) -> dict[str, Finding]:
    url = PREFECT_API_URL.value()
    assert url is not None
    findings = examine(PrefectDoctor(store, url, lambda: clock).list_checks())
    return {one.name: one for one in findings}


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_dead_flow_runs_and_their_slots_are_freed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.doctor_prefect._PAGE", 2)  # the server gives so many at once
    now = datetime.now(UTC)
    with get_client(sync_client=True) as client:
        server = Server(client, deploy(client))
        alive, killed, ended, elsewhere = (server.start(Running()) for _ in range(4))
        submitting = server.start(Pending(name="Submitting"))
        leave_row(store, alive, job="sweep", at=now + LATER, ended=False)
        leave_row(store, killed, job="health", at=now, ended=False)
        leave_row(store, ended, job="refresh", at=now, ended=True)
        server.take_slots(7)

        found = look(store, clock=now)
        assert found["stale_flow_runs"].broken == 0
        assert found["orphan_slots"].broken == 1
        found = look(store, clock=now + LATER)
        stale = {str(run_id) for run_id in (killed, ended, submitting)}
        assert set(found["stale_flow_runs"].examples) == stale
        assert server.name_of(killed) == "Running"

        assert [one.left for one in repair(found.values())] == [0, 0]
        names = [server.name_of(one) for one in (killed, ended, submitting, alive, elsewhere)]
        assert names == ["Crashed", "Crashed", "Crashed", "Running", "Running"]
        assert server.count_slots() == 2
        assert not any(one.broken for one in look(store, clock=now + LATER).values())


def deploy(client: SyncPrefectClient) -> UUID:
    flow_id = client.create_flow(FLOWS["sweep"])
    return client.create_deployment(flow_id, "doctor", tags=["memtend"], concurrency_limit=9)
