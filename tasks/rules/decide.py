"""Run the rules: policy, now and the stored facts give decisions, counters and verdicts.

Every rule is one named SQL statement with parameters only; cut-offs are computed here, once.
The same facts, policy and now give the same table in the same order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from storage import StoreReader
from storage.queries import read_statements
from tasks.policies import PrunePolicy, SweepPolicy

_PRUNE = read_statements("tasks.rules", "prune")
_SWEEP = read_statements("tasks.rules", "sweep")
_INSTANT = pa.timestamp("us", tz="UTC")
_LONGEST_GRACE_US = 2**62

DECISION_SCHEMA = pa.schema(
    [
        ("memory_id", pa.string()),
        ("reason", pa.string()),
        ("expected_revision", pa.int64()),
        ("status", pa.string()),
        ("pinned", pa.bool_()),
        ("importance", pa.float32()),
        ("salience", pa.float32()),
        ("access_count", pa.int64()),
        ("last_accessed_at", _INSTANT),
        ("expires_at", _INSTANT),
        ("tombstoned_at", _INSTANT),
        ("figures", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a rule says about a namespace: the counters and, in order of apply, the decisions."""

    counters: dict[str, int]
    decisions: pa.Table


def decide_prune(
    reader: StoreReader, policy: PrunePolicy, *, namespace_id: int, now: datetime
) -> Verdicts:
    """Decide which memories of a namespace are stale or over the cap.

    Source: spec/prune.md R4-R14.

    Args:
        reader: An open shared handle; nothing is written.
        policy: Ages in days, importance 0..1; both comparisons of staleness are strict.
        namespace_id: The only namespace that is read.
        now: The instant the run was scheduled for, aware.

    Returns:
        The counters of R23 and DECISION_SCHEMA: stale rows by id, then rows over the cap by rank.
    """
    params = _prune_params(policy, namespace_id, now)
    reader.define(_PRUNE["define_prune"])
    counts = reader.records(_PRUNE["count_prune"], params)[0]
    counters = _count_cap(counts, policy)
    over_cap = counters["over_cap"]
    cut = None
    if over_cap:
        share = {"over_cap": over_cap, "candidates": counts["candidates"]}
        cut = reader.rows(_PRUNE["cut_prune"], params | share)[0][0]
    shown = {"max_age_days": policy.max_age_days, "over_cap": over_cap, "cut": cut}
    decisions = reader.table(_PRUNE["decide_prune"], params | shown).cast(DECISION_SCHEMA)
    return Verdicts(counters, decisions)


def count_over_cap(
    reader: StoreReader, policy: PrunePolicy, *, namespace_id: int, now: datetime
) -> int:
    """Count how many rows the cap still has to remove from the rows as they are now (R9, R17)."""
    reader.define(_PRUNE["define_prune"])
    counts = reader.records(_PRUNE["count_prune"], _prune_params(policy, namespace_id, now))[0]
    return _count_cap(counts, policy)["over_cap"]


def explain_prune(
    reader: StoreReader, policy: PrunePolicy, *, namespace_id: int, now: datetime
) -> pa.Table:
    """Give every visible memory its verdict, figures and protections, ordered by memory_id."""
    params = _prune_params(policy, namespace_id, now)
    reader.define(_PRUNE["define_prune"])
    counters = _count_cap(reader.records(_PRUNE["count_prune"], params)[0], policy)
    return reader.table(_PRUNE["explain_prune"], params | {"over_cap": counters["over_cap"]})


def decide_sweep(
    reader: StoreReader, policy: SweepPolicy, *, namespace_id: int, now: datetime
) -> Verdicts:
    """Decide what has expired, what is cold and which tombstones are due.

    Source: spec/sweep.md R4-R13. Ancestors are not in it: lineage adds them.

    Args:
        reader: An open shared handle; nothing is written.
        policy: Decay per day, half-lives in days; the score is compared strictly.
        namespace_id: The only namespace that is read.
        now: The instant the run was scheduled for, aware.

    Returns:
        The counters of R22 and DECISION_SCHEMA: expired, cold, purge, each by id.
    """
    params = _sweep_params(policy, namespace_id, now)
    reader.define(_SWEEP["define_sweep"])
    counters = reader.records(_SWEEP["count_sweep"], params)[0]
    shown = {
        "half_life_kinds": sorted(policy.half_life_days),
        "hard_delete_after_days": policy.hard_delete_after_days,
    }
    decisions = reader.table(_SWEEP["decide_sweep"], params | shown).cast(DECISION_SCHEMA)
    return Verdicts(counters, decisions)


def explain_sweep(
    reader: StoreReader, policy: SweepPolicy, *, namespace_id: int, now: datetime
) -> pa.Table:
    """Give every memory its verdict, score and forecast, ordered by memory_id (R10, R12)."""
    reader.define(_SWEEP["define_sweep"])
    params = _sweep_params(policy, namespace_id, now)
    return reader.table(
        _SWEEP["explain_sweep"], params | {"half_life_kinds": sorted(policy.half_life_days)}
    )


def warn_sweep(
    reader: StoreReader, policy: SweepPolicy, *, namespace_id: int, now: datetime
) -> list[str]:
    """Name pinned rows that expire all the same and rows that cannot be scored (R5, R9)."""
    reader.define(_SWEEP["define_sweep"])
    rows = reader.rows(_SWEEP["warn_sweep"], _sweep_params(policy, namespace_id, now))
    return [row[0] for row in rows]


def _prune_params(policy: PrunePolicy, namespace_id: int, now: datetime) -> dict[str, object]:
    grace_us = math.ceil(min(policy.min_age_hours * 3.6e9, _LONGEST_GRACE_US))
    return {
        "namespace_id": namespace_id,
        "now": now,
        "stale_before": now - timedelta(days=policy.max_age_days),
        "min_importance": policy.min_importance_to_keep,
        "protect_curated": policy.protect_curated,
        "grace_us": grace_us,
        "cap_order": policy.cap_order,
    }


def _count_cap(counts: Mapping[str, int], policy: PrunePolicy) -> dict[str, int]:
    """Split the candidates into rows over the cap and rows that stay (R9, R13)."""
    stays = counts["kept_protected"] + counts["kept_grace"] + counts["candidates"]
    over_cap = 0
    is_capped = policy.max_items > 0
    if is_capped and stays > policy.max_items:
        room = max(0, policy.max_items - counts["kept_protected"])
        over_cap = max(0, counts["candidates"] - room)
    unreachable = max(0, stays - over_cap - policy.max_items) if is_capped else 0
    kept = {name: counts[name] for name in ("kept_protected", "kept_grace")}
    return {
        "scanned": counts["scanned"],
        "inactive": counts["inactive"],
        "expired_pending": counts["expired_pending"],
        "visible": counts["stale"] + stays,
        "stale": counts["stale"],
        "over_cap": over_cap,
        **kept,
        "kept_other": counts["candidates"] - over_cap,
        "cap_unreachable": unreachable,
        "clock_anomaly": counts["clock_anomaly"],
    }


def _sweep_params(policy: SweepPolicy, namespace_id: int, now: datetime) -> dict[str, object]:
    def decay(kind: str) -> float:
        half_life = policy.half_life_days.get(kind)  # type: ignore[call-overload]
        return math.log(2) / half_life if half_life else policy.lambda_per_day

    kinds = ("episodic", "procedural", "working")
    return {
        "namespace_id": namespace_id,
        "now": now,
        "ttl": policy.ttl,
        "purge_before": now - timedelta(days=policy.hard_delete_after_days),
        **{f"evicts_{kind}": kind in policy.evict_kinds for kind in kinds},
        **{f"decay_{kind}": decay(kind) for kind in kinds},
        "salience_default": policy.salience_default,
        "sigma": policy.sigma,
        "mu": policy.mu,
        "breadth_weight": policy.breadth_weight,
        "cold_threshold": policy.cold_threshold,
    }
