"""Pause, resume and close: what a person, or the process that serves a store, does to its runs.

Source: spec/maintenance.md R40-R44.
"""

import time
from dataclasses import asdict, dataclass

from storage import Store
from storage.control import (
    list_paused,
    read_close_report,
    read_phase,
    set_closed,
    set_closing,
    set_pause,
    set_running,
)
from storage.leases import HeldLease, free_expired, list_held, request_cancel
from storage.run_errors import Phase
from storage.runs import abandon_run, is_running
from tasks.requests import Clock
from tasks.signals import check_shutdown_timeout

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ControlState:
    """What holds now: the store's phase, the paused jobs (`*`: every one), and runs at work."""

    phase: Phase
    paused: list[str]
    running: int
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class CloseReport:
    """How the runs at work ended when the store was closed.

    joined: they gave their lease back in time; aborted: they held it at the deadline; failures:
    their process was gone without having settled anything.
    """

    jobs_joined: int = 0
    jobs_aborted: int = 0
    join_failures: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether every run ended by itself."""
        return not self.jobs_aborted and not self.join_failures


def pause(
    store: Store, job: str | None, *, clock: Clock, is_cancelling: bool = False
) -> ControlState:
    """Let no run of a job start any more, or of any job.

    Args:
        store: The store.
        job: Its name; None: every job.
        clock: Wall time.
        is_cancelling: Ask the runs that are at work to end, too.
    """
    now = clock()
    with store.write() as writer:
        set_pause(writer, job, is_paused=True, clock=now)
        cancelled = request_cancel(writer, job=job, clock=now) if is_cancelling else 0
    return read_control(store, clock=clock, cancelled=cancelled)


def resume(store: Store, job: str | None, *, clock: Clock) -> ControlState:
    """Let runs of a job start again; without a job also those of a closed store.

    Jobs that were paused by name stay so until they are resumed by name.
    """
    now = clock()
    with store.write() as writer:
        set_pause(writer, job, is_paused=False, clock=now)
        if job is None:
            set_running(writer, clock=now)
    return read_control(store, clock=clock)


def read_control(store: Store, *, clock: Clock, cancelled: int = 0) -> ControlState:
    """Read what holds now."""
    now = clock()
    with store.read() as reader:
        live = [held for held in list_held(reader) if held.expires_at > now]
        return ControlState(read_phase(reader), list_paused(reader), len(live), cancelled)


def close_store(store: Store, *, timeout_s: float, clock: Clock) -> CloseReport:
    """Let no run start, ask those at work to end, and wait for them: one deadline for all.

    Closing again gives the first report, until the store is opened again. A run that still holds
    its lease at the deadline works in a process of its own and ends when it next looks.

    Args:
        store: The store.
        timeout_s: Longest wait, over 0 and at most 30 seconds.
        clock: Wall time.

    Raises:
        AdmissionError: The timeout is out of bounds.
    """
    check_shutdown_timeout(timeout_s)
    started = clock()
    with store.write() as writer:
        known = read_close_report(writer)
        if known is not None:
            return CloseReport(**known)
        set_closing(writer, clock=started)
        request_cancel(writer, clock=started)
        asked = list_held(writer)
    report = _wait(store, asked, timeout_s, clock)
    with store.write() as writer:
        set_closed(writer, asdict(report), clock=clock())
    return report


def _wait(store: Store, asked: list[HeldLease], timeout_s: float, clock: Clock) -> CloseReport:
    started, waiting, dead = clock(), asked, 0
    while True:
        now = clock()
        waiting = _list_still_held(store, waiting)
        late = [held for held in waiting if held.expires_at <= now]
        dead += sum(_settle_dead(store, held, clock) for held in late)
        waiting = [held for held in waiting if held not in late]
        if not waiting or (now - started).total_seconds() >= timeout_s:
            break
        time.sleep(_POLL_S)
    return CloseReport(len(asked) - len(waiting) - dead, len(waiting), dead)


def _list_still_held(store: Store, asked: list[HeldLease]) -> list[HeldLease]:
    """List those leases that still have the same holder, as they are now."""
    names = {(held.lease_key, held.fence) for held in asked}
    with store.read() as reader:
        return [held for held in list_held(reader) if (held.lease_key, held.fence) in names]


def _settle_dead(store: Store, held: HeldLease, clock: Clock) -> bool:
    """Settle the run of an expired lease; False: its process had settled it."""
    now = clock()
    with store.write() as writer:
        free_expired(writer, held, clock=now)
        was_running = is_running(writer, held.holder)
        if was_running:
            abandon_run(writer, held.holder, clock=now)
    return was_running
