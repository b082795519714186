"""The peers: each does the same job in its best single-process form."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from operator import attrgetter, itemgetter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.ipc
from benchmarks import loops
from benchmarks.data import NOW_US, Seed
from benchmarks.work import Read, Work
from pydantic import BaseModel, ConfigDict

from storage.gateway import DATABASE_FILE
from storage.queries import read_statements

_SQL = read_statements("benchmarks", "sqlite")
_FLOOR = read_statements("benchmarks", "duckdb")
_PLAN = {"plan_id": "plan_benchmark"}
_CLOCKS = {
    "now": NOW_US,
    "purge_before": loops.PURGE_BEFORE_US,
    "stale_before": loops.STALE_BEFORE_US,
    "grace_after": NOW_US - loops.GRACE_US,
}


class RuleModel(BaseModel):
    """One memory as an object, with the columns that the rules read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    revision: int
    kind: str
    status: str
    importance: float
    salience: float | None
    pinned: bool
    expires_at: int | None
    marks: str
    created_at: int
    content_at: int
    restored_at: int | None
    tombstoned_at: int | None
    last_accessed_at: int | None
    access_count: int


@contextmanager
def floor(seed: Seed) -> Iterator[Work]:
    """Read the columns of the rules with bare DuckDB; decides nothing."""
    with closing(duckdb.connect(str(seed.store / DATABASE_FILE), read_only=True)) as connection:

        def run() -> Read:
            connection.execute(_FLOOR["read_columns"]).fetchall()
            return lambda: ()

        yield run


@contextmanager
def sweep_sqlite(seed: Seed) -> Iterator[Work]:
    """Insert the decisions with one statement and commit."""
    with _open_sqlite(seed) as connection:

        def run() -> Read:
            connection.execute(_SQL["plan_sweep"], _PLAN | _CLOCKS)
            connection.commit()
            return lambda: connection.execute(_SQL["read_decided"])

        yield run


@contextmanager
def prune_decide_sqlite(seed: Seed) -> Iterator[Work]:
    """Insert the decisions, which are kept in the transaction."""
    with _open_sqlite(seed) as connection:

        def run() -> Read:
            _plan_prune(connection, seed.cap)
            return lambda: connection.execute(_SQL["read_decided"])

        yield run


@contextmanager
def prune_apply_sqlite(seed: Seed) -> Iterator[Work]:
    """Plan, keep the revisions, tombstone under the fence, write receipts; one transaction."""
    with _open_sqlite(seed) as connection:

        def run() -> Read:
            _plan_prune(connection, seed.cap)
            connection.execute(_SQL["keep_revisions"], _PLAN)
            connection.execute(_SQL["tombstone_memories"], _PLAN | _CLOCKS)
            connection.execute(_SQL["insert_receipts"], _PLAN | _CLOCKS)
            connection.execute(_SQL["record_outcomes"], _PLAN)
            connection.commit()
            return lambda: connection.execute(_SQL["read_applied"])

        yield run


@contextmanager
def _open_sqlite(seed: Seed) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(seed.sqlite)) as connection:
        connection.executescript(_SQL["open_file"])
        connection.create_function("sha256", 2, _receipt_key, deterministic=True)
        yield connection


def _receipt_key(plan_id: str, memory_id: str) -> str:
    return "plan-" + sha256(f"{plan_id}\0{memory_id}".encode()).hexdigest()


def _plan_prune(connection: sqlite3.Connection, cap: int) -> None:
    stale = connection.execute(_SQL["plan_stale"], _PLAN | _CLOCKS).rowcount
    row = connection.execute(_SQL["count_prune"], _CLOCKS).fetchone()
    visible, protected, graced = (count or 0 for count in row)
    candidates = visible - protected - graced - stale
    over_cap = loops.count_over_cap(cap, protected=protected, graced=graced, candidates=candidates)
    connection.execute(_SQL["plan_over_cap"], _PLAN | _CLOCKS | {"over_cap": over_cap})


@contextmanager
def sweep_loop(seed: Seed) -> Iterator[Work]:
    """Loop over a list of tuples."""
    rows = _read_tuples(seed)
    yield lambda: _pairs(loops.decide_sweep(rows))


@contextmanager
def prune_loop(seed: Seed) -> Iterator[Work]:
    """Loop over a list of tuples, then select the worst candidates with a heap."""
    rows = _read_tuples(seed)
    yield lambda: _pairs(loops.decide_prune(rows, seed.cap))


@contextmanager
def sweep_models(seed: Seed) -> Iterator[Work]:
    """Validate a frozen model per row, then loop."""
    records = [dict(zip(loops.FIELDS, row, strict=True)) for row in _read_tuples(seed)]
    as_row = attrgetter(*loops.FIELDS)

    def run() -> Read:
        models = [RuleModel.model_validate(record) for record in records]
        return _pairs(loops.decide_sweep(map(as_row, models)))

    yield run


@contextmanager
def sweep_dicts(seed: Seed) -> Iterator[Work]:
    """Loop over a dict store: every column of every memory, by id."""
    store = _read_store(seed)
    as_row = itemgetter(*loops.FIELDS)
    yield lambda: _pairs(loops.decide_sweep(map(as_row, store.values())))


@contextmanager
def prune_dicts(seed: Seed) -> Iterator[Work]:
    """Loop over a dict store: every column of every memory, by id."""
    store = _read_store(seed)
    as_row = itemgetter(*loops.FIELDS)
    yield lambda: _pairs(loops.decide_prune(map(as_row, store.values()), seed.cap))


def _pairs(decided: Iterable[loops.Decision]) -> Read:
    return lambda: (decision[:2] for decision in decided)


def _read_tuples(seed: Seed) -> list[loops.RuleRow]:
    rows: list[loops.RuleRow] = []
    for batch in read_batches(seed):
        rows += zip(*(batch.column(name).to_pylist() for name in loops.FIELDS), strict=True)
    return rows


def _read_store(seed: Seed) -> dict[str, dict[str, Any]]:
    store: dict[str, dict[str, Any]] = {}
    for batch in read_batches(seed):
        store |= {record["id"]: record for record in batch.to_pylist()}
    return store


def read_batches(seed: Seed) -> Iterator[pa.RecordBatch]:
    """Read the rows of a seed batch by batch, all columns."""
    with pa.OSFile(str(seed.arrow)) as file, pa.ipc.open_file(file) as reader:
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
