"""What the doctor checks on the Prefect server: runs that nobody ends, and slots that nobody holds.

The server is the second line: the leases in the store decide what may run. But a flow run that
stays Pending or Running keeps the slot of its deployment, and then no later one starts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed

from storage import Store
from storage.runs import FlowRunTrace, trace_flow_runs
from tasks.doctor import Check, Finding, list_found
from tasks.requests import Clock

T = TypeVar("T")
_TAG = "memtend"
# Longer than a start, a busy store and the steps between two runs take together.
_GRACE = timedelta(minutes=15)
_ACTIVE = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
_PAGE = 200


@dataclass(frozen=True, slots=True)
class PrefectDoctor:
    """The checks of the server that a store is scheduled by; `api_url` ends with /api."""

    store: Store
    api_url: str
    clock: Clock

    def list_checks(self) -> list[tuple[str, Check]]:
        """List the checks, if the server answers."""
        with _connect(self.api_url) as client:
            if client.api_healthcheck() is not None:
                return [("prefect_server", _say_unreachable)]
        return [("stale_flow_runs", self.check_runs), ("orphan_slots", self.check_slots)]

    def check_runs(self) -> Finding:
        """Find flow runs that are not at work any more, as the store's rows show."""
        stale = self._list_stale()
        return list_found(
            "stale_flow_runs",
            [str(run.id) for run in stale],
            is_broken=True,
            repair="set them to Crashed",
            act=partial(self._crash, [run.id for run in stale]),
        )

    def check_slots(self) -> Finding:
        """Find deployments that count more runs at work than there are."""
        with _connect(self.api_url) as client:
            orphans = dict(_list_orphans(client))
        return list_found(
            "orphan_slots",
            list(orphans),
            is_broken=True,
            repair="set them to the number of runs that are at work",
            act=partial(self._free, list(orphans)),
        )

    def _list_stale(self) -> list[FlowRun]:
        now = self.clock()
        with _connect(self.api_url) as client:
            active = _list_active(client)
        with self.store.read() as reader:
            traces = trace_flow_runs(reader, [str(run.id) for run in active], clock=now)
        return [run for run in active if is_stale(run, traces.get(str(run.id)), now=now)]

    def _crash(self, listed: Sequence[UUID]) -> int:
        still = [run.id for run in self._list_stale() if run.id in set(listed)]
        with _connect(self.api_url) as client:
            for run_id in still:
                state: State[None] = Crashed(message="ended without a result")
                client.set_flow_run_state(run_id, state, force=True)
        return len(still)

    def _free(self, listed: Sequence[str]) -> int:
        with _connect(self.api_url) as client:
            still = {name: count for name, count in _list_orphans(client) if name in listed}
            for name, count in still.items():
                change = GlobalConcurrencyLimitUpdate(active_slots=count)
                client.update_global_concurrency_limit(name, change)
        # Crashing a stale run gives its slot back, too.
        return len(listed)


def is_stale(run: FlowRun, trace: FlowRunTrace | None, *, now: datetime) -> bool:
    """Tell whether a flow run is at work no more.

    One that runs is judged by its rows in the store, and is left alone without any: it may be at
    work on another store. One that is about to start is judged by how long that takes.
    """
    since = run.state.timestamp if run.state is not None else run.created
    if since is None or now - since < _GRACE:
        return False
    if run.state_type == StateType.PENDING:
        return True
    if trace is None or trace.is_alive:
        return False
    return now - trace.last_seen_at >= _GRACE


@contextmanager
def _connect(api_url: str) -> Iterator[SyncPrefectClient]:
    with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
        yield client


def _say_unreachable() -> Finding:
    return Finding("prefect_server", due=1, examples=("does not answer",), advice="memtend serve")


def _list_active(client: SyncPrefectClient) -> list[FlowRun]:
    wanted = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ACTIVE)),
        tags=FlowRunFilterTags(all_=[_TAG]),
    )
    return _read_all(partial(client.read_flow_runs, flow_run_filter=wanted))


def _read_all(read: Callable[..., list[T]]) -> list[T]:
    found: list[T] = []
    while True:
        page = read(limit=_PAGE, offset=len(found))
        found += page
        if len(page) < _PAGE:
            return found


def _list_orphans(client: SyncPrefectClient) -> Iterator[tuple[str, int]]:
    """Yield the limit of each deployment with too many slots taken, and how many really are."""
    active = Counter(run.deployment_id for run in _list_active(client))
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[_TAG]))
    for deployment in _read_all(partial(client.read_deployments, deployment_filter=ours)):
        limit = deployment.global_concurrency_limit
        taken = active[deployment.id]
        if limit is not None and limit.active_slots > taken:
            yield limit.name, taken
