"""Namespaces of a store that memories are imported into, merged in and parted again.

Several share one store, which saves making one for each; nothing that a test looks at leaves its
namespace.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from helpers.imports import write_lines
from helpers.rows import NOW
from helpers.runs import plan_id_of, request_job, run_one
from helpers.vectors import ONE_THREAD, Json, copy_store

from storage import Store
from storage.invariants import check_invariants
from storage.models import MemoryRecord, Namespace
from storage.namespaces import find_namespace
from storage.plans import read_decisions, read_pairs
from storage.records import read_history, read_records
from tasks.importing import import_file
from tasks.limits import SafetyLimits
from tasks.policies import ConsolidatePolicy
from tasks.report import RunResult
from tasks.restoring import RestorePolicy

_NUMBERS = count(1)
_IDS = "SELECT id FROM memories WHERE namespace_id = $namespace_id ORDER BY id"
# What an undo does not give back (spec/consolidate.md R59).
_MOVED = {"revision", "revision_kind", "updated_at", "restored_at", "history"}
# Whatever share of the memories merges.
_LIMITS = SafetyLimits(max_fraction=1.0)


@dataclass(frozen=True, slots=True)
class MergeSpace:
    """One namespace of a store; its clock moves by a minute with each job."""

    store: Store
    namespace: Namespace
    minutes: Iterator[int]

    @property
    def number(self) -> int:
        """The number of the namespace."""
        with self.store.read() as reader:
            owner = find_namespace(reader, self.namespace)
        assert owner is not None
        return owner.namespace_id

    def bring(self, lines: Iterable[Json]) -> None:
        """Import records; all have to go in."""
        path = self.store.path.with_name("lines.jsonl")
        written = write_lines(path, *lines)
        report = import_file(self.store, written, namespace=self.namespace, clock=NOW)
        assert report.imported == report.read
        assert not report.rejects

    def consolidate(self, policy: ConsolidatePolicy | None = None, **asked: object) -> RunResult:
        """Run the job; counters add up, whatever became of the memories."""
        given = {"mode": "apply", "limits": _LIMITS, **asked}
        return self._run("consolidate", policy or ConsolidatePolicy(), **given)

    def undo(self, run_id: str) -> RunResult:
        """Take back all merges of a run."""
        return self._run("restore", RestorePolicy(run_id=run_id), mode="apply")

    def part(self, *memory_ids: str) -> RunResult:
        """Take back the merges of some losers."""
        return self._run("restore", RestorePolicy(ids=memory_ids), mode="apply")

    def _run(self, job: str, policy: object, **asked: object) -> RunResult:
        now = NOW + timedelta(minutes=next(self.minutes))
        asked = {"job": job, "policy": policy, "namespace": self.namespace, "now": now, **asked}
        return run_one(request_job(self.store, **asked))

    def read(self) -> dict[str, MemoryRecord]:
        """Read all memories as they are now, by id."""
        with self.store.read() as reader:
            owner = find_namespace(reader, self.namespace)
            assert owner is not None
            ids = reader.rows(_IDS, {"namespace_id": owner.namespace_id})
            return read_records(reader, owner.namespace_id, [name for (name,) in ids])

    def read_all_texts(self) -> dict[str, set[str]]:
        """Read the texts that each memory has or had."""
        number, current = self.number, self.read()
        with self.store.read() as reader:
            return {
                name: {one.content}
                | {state.content for state in read_history(reader, number, name)}
                for name, one in current.items()
            }

    def read_plan(self, result: RunResult) -> tuple[list[Json], list[Json]]:
        """Read the decisions and the reported pairs of a plan, as far as people see them."""
        with self.store.read() as reader:
            plan_id = plan_id_of(result)
            return read_decisions(reader, plan_id), read_pairs(reader, plan_id)

    def assert_sound(self) -> None:
        """Check what always holds."""
        with self.store.read() as reader:
            broken = [check for check in check_invariants(reader) if check.broken]
        assert not broken


def open_space(store: Store) -> MergeSpace:
    """Give a namespace of the store that nothing is in."""
    name = Namespace(tenant="t", principal="p", scope=f"space-{next(_NUMBERS)}")
    return MergeSpace(store, name, count())


def kept_fields(records: dict[str, MemoryRecord]) -> dict[str, dict[str, Any]]:
    """Give, by id, the fields that an undo gives back."""
    return {name: one.model_dump(exclude=_MOVED) for name, one in records.items()}


def list_lineages(records: dict[str, MemoryRecord]) -> dict[str, list[str]]:
    """List, by merged memory, those that merges of this store made it stand for, and itself."""
    found = {}
    for name, one in records.items():
        sources = [word for word in one.metadata.get("duplicate_ids", "").split(",") if word]
        if sources:
            found[name] = [name, *sources]
    return found


def make_shared_store(folder: Path) -> Store:
    """Make an empty store for many namespaces."""
    store = copy_store(folder / "store")
    with store.write() as writer:
        writer.run_script(ONE_THREAD)
    return store
