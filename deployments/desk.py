"""What every verb shares: settings, printer, exit codes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from deployments.console import Output
from deployments.options import parse_selector
from flows.edge import choose_embedder, choose_refiner, new_run_id, read_clock
from storage import Store, open_store
from storage.errors import AdmissionError
from storage.runs import Mode
from storage.settings import Settings
from tasks.limits import SafetyLimits
from tasks.maintaining import parse_any_policy
from tasks.report import RunResult, find_worst
from tasks.requests import JobRequest
from tasks.schedules import list_schedules

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_BUSY = 0, 1, 2, 3
_EXITS = {
    "failed": EXIT_FAILED,
    "refused": EXIT_FAILED,
    "partial": EXIT_FAILED,
    "skipped_busy": EXIT_BUSY,
}
SHOWN = 20

Where = Annotated[
    str | None, typer.Option("--namespace", help="tenant/principal/scope; absent: all")
]
Now = Annotated[str | None, typer.Option(help="decide as of this instant; absent: now")]


@dataclass(frozen=True, slots=True)
class Desk:
    """The settings and the printer of one command."""

    settings: Settings
    output: Output

    def open(self) -> Store:
        """Open the store that the user named."""
        return open_store(self.settings.store, lock_wait_s=self.settings.lock_wait_s)

    def request(  # noqa: PLR0913 - the options of a job
        self,
        job: str,
        *,
        mode: Mode,
        now: datetime,
        values: dict[str, object] | None = None,
        namespace: str | None = None,
        limits: SafetyLimits | None = None,
        plan_id: str | None = None,
        confirm_plan_id: str | None = None,
    ) -> JobRequest:
        """Build what the inline runner is asked to do."""
        if values and (plan_id or confirm_plan_id):
            raise AdmissionError("--set", "a stored plan keeps the policy that it was made with")
        return JobRequest(
            store=self.settings.store,
            job=job,
            policy=parse_any_policy(job, values or {}),
            now=now,
            clock=read_clock,
            new_run_id=new_run_id,
            mode=mode,
            namespace=parse_selector(namespace),
            limits=limits or SafetyLimits(),
            plan_id=plan_id,
            confirm_plan_id=confirm_plan_id,
            lock_wait_s=self.settings.lock_wait_s,
            lease_ttl_s=self.settings.lease_ttl_s,
            schedules=list_schedules(self.settings.schedules),
            embedder=choose_embedder(self.settings.embedder),
            refiner=choose_refiner(self.settings.refiner),
        )

    def finish(
        self,
        value: dict[str, Any],
        results: Sequence[RunResult],
        show: Callable[[Console], None],
    ) -> int:
        """Print the results of a job, the worst error with them, and give the exit code."""
        worst = find_worst(results)
        if worst is not None and worst.error is not None:
            value = {**value, "error": worst.error}
        self.output.emit(value, show)
        return EXIT_DONE if worst is None else _EXITS.get(worst.end.outcome, EXIT_DONE)
