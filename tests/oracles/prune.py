"""The prune rule in scalar code, in the order of operations of spec/prune.md.

Only comparisons of ints, 32-bit floats and doubles made by `math` decide.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict, cast

from oracles.rows import (
    BLANKS,
    DAY_US,
    PIN_WORDS,
    Decision,
    Namespace,
    Plan,
    Row,
    age_clock,
    carry_ancestors,
    count_verdicts,
    days_since,
    f32,
    is_expired,
    judge_limits,
    mark_keys,
    mark_tags,
    word,
)

TAG_WORDS = PIN_WORDS | {"consolidated", "conflict"}
LINKS = frozenset({"supersedes", "conflicts_with"})
MIN_ACCESS_COUNT = 3
VISIBLE = ("stale", "over_cap", "kept_protected", "kept_grace", "kept_other")
VERDICTS = ("inactive", "expired_pending", *VISIBLE, "carried")


class PruneFields(TypedDict):
    """The fields of PrunePolicy."""

    max_age_days: int
    min_importance_to_keep: float
    max_items: int
    cap_order: str
    protect_curated: bool
    min_age_hours: float
    mode: str


class Relevance(NamedTuple):
    """The score that ranks rows for the cap, and its two terms."""

    relevance: float
    importance_term: float
    recency_term: float


def relevance(importance: float, age_days: float) -> Relevance:
    """Score importance and recency; 30 days is an e-folding time (R8)."""
    importance_term = importance * 0.7
    recency_term = math.exp(-age_days / 30.0) * 0.3
    return Relevance(importance_term + recency_term, importance_term, recency_term)


def plan_prune(
    rows: Sequence[Row], policy: Mapping[str, object], now: int, namespace: Namespace
) -> Plan:
    """Decide which rows of a namespace go, by age and importance and then by the cap.

    Source: spec/prune.md R4-R15, R19, R23, section 4.
    """
    fields = cast("PruneFields", policy)
    scope = [row for row in rows if row.namespace == namespace]
    verdicts = {row.id: _verdict_before_cap(row, fields, now) for row in scope}
    ranks = _rank_over_cap(scope, verdicts, fields, now)
    verdicts.update(dict.fromkeys(ranks, "over_cap"))
    decided = [row for row in scope if verdicts[row.id] in {"stale", "over_cap"}]
    decided.sort(key=lambda row: (verdicts[row.id] != "stale", row.id))
    decisions = [_decide(row, ranks.get(row.id), fields, now) for row in decided]
    if fields["mode"] == "delete":
        verdicts.update(_add_carries(decisions, scope))
    visible = [row for row in scope if verdicts[row.id] in VISIBLE]
    anomalies = {row.id: [age_clock(row).field] for row in visible if age_clock(row).at > now}
    counters = _count(verdicts, fields["max_items"]) | {"clock_anomaly": len(anomalies)}
    unreachable = counters["cap_unreachable"]
    return Plan(
        decisions=decisions,
        verdicts=verdicts,
        figures={row.id: _figures(row, now) for row in visible},
        counters=counters,
        warnings=[f"cap_unreachable:{unreachable}"] if unreachable else [],
        protections={
            row.id: protections(row, is_curated_kept=fields["protect_curated"])
            for row in visible
            if verdicts[row.id] == "kept_protected"
        },
        clock_anomaly=anomalies,
    )


def guard(
    plan: Plan,
    limits: Mapping[str, object],
    *,
    plan_id: str = "",
    confirm_plan_id: str | None = None,
) -> dict[str, object]:
    """Judge a plan before its first write (R18); `applied` counts what may be applied."""
    visible, planned = plan.counters["visible"], len(plan.decisions)
    judgement = judge_limits(
        limits,
        visible=visible,
        fraction_rows=planned,
        all_rows=planned + plan.counters["carried"],
        is_confirmed=None if confirm_plan_id is None else confirm_plan_id == plan_id,
    )
    return {
        "visible": visible,
        "planned": planned,
        "allowed": judgement.allowed,
        "refused": judgement.is_refused,
        "limit": judgement.limit,
        "applied": 0 if judgement.is_refused else planned,
    }


def protections(row: Row, *, is_curated_kept: bool) -> list[str]:
    """List what exempts a row from both phases, in the order of R5, equal sorts by name."""
    found = ["pinned"] if row.pinned else []
    if is_curated_kept:
        found += ["access_count"] if row.access_count >= MIN_ACCESS_COUNT else []
        found += sorted(f"tag:{tag}" for tag in mark_tags(row, TAG_WORDS))
        found += sorted(f"metadata:{key}" for key in mark_keys(row) | _link_keys(row))
        found += sorted({f"relation:{kind}" for kind, _ in row.relations if kind in LINKS})
    return found


def _link_keys(row: Row) -> set[str]:
    return {word(key) for key, value in row.metadata.items() if value.strip(BLANKS)} & LINKS


def _verdict_before_cap(row: Row, fields: PruneFields, now: int) -> str:
    if row.status != "active":
        return "inactive"
    if is_expired(row, now):
        return "expired_pending"
    if protections(row, is_curated_kept=fields["protect_curated"]):
        return "kept_protected"
    if _is_stale(row, fields, now):
        return "stale"
    return "kept_grace" if _is_graced(row, fields, now) else "kept_other"


def _is_stale(row: Row, fields: PruneFields, now: int) -> bool:
    is_unimportant = row.importance < f32(fields["min_importance_to_keep"])
    return is_unimportant and age_clock(row).at < now - fields["max_age_days"] * DAY_US


def _is_graced(row: Row, fields: PruneFields, now: int) -> bool:
    return abs(now - age_clock(row).at) < fields["min_age_hours"] * 3_600_000_000


def _rank_over_cap(
    scope: Sequence[Row], verdicts: Mapping[str, str], fields: PruneFields, now: int
) -> dict[str, int]:
    """Rank the rows that the cap removes, 1 = first to go (R9)."""
    counts = count_verdicts(verdicts.values(), VISIBLE)
    left = sum(counts.values()) - counts["stale"]
    if fields["max_items"] == 0 or left <= fields["max_items"]:
        return {}
    room = max(0, fields["max_items"] - counts["kept_protected"])
    best_first = sorted(
        (row for row in scope if verdicts[row.id] == "kept_other"),
        key=lambda row: _cap_order(row, fields["cap_order"], now),
    )
    return {row.id: rank for rank, row in enumerate(reversed(best_first[room:]), start=1)}


def _cap_order(row: Row, cap_order: str, now: int) -> tuple[bool, float, int, int, str]:
    """Order candidates best first (R10); those with a clock in the future come last (R12)."""
    clock = age_clock(row).at
    if cap_order == "importance_recency":
        return clock > now, -row.importance, -clock, -row.created_at, row.id
    score = relevance(row.importance, days_since(clock, now)).relevance
    return clock > now, -score, -row.created_at, 0, row.id


def _decide(row: Row, rank: int | None, fields: PruneFields, now: int) -> Decision:
    clock = age_clock(row)
    age_days = days_since(clock.at, now)
    decision: Decision = {
        "id": row.id,
        "reason": "stale" if rank is None else "over_cap",
        "action": fields["mode"],
        "expected_revision": row.revision,
        "importance": row.importance,
        "age_days": age_days,
        "age_clock": clock.field,
    }
    if clock.at > now:
        decision["clock_anomaly"] = True
    if rank is not None:
        return decision | {"rank": rank} | relevance(row.importance, age_days)._asdict()
    return decision | {
        "max_age_days": fields["max_age_days"],
        "min_importance_to_keep": fields["min_importance_to_keep"],
    }


def _add_carries(decisions: Sequence[Decision], scope: Sequence[Row]) -> dict[str, str]:
    """Write `carries` into each decision and return the verdicts of the carried rows (R19).

    Heads stand in the order of apply: stale by id, then over_cap by rank.
    """
    in_apply_order = sorted(decisions, key=lambda decision: cast("int", decision.get("rank", 0)))
    carries = carry_ancestors(scope, [str(decision["id"]) for decision in in_apply_order])
    for decision in decisions:
        decision["carries"] = carries[str(decision["id"])]
    return {ancestor: "carried" for ancestors in carries.values() for ancestor in ancestors}


def _figures(row: Row, now: int) -> dict[str, object]:
    clock = age_clock(row)
    age_days = days_since(clock.at, now)
    figures: dict[str, object] = {
        "age_days": age_days,
        "age_clock": clock.field,
        "relevance": relevance(row.importance, age_days).relevance,
    }
    return figures | {"clock_anomaly": True} if clock.at > now else figures


def _count(verdicts: Mapping[str, str], max_items: int) -> dict[str, int]:
    counts = count_verdicts(verdicts.values(), VERDICTS)
    visible = sum(counts[name] for name in VISIBLE)
    staying = visible - counts["stale"] - counts["over_cap"]
    return counts | {
        "scanned": len(verdicts),
        "visible": visible,
        "cap_unreachable": max(0, staying - max_items) if max_items else 0,
    }
