"""Plans of some two hundred merges in small batches, with edges between their clusters."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from helpers.imports import edges, write_lines
from helpers.rows import NOW
from helpers.vectors import Json, copy_store

from storage import Store
from storage.instants import format_instant
from storage.models import DEFAULT_NAMESPACE, MemoryRecord
from storage.namespaces import find_namespace
from storage.plans import PlanHeader, store_plan
from storage.records import read_records
from tasks.consolidate.plan import plan_consolidate
from tasks.importing import import_file
from tasks.policies import ConsolidatePolicy

CLUSTERS = 60
_MERGED = "SELECT unnest(json_keys(losers)) FROM merge_receipts WHERE released_at IS NULL"
_APPLIED = "SELECT memory_id FROM apply_receipts WHERE plan_id = $plan_id"
_TAKEN = "SELECT source_id FROM merge_sources"
_IDS = "SELECT id FROM memories"


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A store and a plan of merges in it; `losers` by their canonical memories."""

    store: Store
    header: PlanHeader
    losers: dict[str, str]

    def read(self) -> dict[str, MemoryRecord]:
        """Read all memories, by id."""
        with self.store.read() as reader:
            owner = find_namespace(reader, DEFAULT_NAMESPACE)
            assert owner is not None
            ids = [name for (name,) in reader.rows(_IDS)]
            return read_records(reader, owner.namespace_id, ids)

    def list_merged(self) -> tuple[list[str], list[str], list[str]]:
        """List who is merged, sorted: by receipts of merges, of the plan, and by source ids."""
        with self.store.read() as reader:
            return (
                sorted(name for (name,) in reader.rows(_MERGED)),
                sorted(name for (name,) in reader.rows(_APPLIED, {"plan_id": self.header.plan_id})),
                sorted(name for (name,) in reader.rows(_TAKEN)),
            )


def _lines() -> Iterator[Json]:
    """Give clusters of up to six memories, outsiders, and edges of every kind among them."""
    for cluster in range(CLUSTERS):
        words = " ".join(f"w{cluster}x{place}" for place in range(14))
        for place in range(2 + cluster % 5):
            text = f"{words} more" if place % 2 else words + "." * place
            to_next = f"c{(cluster + 1) % CLUSTERS:02}-1"
            kinds = [("related_to", to_next)] if place == 1 else [("related_to", "outsider")]
            if cluster % 3 == 0:
                kinds.append(("supersedes", f"old{cluster:02}"))
            yield {
                "id": f"c{cluster:02}-{place}",
                "content": text,
                "kind": "semantic",
                "created_at": format_instant(NOW - timedelta(days=20 - place)),
                "importance": 0.25 + 0.125 * (place % 4),
                "tags": [f"tag{place}"],
                "metadata": {"source": f"s{place}"},
                **edges(*kinds),
            }
        if cluster % 3 == 0:
            yield {
                "id": f"old{cluster:02}",
                "content": f"{words} before",
                "status": "superseded",
                "created_at": format_instant(NOW - timedelta(days=30)),
            }
    created = format_instant(NOW - timedelta(days=1))
    yield {"id": "outsider", "content": "harbour lights glow", "created_at": created}


def make_merge_plan(path: Path, *, batch_size: int, clock: datetime = NOW) -> MergePlan:
    """Make a store and store a plan of merges in it."""
    store = copy_store(path)
    report = import_file(store, write_lines(path.with_name("lines.jsonl"), *_lines()), clock=clock)
    assert not report.rejects
    with store.read() as reader:
        owner = find_namespace(reader, DEFAULT_NAMESPACE)
    assert owner is not None
    plan = plan_consolidate(store, ConsolidatePolicy(), namespace=owner, now=clock)
    small = replace(plan, header=replace(plan.header, batch_size=batch_size))
    with store.write() as writer:
        store_plan(writer, small, clock=clock)
    rows = plan.decisions.select(["memory_id", "head_id"]).to_pylist()
    return MergePlan(store, small.header, {row["memory_id"]: row["head_id"] for row in rows})
