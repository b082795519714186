"""What somebody asks of a job: the same for the command line, a schedule and a notebook."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from storage import Store
from storage.leases import DEFAULT_TTL_S
from storage.models import Namespace
from storage.runs import Mode, Trigger
from tasks.health.jobs import Schedules
from tasks.limits import SafetyLimits
from tasks.policies import Policy
from tasks.providers.embedder import Embedder
from tasks.providers.refiner import RefinerChoice

Clock = Callable[[], datetime]
OnBatch = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """Which embedder a request uses; `load` makes it when it is needed, with the edge's secrets."""

    name: str
    load: Callable[[], Embedder] = field(repr=False)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job, its policy and what it is about.

    `now` is the decision clock, `clock` gives wall time and `new_run_id` fresh ids: both come from
    the edge. With `plan_id` a stored plan is applied instead of a new one. `slot` is the instant a
    scheduled run was planned for; without one nothing is skipped as missed. `slot_zone` names the
    zone of a schedule that runs once a local day, `interval_s` the step of one without a cron, and
    `schedules` says when jobs run by themselves, for what tells about it.
    """

    store: Path
    job: str
    policy: Policy
    now: datetime
    clock: Clock
    new_run_id: Callable[[], str]
    mode: Mode = "plan"
    namespace: Namespace | None = None
    limits: SafetyLimits = field(default_factory=SafetyLimits)
    plan_id: str | None = None
    confirm_plan_id: str | None = None
    trigger: Trigger = "manual"
    slot: datetime | None = None
    slot_zone: str | None = None
    interval_s: int | None = None
    schedules: Schedules = field(default_factory=dict)
    flow_run_id: str | None = None
    lock_wait_s: float = 30.0
    lease_ttl_s: int = DEFAULT_TTL_S
    embedder: EmbedderChoice | None = None
    refiner: RefinerChoice | None = None

    def handle(self) -> Store:
        """Give a handle of the store, which `find_targets` has checked."""
        return Store(self.store.absolute(), lock_wait_s=self.lock_wait_s)
