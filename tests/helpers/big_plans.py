"""Plans of 400 decisions in small batches: every reason, ancestry, edges between batches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from helpers.rows import NOW
from helpers.vectors import copy_store

from storage import Store
from storage.admission import Candidate, admit_records
from storage.models import DEFAULT_NAMESPACE, MemoryRecord
from storage.namespaces import ensure_namespace
from storage.plans import PlanHeader, store_plan
from tasks.jobs import find_rule
from tasks.policies import Policy, PrunePolicy, SweepPolicy

_KEEPERS = 20
_OLD = NOW - timedelta(days=300)

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BigPlan:
    """A store, and a plan in it that no run has begun."""

    store: Store
    header: PlanHeader


def _edge(kind: str, target_id: str) -> dict[str, str]:
    return {"kind": kind, "target_id": target_id}


def _values(memory_id: str, *edges: dict[str, str], **given: object) -> Values:
    fixed = {"id": memory_id, "content": f"content of {memory_id}", "relations": list(edges)}
    return fixed | {"importance": 0.1, "created_at": _OLD} | given


def _keepers() -> Iterator[Values]:
    for number in range(_KEEPERS):
        yield _values(f"keep{number:02}", importance=0.9, created_at=NOW - timedelta(days=1))


def _ancestors(heads: int) -> Iterator[Values]:
    """Every fourth head has an ancestor that it shares with the next, every eighth a chain."""
    for number in range(0, heads, 4):
        older = [_edge("supersedes", f"b{number:03}")] if number % 8 == 0 else []
        yield _values(f"a{number:03}", *older, status="superseded")
        if older:
            yield _values(f"b{number:03}", status="superseded")


def _edges_of_head(number: int) -> list[dict[str, str]]:
    edges = [_edge("related_to", f"keep{number % _KEEPERS:02}")]
    if number % 4 in {0, 1}:
        edges.append(_edge("supersedes", f"a{number - number % 4:03}"))
    return edges


def _prune_rows() -> Iterator[Values]:
    """250 stale rows and 150 over the cap; edges from the stale to each other and to the rest."""
    yield from _keepers()
    yield from _ancestors(250)
    for number in range(250):
        other = [f"m{(number + 60) % 250:03}", f"o{number % 150:03}"][number % 2]
        yield _values(f"m{number:03}", *_edges_of_head(number), _edge("related_to", other))
    for number in range(150):
        yield _values(f"o{number:03}", importance=0.6)


def _sweep_rows() -> Iterator[Values]:
    """130 expired, 140 cold and 130 aged tombstones; edges from what goes first to the others."""
    yield from _keepers()
    yield from _ancestors(130)
    tombstoned = {"status": "tombstoned", "tombstoned_at": NOW - timedelta(days=200)}
    for number in range(130):
        later = _edge("related_to", f"c{number:03}"), _edge("related_to", f"p{number:03}")
        expired = {"expires_at": NOW - timedelta(days=number + 1)}
        yield _values(f"e{number:03}", *_edges_of_head(number), *later, **expired)
        yield _values(f"p{number:03}", _edge("related_to", f"c{number + 10:03}"), **tombstoned)
    for number in range(140):
        yield _values(f"c{number:03}", _edge("related_to", f"keep{number % _KEEPERS:02}"))


_ROWS = {"prune": _prune_rows, "sweep": _sweep_rows}
POLICIES: dict[str, Policy] = {
    "prune-tombstone": PrunePolicy(max_items=_KEEPERS, protect_curated=False),
    "prune-delete": PrunePolicy(max_items=_KEEPERS, protect_curated=False, mode="delete"),
    "sweep": SweepPolicy(),
}


def make_big_plan(path: Path, name: str, *, batch_size: int) -> BigPlan:
    """Make a store for one of POLICIES and store its plan."""
    store, job = copy_store(path), find_rule(name.partition("-")[0])
    records = [MemoryRecord.model_validate(values) for values in _ROWS[job.name]()]
    candidates = [Candidate(record.id, record, f"sha256:{record.id}") for record in records]
    with store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        admitted = admit_records(writer, owner.namespace_id, candidates, clock=NOW)
        assert not admitted.rejects
    with store.write() as writer:
        plan = job.plan(writer, POLICIES[name], namespace=owner, now=NOW)
        small = replace(plan, header=replace(plan.header, batch_size=batch_size))
        store_plan(writer, small, clock=NOW)
    return BigPlan(store, small.header)
