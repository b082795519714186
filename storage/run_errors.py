"""Why a run does not start, or ends early because somebody asked for it.

* MaintenanceError
  - StoreNotRunningError
  - SlotMissedError
  - RunCancelledError
"""

from typing import Literal

from storage.errors import MaintenanceError

Phase = Literal["disabled", "running", "closing", "closed"]
Missed = Literal["first_interval", "covered"]

_PHASES = {
    "disabled": "is paused; go on with: memtend resume [JOB]",
    "closing": "does not start: the store is being closed",
    "closed": "does not start: the store is closed; open it with: memtend resume",
}
_SLOTS = {
    "first_interval": "comes before the first full interval",
    "covered": "has been covered by a run that started at or after it",
}


class StoreNotRunningError(MaintenanceError):
    """A person paused the job, or the store is closed: the run ends as skipped_busy."""

    code = "not_running"

    def __init__(self, job: str, phase: Phase) -> None:
        """Name the job and the phase that keeps it."""
        super().__init__(f"{job} {_PHASES[phase]}", job=job, reason=phase)


class SlotMissedError(MaintenanceError):
    """The planned start of a scheduled run needs no run any more: it ends as skipped_missed."""

    code = "slot_missed"

    def __init__(self, job: str, slot: str, reason: Missed) -> None:
        """Name the slot and why it needs no run."""
        super().__init__(f"{job}: the slot {slot} {_SLOTS[reason]}", slot=slot, reason=reason)


class RunCancelledError(MaintenanceError):
    """Somebody asked the run to end, and it was before its commit point."""

    code = "cancelled"

    def __init__(self) -> None:
        """Give the fixed text."""
        super().__init__("run was cancelled")
