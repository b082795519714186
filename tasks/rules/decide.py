"""Run the rules: policy, now and the stored facts give decisions, counters and verdicts.

Every rule is one named SQL statement with parameters only; cut-offs are computed here, once.
The same facts, policy and now give the same table in the same order.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from storage import StoreReader
from storage.queries import read_statements
from tasks.policies import PrunePolicy, SweepPolicy

_PRUNE = read_statements("tasks.rules", "prune")
_SWEEP = read_statements("tasks.rules", "sweep")
_SCOPE = read_statements("tasks.rules", "scope")
_PRUNE_VISIBLE = ("stale", "kept_protected", "kept_grace", "candidate")
_VISIBLE = ("cold", "kept_hot", "exempt_kind", "exempt_pinned", "unscorable")
_SWEEP_VERDICTS = (
    *_VISIBLE,
    "expired",
    "purge",
    "expired_pending",
    "tombstone_waiting",
    "inactive",
)
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


@dataclass(frozen=True, slots=True)
class _Judged:
    """One pass over a namespace: per verdict how many rows, how many ahead of `now`, which ones."""

    counts: dict[str, int]
    ahead: dict[str, int]
    picked: pa.ChunkedArray

    def rows(self, verdict: str) -> int:
        return self.counts.get(verdict, 0)


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
    judged = _judge_prune(reader, params)
    counters = _count_cap(judged, policy)
    picked = [_picked(judged)]
    if counters["over_cap"]:
        share = {"over_cap": counters["over_cap"], "candidates": judged.rows("candidate")}
        cut = reader.rows(_PRUNE["cut_prune"], {**params, **share})[0][0]
        picked.append(reader.table(_PRUNE["pick_prune"], {**params, "cut": cut}))
    shown = {"max_age_days": policy.max_age_days, "over_cap": counters["over_cap"]}
    _scope_picked(reader, pa.concat_tables(picked))
    decisions = reader.table(_PRUNE["decide_prune"], {**params, **shown}).cast(DECISION_SCHEMA)
    return Verdicts(counters, decisions)


def count_over_cap(
    reader: StoreReader, policy: PrunePolicy, *, namespace_id: int, now: datetime
) -> int:
    """Count how many rows the cap still has to remove from the rows as they are now (R9, R17)."""
    judged = _judge_prune(reader, _prune_params(policy, namespace_id, now))
    return _count_cap(judged, policy)["over_cap"]


def explain_prune(
    reader: StoreReader, policy: PrunePolicy, *, namespace_id: int, now: datetime
) -> pa.Table:
    """Give every visible memory its verdict, figures and protections, ordered by memory_id."""
    params = _prune_params(policy, namespace_id, now)
    over_cap = _count_cap(_judge_prune(reader, params), policy)["over_cap"]
    return reader.table(_PRUNE["explain_prune"], {**params, "over_cap": over_cap})


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
    judged = _judge(reader, _SWEEP, "sweep", params)
    shown = {
        "half_life_kinds": sorted(policy.half_life_days),
        "hard_delete_after_days": policy.hard_delete_after_days,
    }
    _scope_picked(reader, _picked(judged))
    decisions = reader.table(_SWEEP["decide_sweep"], params | shown).cast(DECISION_SCHEMA)
    return Verdicts(_count_verdicts(judged), decisions)


def count_sweep(
    reader: StoreReader, policy: SweepPolicy, *, namespace_id: int, now: datetime
) -> dict[str, int]:
    """Count the memories of a namespace by verdict, without the decisions (R22)."""
    params = _sweep_params(policy, namespace_id, now)
    return _count_verdicts(_judge(reader, _SWEEP, "sweep", params))


def _count_verdicts(judged: _Judged) -> dict[str, int]:
    verdicts = {name: judged.rows(name) for name in _SWEEP_VERDICTS}
    visible = sum(verdicts[name] for name in _VISIBLE)
    return {"scanned": sum(verdicts.values()), "visible": visible, **verdicts}


def explain_sweep(
    reader: StoreReader, policy: SweepPolicy, *, namespace_id: int, now: datetime
) -> pa.Table:
    """Give every memory its verdict, score and forecast, ordered by memory_id (R10, R12)."""
    _scope_all(reader, _SWEEP["define_sweep"])
    params = _sweep_params(policy, namespace_id, now)
    return reader.table(
        _SWEEP["explain_sweep"], params | {"half_life_kinds": sorted(policy.half_life_days)}
    )


def warn_sweep(
    reader: StoreReader, policy: SweepPolicy, *, namespace_id: int, now: datetime
) -> list[str]:
    """Name pinned rows that expire all the same and rows that cannot be scored (R5, R9)."""
    _scope_all(reader, _SWEEP["define_sweep"])
    rows = reader.rows(_SWEEP["warn_sweep"], _sweep_params(policy, namespace_id, now))
    return [row[0] for row in rows]


def _judge_prune(reader: StoreReader, params: Mapping[str, object]) -> _Judged:
    return _judge(reader, _PRUNE, "prune", params)


def _judge(
    reader: StoreReader, statements: Mapping[str, str], job: str, params: Mapping[str, object]
) -> _Judged:
    _scope_all(reader, statements[f"define_{job}"])
    table = reader.table(statements[f"judge_{job}"], params)
    verdicts = table.column("verdict").to_pylist()
    counts = dict(zip(verdicts, table.column("rows").to_pylist(), strict=True))
    ahead: dict[str, int] = {}
    if "ahead" in table.column_names:
        ahead = dict(zip(verdicts, table.column("ahead").to_pylist(), strict=True))
    return _Judged(counts, ahead, pc.list_flatten(table.column("picked")))


def _picked(judged: _Judged) -> pa.Table:
    return pa.table({"row_no": judged.picked.cast(pa.int64())})


def _scope_all(reader: StoreReader, macros: str) -> None:
    """Let the macros of a rule read every memory."""
    reader.define(_SCOPE["scope_all"])
    reader.define(macros)


def _scope_picked(reader: StoreReader, rows: pa.Table) -> None:
    """Let the macros of a rule read only the picked rows (row_no, of this transaction)."""
    reader.table(_SCOPE["pick_rows"], incoming=rows)
    reader.define(_SCOPE["scope_picked"])


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


def _count_cap(judged: _Judged, policy: PrunePolicy) -> dict[str, int]:
    """Split the candidates into rows over the cap and rows that stay (R9, R13)."""
    candidates, protected = judged.rows("candidate"), judged.rows("kept_protected")
    stays = protected + judged.rows("kept_grace") + candidates
    over_cap = 0
    is_capped = policy.max_items > 0
    if is_capped and stays > policy.max_items:
        room = max(0, policy.max_items - protected)
        over_cap = max(0, candidates - room)
    unreachable = max(0, stays - over_cap - policy.max_items) if is_capped else 0
    names = ("inactive", "expired_pending", "stale", "kept_protected", "kept_grace")
    counters = {name: judged.rows(name) for name in names}
    hidden = counters["inactive"] + counters["expired_pending"]
    visible = counters["stale"] + stays
    return {
        "scanned": hidden + visible,
        "visible": visible,
        **counters,
        "over_cap": over_cap,
        "kept_other": candidates - over_cap,
        "cap_unreachable": unreachable,
        "clock_anomaly": sum(judged.ahead.get(name, 0) for name in _PRUNE_VISIBLE),
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
