"""Runs of refresh tests, each a new `Work`, and what they left; a killed one stops where it is."""

import itertools
from typing import Any

from helpers.embedders import IDENTITY
from helpers.refresh_memories import MemoryWorld
from helpers.refresh_parts import AUTHORITY, FaultyEmbedder, Json, Killed

from storage.errors import LeaseHeldError, MaintenanceError
from storage.leases import Lease, acquire_lease, release_lease
from storage.namespaces import (
    StoredNamespace,
)
from storage.runs import RunStart, begin_run, finish_run
from storage.vectors import VectorStore
from tasks.refresh.binding import build_binding, find_partition
from tasks.refresh.ending import end_failed, end_refreshed
from tasks.refresh.run import refresh
from tasks.refresh.source import InjectedSource, Source, StoreSource
from tasks.refresh.work import Refreshed, Work


class RunWorld(MemoryWorld):
    """The same with refresh runs."""

    def partition(self, target: StoredNamespace | None = None) -> Any:  # noqa: ANN401
        """Give the partition of the configured generation."""
        identity = IDENTITY.model_copy(update={"revision": self.revision})
        binding = build_binding(
            AUTHORITY,
            identity,
            self.bounds,
            candidate_limit=8,
            min_score=0.8,
            max_records=100_000,
            max_bytes=268_435_456,
        )
        return find_partition(target or self.target, binding)

    def work(self, lease: Lease, target: StoredNamespace | None = None) -> Work:
        """Make the work of a run."""
        one = target or self.target
        counter = itertools.count(next(self.keys) * 1000)
        return Work(
            store=self.store,
            vectors=VectorStore(self.store.path),
            target=one,
            lease=lease,
            partition=self.partition(one),
            embedder=FaultyEmbedder(self, self.revision),
            bounds=self.bounds,
            settings=self.settings,
            source=self.source(one),
            clock=self.clock,
            new_id=lambda: f"{next(counter):032x}",
            marks_crashes=self.owner is None,
            owner=self.owner,
            sleep=lambda _: None,
        )

    def source(self, target: StoredNamespace) -> Source:
        """Give the source of the run's memories."""
        if self.is_external and target == self.target:
            return InjectedSource(self.repository, target, self.settings)
        return StoreSource(self.store, target, self.settings)

    def do_run(self, inject: dict[str, list[Json]] | None = None, kill: str | None = None) -> Json:
        """Run one refresh as a process would: lease, work, outcome, release."""
        self.inject, self.kill, self.reached = dict(inject or {}), kill, {}
        run_id = f"run-{next(self.keys)}"
        try:
            lease = self.begin(run_id, self.target)
        except LeaseHeldError as error:
            return {"state": "skipped_busy", "reason": error.facts["reason"], "counters": {}}
        work = self.work(lease)
        work.on_step = self.reach
        self.at_work = work
        try:
            ended = refresh(work)
        except Killed:
            return {"state": "killed", "reason": None, "counters": _as_seen(work)}
        except MaintenanceError as error:
            self.finish(work, error)
            return {
                "state": "failed",
                "reason": error.code,
                "error": error,
                "counters": _told(work),
            }
        finally:
            self.inject = {}
        self.finish(work, ended)
        return {
            "state": _name_state(ended),
            "reason": ended.reason,
            "affected": ended.affected,
            "counters": _told(work),
            "counts": ended.counts,
        }

    def begin(self, run_id: str, target: StoredNamespace) -> Lease:
        """Take the lease and open the row of a run."""
        start = RunStart(
            run_id, "refresh", target.namespace_id, "apply", "manual", self.clock(), self.clock()
        )
        with self.store.write() as writer:
            lease = acquire_lease(writer, target, "refresh", holder=run_id, clock=self.clock())
            begin_run(writer, start, lease_fence=lease.fence)
        return lease

    def finish(self, work: Work, came: MaintenanceError | Refreshed) -> None:
        """Write the outcome of a run, unless it did so itself, and give the lease back."""
        end = end_refreshed(work, came) if isinstance(came, Refreshed) else end_failed(work, came)
        with self.store.write() as writer:
            finish_run(writer, work.lease.holder, end, clock=self.clock())
            release_lease(writer, work.lease, clock=self.clock())

    def sql(self, statement: str) -> None:
        """Change the tables past every check."""
        with self.store.write() as writer:
            writer.execute(statement)

    def read_pointer(self) -> Json:
        """Read the pointer of the configured partition, with the rows that are really served."""
        name = self.partition().name
        with self.store.read() as reader:
            rows = reader.records(
                "SELECT p.revision, p.phase, p.publication_id, u.vector_table, "
                "s.partition AS serving "
                "FROM partitions AS p LEFT JOIN publications AS u USING (publication_id) "
                "LEFT JOIN serving AS s ON s.namespace_id = p.namespace_id "
                "WHERE p.partition = $name",
                {"name": name},
            )
        pointer = rows[0]
        served = pointer["publication_id"]
        count = VectorStore(self.store.path).count(pointer["vector_table"], served) if served else 0
        pointer["records"] = count
        pointer["is_current"] = pointer["serving"] == name
        return pointer

    def read_index(self) -> Json:
        """Read the figures of the whole index."""
        with self.store.read() as reader:
            revision = reader.rows("SELECT max(revision) FROM index_pointer")[0][0]
            served = reader.rows(
                "SELECT publication_id, vector_table FROM partitions JOIN publications "
                "USING (publication_id)"
            )
        vectors = VectorStore(self.store.path)
        records = sum(vectors.count(table, name) for name, table in served)
        return {"revision": revision or 0, "partitions": len(served), "records": records}

    def count_orphans(self) -> int:
        """Count publications that never served or were taken back."""
        with self.store.read() as reader:
            rows = reader.rows(
                "SELECT count(*) FROM publications WHERE namespace_id = $owner "
                "AND phase IN ('staging', 'staged', 'abandoned', 'invalidated')",
                {"owner": self.target.namespace_id},
            )
        return int(rows[0][0])

    def read_receipt(self) -> Json:
        """Read the receipt that the pointer names."""
        with self.store.read() as reader:
            return reader.records(
                "SELECT r.* FROM refresh_receipts AS r JOIN partitions AS p USING (receipt_id) "
                "WHERE p.partition = $name",
                {"name": self.partition().name},
            )[0]


def _name_state(ended: Refreshed) -> str:
    if ended.is_unchanged:
        return "unchanged"
    return "completed_with_failures" if ended.counts.unpublished else "completed"


def _told(work: Work) -> Json:
    figures = work.counters.describe()
    del figures["snapshot_bytes"]
    return {name: count for name, count in figures.items() if count}


def _as_seen(work: Work) -> Json:
    """Give the counters of a killed run: what the embedder saw counts, too."""
    told, embedder = _told(work), work.embedder
    assert isinstance(embedder, FaultyEmbedder)
    if embedder.requests and "provider_requests" not in told:
        seen = {"provider_requests": embedder.requests, "provider_inputs": embedder.inputs}
        seen |= {"embed_inputs": embedder.inputs, "embed_input_bytes": embedder.input_bytes}
        told |= {**seen, "provider_input_bytes": embedder.input_bytes}
    return told
