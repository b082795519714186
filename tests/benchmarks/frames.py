"""polars as a peer: the same decisions by expressions over a frame in memory.

It is no dependency of the project and is imported only where it is measured.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pyarrow as pa
from benchmarks import loops
from benchmarks.data import DAY_US, NOW_US, Seed
from benchmarks.peers import read_batches
from benchmarks.work import Read, Work


@contextmanager
def sweep_polars(seed: Seed) -> Iterator[Work]:
    """Filter a frame in memory by one expression."""
    pl = import_polars()
    frame = _read_frame(pl, seed)
    col = pl.col

    def run() -> Read:
        accessed = (
            0.6 * (1 + col("access_count")).log() * (-0.04 * _days(pl, "last_accessed_at")).exp()
        )
        score = (
            col("salience").cast(pl.Float64).fill_null(1.0) * (-0.02 * _days(pl, "age_at")).exp()
        )
        is_expired = (col("expires_at") <= NOW_US).fill_null(value=False)
        is_due = (col("status") == "tombstoned") & (col("tombstoned_at") <= loops.PURGE_BEFORE_US)
        is_pinned = col("pinned") | col("marks").str.contains(
            "(?:tag|metadata):(?:keep|pinned|protected)"
        )
        may_go = (col("status") == "active") & (col("kind") == "episodic") & ~is_pinned
        is_cold = may_go & (score + accessed.fill_null(0.0) < 0.2)
        reason = (
            pl.when(is_expired).then(pl.lit("expired"))
            .when(is_due.fill_null(value=False)).then(pl.lit("purge"))
            .when(is_cold).then(pl.lit("cold"))
        )  # fmt: skip
        lazy = frame.lazy().with_columns(_age_at(pl)).with_columns(reason=reason, score=score)
        decided = lazy.filter(col("reason").is_not_null()).collect()
        return lambda: decided.select("reason", "id").iter_rows()

    yield run


@contextmanager
def prune_polars(seed: Seed) -> Iterator[Work]:
    """Filter a frame in memory, then select the worst candidates."""
    pl = import_polars()
    frame = _read_frame(pl, seed)
    col = pl.col

    def run() -> Read:
        is_live = (col("status") == "active") & (
            col("expires_at").is_null() | (col("expires_at") > NOW_US)
        )
        visible = frame.lazy().filter(is_live).with_columns(_age_at(pl)).collect()
        is_protected = col("pinned") | (col("access_count") >= 3) | (col("marks") != "[]")
        free = visible.filter(~is_protected)
        is_stale = (col("importance") < 0.5) & (col("age_at") < loops.STALE_BEFORE_US)
        is_graced = NOW_US - col("age_at") < loops.GRACE_US
        stale = free.filter(is_stale)
        left = free.filter(~is_stale)
        candidates = left.filter(~is_graced)
        over_cap = loops.count_over_cap(
            seed.cap,
            protected=visible.height - free.height,
            graced=left.height - candidates.height,
            candidates=candidates.height,
        )
        importance = col("importance").cast(pl.Float64) * 0.7
        relevance = importance + (-_days(pl, "age_at") / 30.0).exp() * 0.3
        ranked = candidates.with_columns(relevance=relevance)
        worst = ranked.bottom_k(over_cap, by=["relevance", "created_at"])
        return lambda: (
            *(("stale", id_) for id_ in stale["id"]),
            *(("over_cap", id_) for id_ in worst["id"]),
        )

    yield run


def import_polars() -> ModuleType:
    """Import polars, which is no dependency of the project.

    Raises:
        ImportError: It is not installed.
    """
    return importlib.import_module("polars")


def _read_frame(pl: ModuleType, seed: Seed) -> Any:  # noqa: ANN401 - polars may be missing, so it has no types
    table = pa.Table.from_batches(read_batches(seed)).select(loops.FIELDS)
    return pl.from_arrow(table, rechunk=True)


def _age_at(pl: ModuleType) -> Any:  # noqa: ANN401 - polars may be missing, so it has no types
    return pl.max_horizontal("created_at", "content_at", "restored_at").alias("age_at")


def _days(pl: ModuleType, name: str) -> Any:  # noqa: ANN401 - polars may be missing, so it has no types
    return (NOW_US - pl.col(name)) / DAY_US
