"""Consolidation in tests as people use it: memories by import, runs, what they report, the undo."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from helpers.embedders import IDENTITY
from helpers.imports import record, write_lines
from helpers.runs import dump_tables, plan_id_of, read_outcomes_of, request_job, run_one
from helpers.vectors import NAMESPACE, Json

from storage import Store, StoreReader
from storage.invariants import check_invariants
from storage.models import MemoryRecord, Namespace
from storage.namespaces import find_namespace
from storage.plans import read_decisions, read_pairs
from storage.records import read_record
from tasks.hits import RecallPolicy
from tasks.importing import import_file
from tasks.policies import ConsolidatePolicy, RefreshPolicy
from tasks.providers.embedder import Embedder, Vector
from tasks.recall import SemanticSource, recall_memories
from tasks.report import RunResult
from tasks.requests import EmbedderChoice, JobRequest
from tasks.restoring import RestorePolicy

# Their length is kept, so that one may be as long as the axes of a test ask for.
UNSCALED = IDENTITY.model_copy(update={"normalisation": "none"})
_TABLES = ("memories", "revisions", "evidence", "relations", "merge_receipts", "merge_sources")
_RECEIPTS = "SELECT count(*) FROM merge_receipts WHERE released_at IS NULL"


class DownEmbedder:
    """An embedder whose service is down; it has the identity of `ChosenEmbedder`."""

    identity = UNSCALED

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Fail."""
        raise TimeoutError(len(texts))

    def embed_query(self, text: str) -> Vector:
        """Fail."""
        raise TimeoutError(len(text))


class ChosenEmbedder:
    """Gives every text the vector that a function chooses."""

    identity = UNSCALED

    def __init__(self, choose: Callable[[str], Sequence[float]] = lambda _: (1.0, 0.0)) -> None:
        """Take the function; without one all texts are alike."""
        self._choose = choose

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Embed texts, one array a text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text."""
        return np.array(self._choose(text), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Reported:
    """What a plan says: whole clusters, and the pairs that are only reported."""

    clusters: list[list[str]]
    similar: list[list[object]]
    conflicts: list[list[object]]
    others: list[Json]


@dataclass(frozen=True, slots=True)
class Keeper:
    """One namespace of a store, and everything that is done with it at one instant."""

    store: Store
    now: datetime
    namespace: Namespace = NAMESPACE

    def add(self, *records: Json) -> None:
        """Import memories of memtend's format; all must arrive."""
        path = write_lines(self.store.path.with_name("memories.jsonl"), *records)
        report = import_file(
            self.store, path, namespace=self.namespace, is_strict=True, clock=self.now
        )
        assert (report.imported, report.rejects) == (len(records), [])

    def ask(self, job: str, **asked: Any) -> JobRequest:  # noqa: ANN401 - fields of JobRequest
        """Build the request of a job that applies."""
        given = {"mode": "apply", "namespace": self.namespace, "now": self.now}
        return request_job(self.store, job=job, **(given | asked))

    def run(self, job: str, **asked: Any) -> RunResult:  # noqa: ANN401 - fields of JobRequest
        """Run a job in a store that is sound before and after."""
        result = run_one(self.ask(job, **asked))
        self.check()
        return result

    def consolidate(self, policy: Mapping[str, Any] | None = None, **asked: Any) -> RunResult:  # noqa: ANN401
        """Run the job in a store that is sound before and after."""
        given = {"policy": ConsolidatePolicy(**(policy or {}))}
        return self.run("consolidate", **(given | asked))

    def plan(self, policy: Mapping[str, Any] | None = None) -> RunResult:
        """Plan, and apply nothing."""
        return self.consolidate(policy, mode="plan")

    def apply(self, planned: RunResult, **asked: Any) -> RunResult:  # noqa: ANN401
        """Apply a stored plan."""
        return self.consolidate(plan_id=plan_id_of(planned), **asked)

    def restore(self, *ids: str, **how: Any) -> RunResult:  # noqa: ANN401 - of the policy
        """Give memories back, in a store that is sound before and after."""
        return self.run("restore", policy=RestorePolicy(ids=ids, **how))

    def refresh(self, embedder: Embedder) -> RunResult:
        """Refresh the index."""
        choice = EmbedderChoice("helpers.consolidate_runs:ChosenEmbedder", lambda: embedder)
        return run_one(self.ask("refresh", policy=RefreshPolicy(), embedder=choice))

    def check(self) -> None:
        """Check that all holds that always holds."""
        with self.store.read() as reader:
            assert [check for check in check_invariants(reader) if check.broken] == []

    def read(self, memory_id: str) -> MemoryRecord:
        """Read a memory that must be there."""
        with self.store.read() as reader:
            found = read_record(reader, self.owner_id(reader), memory_id)
        assert found is not None
        return found

    def owner_id(self, reader: StoreReader) -> int:
        """Give the number of the namespace."""
        found = find_namespace(reader, self.namespace)
        assert found is not None
        return found.namespace_id

    def list_statuses(self) -> dict[str, str]:
        """Give the status of every memory, by id."""
        with self.store.read() as reader:
            rows = reader.rows(
                "SELECT id, status FROM memories WHERE namespace_id = $owner ORDER BY id",
                {"owner": self.owner_id(reader)},
            )
        return dict(rows)

    def list_revisions(self) -> dict[str, int]:
        """Give the revision of every memory, by id."""
        return {name: self.read(name).revision for name in self.list_statuses()}

    def dump(self) -> Mapping[str, object]:
        """Read all that is remembered, in every namespace."""
        tables = dump_tables(self.store)
        return {name: tables[name] for name in _TABLES}

    def count_receipts(self) -> int:
        """Count the merges that were not taken back."""
        with self.store.read() as reader:
            return int(reader.rows(_RECEIPTS)[0][0])

    def recall(self, query: str, embedder: Embedder | None = None) -> list[str]:
        """Recall as an agent does, by words, and by meaning with an embedder."""
        source = SemanticSource(lambda: embedder) if embedder is not None else None
        found = recall_memories(
            self.store,
            self.namespace,
            query,
            policy=RecallPolicy(),
            now=self.now,
            source=source,
        )
        assert found.semantic == ("used" if embedder is not None else "absent")
        return [hit.memory_id for hit in found.hits]

    def outcomes(self, result: RunResult) -> dict[str, str]:
        """Read what a run made of each loser."""
        return read_outcomes_of(self.store, result)

    def report(self, result: RunResult) -> Reported:
        """Read what the plan of a run says."""
        plan_id = plan_id_of(result)
        with self.store.read() as reader:
            decisions = read_decisions(reader, plan_id)
            pairs = read_pairs(reader, plan_id)
        return Reported(
            clusters=gather_clusters(decisions),
            similar=_list_pairs(pairs, "similar", lambda row: row["reasons"]),
            conflicts=_list_pairs(
                pairs, "conflict", lambda row: [row["figures"]["conflict_class"]]
            ),
            others=[row for row in pairs if row["result"] not in {"similar", "conflict"}],
        )


def say(*texts: str, **fields: object) -> list[Json]:
    """Make memories m1, m2 … of texts, a day apart."""
    return [
        record(f"m{day}", content=text, created_at=f"2026-01-{day:02}T00:00:00Z", **fields)
        for day, text in enumerate(texts, 1)
    ]


def forget_moves(one: MemoryRecord) -> Json:
    """Give all that an undo gives back (DESIGN 10.18)."""
    said = one.model_dump()
    for name in ("revision", "revision_kind", "updated_at", "restored_at", "history"):
        del said[name]
    return said


def gather_clusters(decisions: Iterable[Json]) -> list[list[str]]:
    """Gather the losers of a plan behind the memories that they merge into."""
    clusters: dict[str, list[str]] = {}
    for row in decisions:
        canonical = row["figures"]["canonical_id"]
        clusters.setdefault(canonical, [canonical]).append(row["id"])
    return list(clusters.values())


def _list_pairs(
    rows: Iterable[Json], result: str, describe: Callable[[Json], list[str]]
) -> list[list[object]]:
    return [
        [row["id"], row["partner_id"], describe(row)] for row in rows if row["result"] == result
    ]
