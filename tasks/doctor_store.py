"""What the doctor checks in a store: rules, runs, leases, the index, growth, the machine."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import packages_distributions

from storage import Store
from storage.control import list_paused, read_phase
from storage.gateway import DATABASE_FILE
from storage.index_drift import (
    ServedPointer,
    count_uncovered,
    give_up_staging,
    list_orphan_stagings,
    list_pointers,
)
from storage.invariants import check_invariants
from storage.leases import HeldLease, free_expired, list_held
from storage.runs import abandon_run, list_stale
from storage.vectors import VectorStore
from tasks.doctor import Check, Finding, list_found
from tasks.janitor import JanitorPolicy, plan_janitor
from tasks.requests import Clock

PACKAGES = ("deployments", "flows", "storage", "tasks")
_OWN_DISTRIBUTION = "memtend"
_LEAST_FREE_BYTES = 100 * 2**20
# A compaction writes the file anew beside the old one.
_COPIES = 2
_REFRESH = "memtend run refresh"


@dataclass(frozen=True, slots=True)
class StoreDoctor:
    """The checks of one store; `clock` is wall time."""

    store: Store
    clock: Clock

    def list_checks(self) -> list[tuple[str, Check]]:
        """List all checks, with the name of each."""
        return [
            ("invariants", self.check_rules),
            ("stale_runs", self.check_runs),
            ("expired_leases", self.check_leases),
            ("orphan_stagings", self.check_stagings),
            ("pointers_without_vectors", self.check_pointers),
            ("index_coverage", self.check_coverage),
            ("growth", self.check_growth),
            ("switched_off", self.check_control),
            ("free_disk", self.check_disk),
            ("foreign_packages", lambda: check_packages(packages_distributions())),
        ]

    def check_rules(self) -> list[Finding]:
        """Check what always holds between the rows of a store."""
        with self.store.read() as reader:
            return [
                Finding(one.name, broken=one.broken, examples=one.examples)
                for one in check_invariants(reader)
            ]

    def check_runs(self) -> Finding:
        """Find runs that nobody will end any more."""
        with self.store.read() as reader:
            stale = [run.run_id for run in list_stale(reader, clock=self.clock())]
        return list_found(
            "stale_runs",
            stale,
            is_broken=True,
            repair="settle them as abandoned; what they applied stays",
            act=partial(self._abandon, stale),
        )

    def _abandon(self, run_ids: Sequence[str]) -> int:
        with self.store.write() as writer:
            now = self.clock()
            return sum(abandon_run(writer, run_id, clock=now) for run_id in run_ids)

    def check_leases(self) -> Finding:
        """Find leases that ran out and were never given back."""
        now = self.clock()
        with self.store.read() as reader:
            expired = [held for held in list_held(reader) if held.expires_at <= now]
        return list_found(
            "expired_leases",
            [f"{held.job} {held.holder}" for held in expired],
            is_broken=False,
            repair="free them",
            act=partial(self._free, expired),
        )

    def _free(self, expired: Iterable[HeldLease]) -> int:
        with self.store.write() as writer:
            now = self.clock()
            return sum(free_expired(writer, held, clock=now) for held in expired)

    def check_stagings(self) -> Finding:
        """Find publications whose run is gone."""
        with self.store.read() as reader:
            names = list_orphan_stagings(reader, clock=self.clock())
        return list_found(
            "orphan_stagings",
            names,
            is_broken=False,
            repair="give them up, so that the janitor collects their vectors",
            act=partial(self._give_up, names),
        )

    def _give_up(self, names: Iterable[str]) -> int:
        with self.store.write() as writer:
            now = self.clock()
            return sum(give_up_staging(writer, name, clock=now) for name in names)

    def check_pointers(self) -> Finding:
        """Find partitions whose served vectors are not all there; recall does without them."""
        vectors = VectorStore(self.store.path)
        with self.store.read() as reader:
            pointers = list_pointers(reader)
        lost = [one.partition for one in pointers if not _has_vectors(vectors, one)]
        return list_found("pointers_without_vectors", lost, is_broken=True, advice=_REFRESH)

    def check_coverage(self) -> Finding:
        """Count the active memories that the served index lacks."""
        with self.store.read() as reader:
            uncovered = count_uncovered(reader)
        return Finding("index_coverage", due=uncovered, advice=_REFRESH if uncovered else None)

    def check_growth(self) -> Iterator[Finding]:
        """Ask the janitor what is due: vectors, versions, old rows, holes in the file."""
        report = plan_janitor(self.store, JanitorPolicy(), clock=self.clock)
        for step in report.steps:
            advice = "memtend run janitor" if step.found else None
            said = (step.error,) if step.error is not None else ()
            yield Finding(
                f"growth_{step.name}",
                broken=int(step.error is not None),
                due=step.found,
                examples=said,
                advice=advice,
            )

    def check_control(self) -> Finding:
        """Say what a person has switched off."""
        with self.store.read() as reader:
            phase, paused = read_phase(reader), list_paused(reader)
        closed = [phase] if phase in {"closing", "closed"} else []
        return list_found(
            "switched_off",
            closed + ["every job" if job == "*" else job for job in paused],
            is_broken=False,
            advice="memtend resume [JOB]",
        )

    def check_disk(self) -> Finding:
        """Check that the disk has room for a copy of the database and a little more."""
        size = (self.store.path / DATABASE_FILE).stat().st_size
        return judge_disk(size, shutil.disk_usage(self.store.path).free)


def _has_vectors(vectors: VectorStore, pointer: ServedPointer) -> bool:
    table = pointer.vector_table or ""
    # There are more while an erasure that took its rows has not rewritten the table yet.
    return vectors.count(table, pointer.publication_id) >= pointer.record_count


def judge_disk(database_bytes: int, free_bytes: int) -> Finding:
    """Judge the free disk by the size of the database."""
    needed = max(_COPIES * database_bytes, _LEAST_FREE_BYTES)
    if free_bytes >= needed:
        return Finding("free_disk")
    said = f"{free_bytes // 2**20} MiB free, {needed // 2**20} MiB wanted"
    return Finding("free_disk", broken=1, examples=(said,), advice="free some space")


def check_packages(owners: Mapping[str, Sequence[str]]) -> Finding:
    """Find packages of the same names that another distribution brings: they overwrite ours.

    Args:
        owners: The distributions that each top-level package comes from.
    """
    foreign = [
        f"{package} of {owner}"
        for package in PACKAGES
        for owner in sorted(set(owners.get(package, ())) - {_OWN_DISTRIBUTION})
    ]
    advice = "install memtend into an environment of its own"
    return list_found("foreign_packages", foreign, is_broken=True, advice=advice)
