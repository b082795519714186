"""Memories with planted duplicates for consolidation, and the stores that its phases start from.

Run as `python -m benchmarks.consolidate_data DIRECTORY ROWS NAME` it makes one of them: a process
of its own gives its memory back.

Zipf texts of 18 words; of every 100 memories 8 are exact duplicates of an earlier one (half of them
only after letter case and punctuation are taken away) and 4 have one word more; one family of up to
300 differs from an earlier text in up to two words and in punctuation; each of it passes with every
other. All are active and of one kind. As many as are planted have to merge, and no other.
"""

import math
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.data import NOW, make_memories

from storage import Store, StoreWriter, create_store, open_store
from storage.memories import EVIDENCE_SCHEMA, MEMORY_SCHEMA, insert_evidence, insert_memories
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace, step_sequence
from storage.queries import read_statements
from storage.runs import Mode
from storage.terms import insert_terms, term_rows
from tasks.inline import run_job
from tasks.limits import SafetyLimits
from tasks.policies import ConsolidatePolicy
from tasks.report import RunResult
from tasks.requests import JobRequest

FRESH, PLANNED, MERGED, GROWN = "fresh", "planned", "merged", "grown"
STORES = (FRESH, PLANNED, MERGED, GROWN)
# The fingerprint keys of PLANNED, for peers that read a file.
KEYS = "keys.sqlite"
_SQL = read_statements("benchmarks", "consolidate")
_EXACT, _NEAR, _NEW = 0.08, 0.04, 0.01
_FAMILY = 300
_EXTRAS = ("zalu", "zebo", "zimu")
_LEVEL = _FAMILY // len(_EXTRAS)
_BATCH = 50_000


@dataclass(frozen=True, slots=True)
class Planted:
    """How many memories there are, and how many of them have to merge."""

    rows: int
    exact: int
    near: int
    family: int

    @property
    def losers(self) -> int:
        """How many merge into another one."""
        return self.exact + self.near + self.family

    @property
    def near_pairs(self) -> int:
        """How many pairs of different texts are near: every other exact copy is another text."""
        return (self.exact + 1) // 2 + self.near + math.comb(self.family + 1, 2)

    @property
    def twins(self) -> int:
        """How many have the fingerprint of an earlier one: in the family, all with equal words."""
        return self.exact + self.family - max(0, math.ceil(self.family / _LEVEL) - 1)


def plan_rows(rows: int) -> Planted:
    """Say what is planted among so many memories."""
    return Planted(rows, int(rows * _EXACT), int(rows * _NEAR), min(_FAMILY, rows // 20))


def plan_growth(rows: int) -> Planted:
    """Say what is planted among the memories that come later."""
    return Planted(int(rows * _NEW), int(rows * _NEW * _EXACT), int(rows * _NEW * _NEAR), 0)


def make_planted(rows: int) -> pa.Table:
    """Make MEMORY_SCHEMA rows with what `plan_rows` says."""
    planted = plan_rows(rows)
    memories = make_memories(rows)
    texts = memories["content"].to_pylist()
    places = iter(range(rows - 1, -1, -1))
    sources = iter(range(rows))
    _plant(texts, planted, places, sources)
    base = texts[next(sources)]
    for number, place in enumerate(islice(places, planted.family)):
        texts[place] = _make_kin(base, number)
    return _with_texts(memories, texts)


def make_growth(rows: int) -> pa.Table:
    """Make the memories that come a day later: some of them say what earlier ones say."""
    growth = plan_growth(rows)
    known = make_planted(rows)["content"].to_pylist()
    # Random texts go on where those of fewer memories end.
    fresh = make_memories(rows + growth.rows)["content"].slice(rows).to_pylist()
    places = iter(range(growth.rows - 1, -1, -1))
    # Memories in the middle are neither sources nor copies.
    texts = [*fresh, *known[rows // 2 : rows // 2 + growth.losers]]
    _plant(texts, growth, places, iter(range(growth.rows, len(texts))))
    memories = make_memories(growth.rows)
    ids = pc.binary_join_element_wise(pa.scalar("n"), memories["id"], "")
    later = pc.add(memories["created_at"], timedelta(days=400))
    created = pc.if_else(pc.less(later, pa.scalar(NOW)), pa.scalar(NOW), later)
    memories = memories.set_column(memories.schema.get_field_index("id"), "id", ids)
    for name in ("created_at", "updated_at", "content_at"):
        memories = memories.set_column(memories.schema.get_field_index(name), name, created)
    return _with_texts(memories, texts[: growth.rows])


def _plant(
    texts: list[str], planted: Planted, places: Iterator[int], sources: Iterator[int]
) -> None:
    for number, place in enumerate(islice(places, planted.exact)):
        text = texts[next(sources)]
        texts[place] = text if number % 2 else f"{text.capitalize()}."
    for number, place in enumerate(islice(places, planted.near)):
        texts[place] = f"{texts[next(sources)]} {_name(number)}"


def _name(number: int) -> str:
    """Give a word that no text has, and that is no number."""
    return "zy" + "".join(chr(ord("a") + int(digit)) for digit in str(number))


def _make_kin(base: str, number: int) -> str:
    """Make a member of the family: some words more, and a full stop after some word."""
    level, place = divmod(number, _LEVEL)
    words = [*base.split(), *_EXTRAS[: level % len(_EXTRAS)]]
    first, rest = divmod(place, len(words))
    words[rest] += ","
    words[first] += "."
    return " ".join(words)


def _with_texts(memories: pa.Table, texts: list[str]) -> pa.Table:
    rows = memories.num_rows
    same = {
        "content": pa.array(texts, pa.string()),
        "kind": pa.repeat(pa.scalar("semantic"), rows),
        "status": pa.repeat(pa.scalar("active"), rows),
        "tombstoned_at": pa.nulls(rows, MEMORY_SCHEMA.field("tombstoned_at").type),
        "expires_at": pa.nulls(rows, MEMORY_SCHEMA.field("expires_at").type),
        "pinned": pa.repeat(pa.scalar(value=False), rows),
    }
    for name, column in same.items():
        memories = memories.set_column(memories.schema.get_field_index(name), name, column)
    return memories.cast(MEMORY_SCHEMA)


def seed_stores(directory: Path, rows: int, names: Iterable[str] = STORES) -> None:
    """Make what jobs start from, and what that is made of, unless it is there."""
    for name in names:
        if not (directory / name).exists():
            _SEEDERS[name](directory, rows)


def _seed_fresh(directory: Path, rows: int) -> None:
    _insert(create_store(directory / FRESH, clock=NOW)[0], make_planted(rows))


def _seed_planned(directory: Path, rows: int) -> None:
    run_here(_copy(directory, rows, FRESH, PLANNED), mode="plan")


def _seed_merged(directory: Path, rows: int) -> None:
    run_here(_copy(directory, rows, PLANNED, MERGED), mode="apply")


def _seed_grown(directory: Path, rows: int) -> None:
    _insert(open_store(_copy(directory, rows, MERGED, GROWN)), make_growth(rows))


def _seed_keys(directory: Path, rows: int) -> None:
    seed_stores(directory, rows, (PLANNED,))
    with open_store(directory / PLANNED).read() as reader:
        keys = reader.rows(_SQL["read_keys"])
    with closing(sqlite3.connect(directory / KEYS)) as connection:
        connection.execute(_SQL["sqlite_create"])
        connection.executemany(_SQL["sqlite_insert"], keys)
        connection.execute(_SQL["sqlite_index"])
        connection.execute(_SQL["sqlite_analyze"])
        connection.commit()


_SEEDERS: Mapping[str, Callable[[Path, int], None]] = {
    FRESH: _seed_fresh,
    PLANNED: _seed_planned,
    MERGED: _seed_merged,
    GROWN: _seed_grown,
    KEYS: _seed_keys,
}


def _copy(directory: Path, rows: int, source: str, target: str) -> Path:
    seed_stores(directory, rows, (source,))
    return Path(shutil.copytree(directory / source, directory / target))


def _insert(store: Store, memories: pa.Table) -> None:
    """Insert memories, each with one evidence, as an import would."""
    with store.session():
        for start in range(0, memories.num_rows, _BATCH):
            with store.write() as writer:
                _insert_some(writer, memories.slice(start, _BATCH))


def _insert_some(writer: StoreWriter, memories: pa.Table) -> None:
    owner = ensure_namespace(writer, DEFAULT_NAMESPACE).namespace_id
    insert_memories(writer, memories)
    ids = memories["id"].combine_chunks()
    texts = zip(ids.to_pylist(), memories["content"].to_pylist(), strict=True)
    insert_terms(writer, term_rows(texts, owner))
    uris = pc.binary_join_element_wise(pa.scalar("import:"), ids, "")
    columns = {
        "namespace_id": memories["namespace_id"],
        "memory_id": ids,
        "uri": uris,
        "digest": uris,
        "kind": pa.repeat(pa.scalar("artifact"), len(ids)),
        "occurred_at": memories["created_at"],
        "since_revision": memories["revision"],
    }
    insert_evidence(writer, pa.table(columns).cast(EVIDENCE_SCHEMA))
    step_sequence(writer, owner)


def run_here(path: Path, *, mode: Mode, plan_id: str | None = None) -> RunResult:
    """Run the whole job: locks, lease, run row, plan, guard, merges with receipts.

    Raises:
        RuntimeError: It failed, or left something undone.
    """
    request = JobRequest(
        store=path,
        job="consolidate",
        policy=ConsolidatePolicy(),
        now=NOW,
        clock=lambda: NOW,
        new_run_id=lambda: f"benchmark-{uuid4()}",
        mode=mode,
        limits=SafetyLimits(max_fraction=1.0),
        plan_id=plan_id,
    )
    (result,) = run_job(request)
    if result.error is not None or result.end.outcome not in {"planned", "applied", "unchanged"}:
        raise RuntimeError(str(result))
    return result


def main(arguments: Sequence[str]) -> None:
    """Make what the arguments name."""
    directory, rows, name = arguments
    seed_stores(Path(directory), int(rows), (name,))


if __name__ == "__main__":
    main(sys.argv[1:])
