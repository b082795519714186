"""When each job runs by itself: the shipped schedules, and what MEMTEND_SCHEDULES says instead.

The setting is a JSON object by job; each value is a cron with a zone, or an interval in seconds
with an offset. Source: spec/maintenance.md R2-R6.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from cronsim import CronSim, CronSimError

from storage import Store
from storage.errors import AdmissionError
from storage.namespaces import list_namespaces
from storage.slots import activate_job, end_activations
from tasks.health.jobs import Schedule
from tasks.jobs import DIRECT_JOBS, JOBS
from tasks.maintaining import MAINTAIN, STEPS
from tasks.rules.slots import Interval, find_zone

SETTING = "MEMTEND_SCHEDULES"
# The crons are UTC.
SHIPPED = {
    MAINTAIN: "30 1 * * *",
    "maintain_fleet": "30 1 * * *",
    "sweep": "10 2 * * *",
    "prune": "40 2 * * *",
    "consolidate": "0 3 * * *",
    "refresh": "20 * * * *",
    "janitor": "50 3 * * *",
    "health": "5,35 * * * *",
}
# They do what maintain does, apart; or maintain several stores.
SWITCHED_OFF = frozenset({"maintain_fleet", "sweep", "prune", "consolidate"})
_FIELDS = 5
_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)
# No clock is put forward or back by more.
_LARGEST_SHIFT = timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule by the clock of a place."""

    cron: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        """Refuse what is no cron, or never comes.

        Raises:
            AdmissionError: Names the field.
        """
        find_zone(str(self.zone), "zone")
        if not isinstance(self.cron, str) or len(self.cron.split()) != _FIELDS:
            raise AdmissionError("cron", f"must have {_FIELDS} fields")
        try:
            next(CronSim(self.cron, _ANY_DAY))
        except (CronSimError, StopIteration):
            raise AdmissionError("cron", "is no cron, or never comes") from None

    @property
    def day_zone(self) -> str | None:
        """The zone whose date is the key of a slot: of a schedule that is daily somewhere."""
        minute, hour, *_ = self.cron.split()
        is_daily = minute.isdigit() and hour.isdigit()
        return self.zone if is_daily and self.zone != "UTC" else None

    def list_slots(self, now: datetime) -> Iterator[datetime]:
        """Give the slots (UTC) after an instant, without end.

        A local time that comes twice counts once; one that does not come is an hour later.
        """
        zone = find_zone(self.zone, "zone")
        local = now.astimezone(zone).replace(tzinfo=None)
        for slot in CronSim(self.cron, local - _LARGEST_SHIFT):
            instant = slot.replace(tzinfo=zone).astimezone(UTC)
            if instant > now:
                yield instant


Timing = Cron | Interval


def read_timings(text: str | None) -> dict[str, Timing]:
    """Read what the setting says instead of the shipped schedules.

    Raises:
        AdmissionError: No JSON object, an unknown or repeated job, or a wrong field; named.
    """
    try:
        said = json.loads(text or "{}", object_pairs_hook=_collect)
    except (ValueError, RecursionError) as error:
        reason = error.reason if isinstance(error, AdmissionError) else "must be a JSON object"
        raise AdmissionError(SETTING, reason) from None
    if not isinstance(said, dict):
        raise AdmissionError(SETTING, "must be a JSON object")
    unknown = said.keys() - SHIPPED.keys()
    if unknown:
        raise AdmissionError(SETTING, f"its names must be among {', '.join(SHIPPED)}")
    return {job: _read_timing(job, value) for job, value in said.items()}


def _collect(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    collected = dict(pairs)
    if len(collected) < len(pairs):
        raise AdmissionError(SETTING, "names something twice")
    return collected


def _read_timing(job: str, said: object) -> Timing:
    about = f"{SETTING}.{job}"
    try:
        if isinstance(said, dict) and "cron" in said:
            return Cron(**said)
        return Interval(**said)  # type: ignore[arg-type] # what it is not, it refuses
    except TypeError:
        needed = "must have cron and maybe zone, or interval_s and maybe offset_s"
        raise AdmissionError(about, needed) from None
    except AdmissionError as error:
        raise AdmissionError(f"{about}.{error.field}", error.reason) from None


def list_timings(chosen: Mapping[str, Timing]) -> dict[str, Timing]:
    """List the schedule of each job that has one, by job, the chosen ones included."""
    return {job: chosen.get(job) or Cron(cron) for job, cron in SHIPPED.items()}


def begins_on(job: str, chosen: Mapping[str, Timing]) -> bool:
    """Tell whether a schedule that the server does not know yet begins switched on."""
    return job in chosen or job not in SWITCHED_OFF


def list_schedules(text: str | None) -> dict[str, Schedule]:
    """List when jobs are due by schedules that begin on; the steps of maintain are with it, too."""
    chosen = read_timings(text)
    timings: dict[str, list[Timing]] = {}
    for job, timing in list_timings(chosen).items():
        if begins_on(job, chosen):
            for step in (job, *STEPS) if job == MAINTAIN else (job,):
                timings.setdefault(step, []).append(timing)
    return {job: Schedule(partial(_find_next, own)) for job, own in timings.items()}


def _find_next(timings: Sequence[Timing], after: datetime) -> datetime:
    return min(next(iter(one.list_slots(after))) for one in timings)


def activate_intervals(store: Store, timings: Mapping[str, Timing], *, clock: datetime) -> None:
    """Note since when jobs run at their intervals, in each namespace; others run at none.

    Args:
        store: Where the jobs run.
        timings: The schedules that are switched on.
        clock: Wall time.
    """
    intervals = {
        job: timing.interval_s for job, timing in timings.items() if isinstance(timing, Interval)
    }
    with store.write() as writer:
        end_activations(writer, keep=sorted(intervals))
        targets = list_namespaces(writer)
        for job, interval_s in intervals.items():
            direct = DIRECT_JOBS.get(job)
            if direct is None and job not in {*JOBS, MAINTAIN}:
                continue  # the runs of a fleet are those of its stores
            is_store_wide = direct is not None and direct.is_store_wide
            for target in targets[:1] if is_store_wide else targets:
                number = target.namespace_id
                activate_job(writer, number, job, interval_s=interval_s, clock=clock)
