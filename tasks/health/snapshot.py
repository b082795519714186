"""A snapshot: every figure about a store at one instant, as people, programs and tables read it.

The tree that `memtend status --json` prints, the rows of the table `health` and the figures of the
flow are one snapshot in three shapes. Taking it writes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from storage import Store
from storage.control import list_paused, read_phase
from storage.errors import AdmissionError
from storage.health import FIGURE_SCHEMA, read_costs, read_jobs
from storage.instants import format_instant
from storage.models import Namespace
from storage.namespaces import StoredNamespace, list_namespaces
from tasks.health.files import count_upkeep, measure_files
from tasks.health.jobs import Schedules, add_index, describe_jobs, judge_work
from tasks.health.measuring import Figures, add_up, count_all, measure_namespace
from tasks.health.policy import FIGURES, HealthPolicy

COST_DAYS = 30
_SUMMED = ("memories", "index", "duplicates", "anomalies", "forecast")


class Broken(NamedTuple):
    """A figure on the wrong side of its threshold."""

    name: str
    value: float
    threshold: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The figures about a store: the whole as a tree, and the part of each namespace."""

    taken_at: datetime
    whole: Figures
    parts: Mapping[int, Figures]
    broken: Sequence[Broken] = field(default=())

    def describe(self) -> Figures:
        """Give the tree, with the thresholds that are broken."""
        breaches = [one._asdict() for one in self.broken]
        return {"taken_at": self.taken_at, **self.whole, "breaches": breaches}

    def list_counts(self) -> dict[str, int]:
        """List the whole numbers about memories, index and work, for the row of a run."""
        shown = {name: self.whole[name] for name in (*_SUMMED, "work", "cost")}
        counts = {
            path: int(value)
            for path, value in _flatten(shown)
            if isinstance(value, int) and not isinstance(value, bool)
        }
        return counts | {"breaches": len(self.broken)}

    def tabulate(self, run_id: str) -> pa.Table:
        """Give the rows (FIGURE_SCHEMA) of the snapshot: the whole, its parts, what is broken."""
        same: Figures = {"run_id": run_id, "taken_at": self.taken_at}
        rows = [same | row for row in _list_rows(self.whole)]
        for number, part in self.parts.items():
            rows += [same | {"namespace_id": number} | row for row in _list_rows(part)]
        for one in self.broken:
            about = {"subject": "breaches", "metric": one.name}
            rows.append(same | about | {"value": one.value, "threshold": one.threshold})
        return pa.Table.from_pylist(rows, schema=FIGURE_SCHEMA)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a snapshot is about.

    `now` is the decision clock, `clock` wall time; `jobs` names the jobs there are and `schedules`
    says when they run by themselves, as far as the caller knows.
    """

    policy: HealthPolicy
    now: datetime
    clock: datetime
    jobs: Sequence[str]
    schedules: Schedules = field(default_factory=dict)
    namespace: Namespace | None = None


def take_snapshot(store: Store, asked: Asked) -> Snapshot:
    """Read every figure; nothing is written and no read holds the store for long.

    Raises:
        AdmissionError: The store has no such namespace.
        StoreBusyError: A writer holds the store for too long.
    """
    since = asked.clock - timedelta(days=COST_DAYS)
    with store.read() as reader:
        targets = _choose(list_namespaces(reader), asked.namespace)
        counted = count_all(reader, now=asked.now)
        records = read_jobs(reader, clock=asked.clock)
        phase, paused = read_phase(reader), frozenset(list_paused(reader))
        only = targets[0].namespace_id if asked.namespace is not None else None
        cost = read_costs(reader, since=since, namespace_id=only)
    parts = {
        one.namespace_id: measure_namespace(store, asked.policy, counted, one, now=asked.now)
        for one in targets
    }
    summed = add_up(parts.values())
    jobs = describe_jobs(
        asked.jobs, records, schedules=asked.schedules, paused=paused, clock=asked.clock
    )
    backlog = summed["backlog"] | {"janitor": count_upkeep(store, clock=asked.clock)}
    for name in backlog.keys() & jobs.keys():
        jobs[name]["backlog"] = backlog[name]
    if "refresh" in jobs:
        jobs["refresh"] = add_index(jobs["refresh"], summed["index"])
    work = judge_work(jobs, phase)
    whole = {
        **{name: work.pop(name) for name in ("phase", "is_degraded", "is_healthy")},
        "namespaces": len(targets),
        **{name: summed[name] for name in _SUMMED},
        "jobs": jobs,
        "work": work,
        "cost": {"days": COST_DAYS, **cost},
        "files": measure_files(store, clock=asked.clock),
    }
    return Snapshot(asked.clock, whole, parts, judge_figures(whole, asked.policy))


def judge_figures(whole: Figures, policy: HealthPolicy) -> list[Broken]:
    """List the thresholds that are broken; a figure that is unknown breaks none."""
    broken = []
    for name, path in FIGURES.items():
        value, threshold = _find(whole, path), getattr(policy, name)
        if value is None:
            continue
        if value < threshold if name.startswith("min_") else value > threshold:
            broken.append(Broken(name, float(value), float(threshold)))
    return broken


def _choose(
    stored: Sequence[StoredNamespace], namespace: Namespace | None
) -> Sequence[StoredNamespace]:
    chosen = [one for one in stored if namespace is None or one.namespace == namespace]
    if not chosen:
        raise AdmissionError("namespace", "the store has no such namespace")
    return chosen


def _find(tree: Any, path: str) -> float | None:  # noqa: ANN401 - a tree of figures
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree if isinstance(tree, int | float) else None


def _list_rows(tree: Figures) -> Iterator[Figures]:
    """Yield a row for each leaf that is known: a number, or a label."""
    for path, value in _flatten(tree):
        subject, _, metric = path.partition(".")
        about: Figures = {"subject": subject, "metric": metric or subject}
        if isinstance(value, int | float):
            yield about | {"value": float(value)}
        elif value is not None:
            label = format_instant(value) if isinstance(value, datetime) else str(value)
            yield about | {"label": label}


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
