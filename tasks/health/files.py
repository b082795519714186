"""How large the files of a store are, and by how much they grew."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from storage import Store
from storage.compaction import find_leftovers, read_space
from storage.gateway import DATABASE_FILE
from storage.health import read_sizes_before
from storage.index_errors import RefreshError
from storage.retention import Kind, count_old
from storage.vectors import TableFigures, VectorStore
from tasks.janitor import JanitorPolicy

GROWTH_DAYS = 7
_MIB = 2**20
_VECTOR_FIGURES = {
    "vector_rows": "rows",
    "vector_versions": "versions",
    "vector_fragments": "fragments",
    "vector_files": "file_count",
    "vector_bytes": "byte_count",
}

Figures = dict[str, int | float | None]


def measure_files(store: Store, *, clock: datetime) -> Figures:
    """Measure the database and the vector tables; those that cannot be opened are only counted."""
    with store.read() as reader:
        space = read_space(reader)
        before = read_sizes_before(reader, before=clock - timedelta(days=GROWTH_DAYS))
    tables, unreadable = _measure_tables(VectorStore(store.path))
    database_bytes = (store.path / DATABASE_FILE).stat().st_size
    sums: dict[str, int] = {
        name: sum(getattr(one, figure) for one in tables)
        for name, figure in _VECTOR_FIGURES.items()
    }
    sizes: dict[str, int] = {"database_bytes": database_bytes, **sums}
    return {
        **sizes,
        "free_bytes": space.free_bytes,
        "vector_tables": len(tables),
        "unreadable_tables": unreadable,
        "database_mib": round(database_bytes / _MIB, 3),
        "vector_mib": round(sums["vector_bytes"] / _MIB, 3),
        "database_growth_mib": _grow("database_bytes", sizes, before),
        "vector_growth_mib": _grow("vector_bytes", sizes, before),
    }


def _measure_tables(vectors: VectorStore) -> tuple[list[TableFigures], int]:
    tables, unreadable = [], 0
    for name in vectors.tables():
        try:
            tables.append(vectors.figures(name))
        except RefreshError:
            unreadable += 1
    return tables, unreadable


def _grow(name: str, sizes: Mapping[str, int], before: Mapping[str, float]) -> float | None:
    """Compare with the last snapshot of before the window; None: there is none yet."""
    return round((sizes[name] - before[name]) / _MIB, 3) if name in before else None


def count_upkeep(store: Store, *, clock: datetime) -> int:
    """Count what a janitor would take, as far as it is cheap to know: old rows, leftovers."""
    policy = JanitorPolicy()
    days: dict[Kind, int] = {
        "receipts": policy.receipt_days,
        "publications": policy.receipt_days,
        "apply_receipts": policy.receipt_days,
        "plans": policy.plan_days,
        "runs": policy.run_days,
    }
    with store.read() as reader:
        old = sum(
            count_old(reader, kind, before=clock - timedelta(days=kept))
            for kind, kept in days.items()
        )
    return old + len(find_leftovers(store.path))
