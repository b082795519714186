"""When each job runs by itself, as the shipped schedules that begin switched on say.

They are read from `prefect.yaml`, which a test holds equal to the catalogue: that one imports
Prefect, and `memtend status` must not wait for it.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from importlib.resources import files

from cronsim import CronSim

from tasks.health.jobs import Schedule
from tasks.maintaining import MAINTAIN, STEPS


def list_schedules() -> dict[str, Schedule]:
    """List the schedule of each job that has one; the steps of maintain run with it, too."""
    crons: dict[str, list[str]] = {}
    for job, cron in list_crons():
        for step in (job, *STEPS) if job == MAINTAIN else (job,):
            crons.setdefault(step, []).append(cron)
    return {job: Schedule(partial(find_next, own)) for job, own in crons.items()}


def list_crons() -> Iterator[tuple[str, str]]:
    """Yield each job with its cron (UTC); a schedule that begins switched off is left out."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import, and few verbs need it

    text = files("deployments").joinpath("prefect.yaml").read_text(encoding="utf-8")
    for deployment in YAML(typ="safe", pure=True).load(text)["deployments"]:
        for schedule in deployment.get("schedules", ()):
            if schedule.get("active", True):
                yield deployment["entrypoint"].partition(":")[2], schedule["cron"]


def find_next(crons: Sequence[str], after: datetime) -> datetime:
    """Find the first slot of any schedule (UTC) after an instant."""
    return min(next(CronSim(cron, after)) for cron in crons)
