"""The sweep rule in scalar code, in the order of operations of spec/sweep.md.

Scores are computed from the stored fields each time, in doubles made by `math`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict, cast

from oracles.rows import (
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
    format_instant,
    is_expired,
    judge_limits,
    mark_keys,
    mark_tags,
)

ACTIONS = {"expired": "delete", "cold": "tombstone", "purge": "purge"}
SCORED = frozenset({"cold", "kept_hot"})
VISIBLE = ("cold", "kept_hot", "exempt_kind", "exempt_pinned", "unscorable")
HIDDEN = ("expired", "purge", "carried", "expired_pending", "tombstone_waiting", "inactive")
MIN_SALIENCE, MAX_SALIENCE = 0.25, 2.0
FEEDBACK_STEPS = {"helpful": 0.25, "not_helpful": -0.25}
FORECAST_DAYS = 36500.0


class SweepFields(TypedDict):
    """The fields of SweepPolicy."""

    cold_threshold: float
    lambda_per_day: float
    half_life_days: Mapping[str, float]
    sigma: float
    mu: float
    salience_default: float
    breadth_weight: float
    hard_delete_after_days: int
    evict_kinds: Iterable[str]
    ttl: bool


class Score(NamedTuple):
    """The score of a row, its terms and what they were computed from."""

    score: float
    time_term: float
    access_term: float
    age_days: float
    days_since_access: float | None
    age_clock: str
    access_clock: str
    lambda_per_day: float
    lambda_source: str


def plan_sweep(
    rows: Sequence[Row], policy: Mapping[str, object], now: int, namespace: Namespace
) -> Plan:
    """Decide which rows of a namespace expire, go cold or are purged.

    Source: spec/sweep.md R4-R13, R22, section 4.
    """
    fields = cast("SweepFields", policy)
    scope = {row.id: row for row in rows if row.namespace == namespace}
    verdicts = {row.id: _verdict(row, fields, now) for row in scope.values()}
    order = sorted((list(ACTIONS).index(v), id_) for id_, v in verdicts.items() if v in ACTIONS)
    decided = [scope[id_] for _, id_ in order]
    heads = [row.id for row in decided if verdicts[row.id] != "cold"]
    carries = carry_ancestors(list(scope.values()), heads)
    verdicts |= {ancestor: "carried" for carried in carries.values() for ancestor in carried}
    figures = {row.id: _figures(row, verdicts[row.id], fields, now) for row in scope.values()}
    anomalies = {row.id: _anomalies(row, verdicts[row.id], now) for row in scope.values()}
    return Plan(
        decisions=[_decide(row, verdicts[row.id], carries) for row in decided],
        verdicts=verdicts,
        figures={id_: figure for id_, figure in figures.items() if figure},
        counters={"scanned": len(scope)} | count_verdicts(verdicts.values(), VISIBLE + HIDDEN),
        warnings=_warnings(decided, verdicts, fields),
        protections={},
        clock_anomaly={id_: names for id_, names in anomalies.items() if names},
    )


def score(row: Row, policy: Mapping[str, object], now: int) -> Score:
    """Score a row by age and use (R8)."""
    fields, clock, accessed_at = cast("SweepFields", policy), age_clock(row), row.last_accessed_at
    age_days = days_since(clock.at, now)
    access_days = None if accessed_at is None else days_since(accessed_at, now)
    rate, rate_source = _decay_rate(row, fields)
    time_term, access_term = _terms(row, fields, age_days, access_days)
    return Score(
        score=time_term + access_term,
        time_term=time_term,
        access_term=access_term,
        age_days=age_days,
        days_since_access=access_days,
        age_clock=clock.field,
        access_clock="none" if accessed_at is None else "last_accessed_at",
        lambda_per_day=rate,
        lambda_source=rate_source,
    )


def days_until_cold(row: Row, policy: Mapping[str, object], now: int) -> float | None:
    """Forecast in how many days the score has fallen to the threshold (R10).

    Returns:
        0 if the score is at the threshold already, None if it is not scored or stays above it for
        36,500 days.
    """
    fields = cast("SweepFields", policy)
    threshold, verdict = fields["cold_threshold"], _verdict(row, fields, now)
    if threshold == 0 or verdict not in SCORED:
        return None
    scored = score(row, policy, now)
    if scored.score <= threshold:
        return 0.0
    if scored.access_term == 0:
        return _time_until(row, fields, now)
    return _bisect_until(row, fields, now)


def apply_feedback(salience: float | None, signal: str, default: float) -> float:
    """Move the salience by one signal and clamp it (R21); NULL starts at the default."""
    start = default if salience is None else salience
    moved = MIN_SALIENCE if signal in {"stale", "wrong"} else start + FEEDBACK_STEPS[signal]
    return min(max(moved, MIN_SALIENCE), MAX_SALIENCE)


def guard(
    plan: Plan,
    limits: Mapping[str, object],
    *,
    plan_id: str = "",
    confirm_plan_id: str | None = None,
) -> dict[str, object]:
    """Judge a plan before its first write (R18): only cold rows count for the fraction."""
    visible = sum(plan.counters[name] for name in VISIBLE)
    total = len(plan.decisions) + plan.counters["carried"]
    judgement = judge_limits(
        limits,
        visible=visible,
        fraction_rows=plan.counters["cold"],
        all_rows=total,
        is_confirmed=None if confirm_plan_id is None else confirm_plan_id == plan_id,
    )
    return {
        "visible": visible,
        "cold": plan.counters["cold"],
        "total": total,
        "allowed": judgement.allowed,
        "refused": judgement.is_refused,
        "limit": judgement.limit,
        "applied": 0 if judgement.is_refused else len(plan.decisions),
    }


def has_pin(row: Row) -> bool:
    """Tell whether a row carries an explicit keep mark (R6)."""
    return row.pinned or bool(mark_tags(row, PIN_WORDS) | mark_keys(row))


def _verdict(row: Row, fields: SweepFields, now: int) -> str:
    """Find the first line of the decision table that matches, lineage left out."""
    if fields["ttl"] and is_expired(row, now):
        return "expired"
    if row.status == "tombstoned":
        return "purge" if _is_due(row, fields, now) else "tombstone_waiting"
    if row.status != "active":
        return "inactive"
    return "expired_pending" if is_expired(row, now) else _verdict_visible(row, fields, now)


def _verdict_visible(row: Row, fields: SweepFields, now: int) -> str:
    if row.kind not in fields["evict_kinds"]:
        return "exempt_kind"
    if has_pin(row):
        return "exempt_pinned"
    salience = _salience(row, fields)
    if not math.isfinite(salience) or salience < 0:
        return "unscorable"
    is_cold = score(row, fields, now).score < fields["cold_threshold"]
    return "cold" if is_cold else "kept_hot"


def _is_due(row: Row, fields: SweepFields, now: int) -> bool:
    due_at = now - fields["hard_delete_after_days"] * DAY_US
    return row.tombstoned_at is not None and row.tombstoned_at <= due_at


def _salience(row: Row, fields: SweepFields) -> float:
    return fields["salience_default"] if row.salience is None else row.salience


def _decay_rate(row: Row, fields: SweepFields) -> tuple[float, str]:
    half_life_days = fields["half_life_days"].get(row.kind)
    if half_life_days is None:
        return fields["lambda_per_day"], "lambda_per_day"
    return math.log(2.0) / half_life_days, f"half_life:{row.kind}"


def _terms(
    row: Row, fields: SweepFields, age_days: float, access_days: float | None
) -> tuple[float, float]:
    rate, _ = _decay_rate(row, fields)
    time_term = _salience(row, fields) * math.exp(-rate * age_days)
    if access_days is None:
        return time_term, 0.0
    access_term = (
        fields["sigma"]
        * math.log(1 + row.access_count)
        * math.exp(-fields["mu"] * access_days)
        * (1 + fields["breadth_weight"] * math.log(max(row.actors, 1)))
    )
    return time_term, access_term


def _time_until(row: Row, fields: SweepFields, now: int) -> float | None:
    """Solve the time term for the threshold, which the score is above."""
    (rate, _), salience = _decay_rate(row, fields), _salience(row, fields)
    if rate == 0:
        return None
    raw_age_days = (now - age_clock(row).at) / 86400000000.0
    days = max(0.0, math.log(salience / fields["cold_threshold"]) / rate - raw_age_days)
    return days if days <= FORECAST_DAYS else None


def _bisect_until(row: Row, fields: SweepFields, now: int) -> float | None:
    """Close in on the first double at which the score, which never rises, is at the threshold."""
    low, high = 0.0, FORECAST_DAYS
    if _score_after(row, fields, now, high) > fields["cold_threshold"]:
        return None
    while low < (middle := (low + high) / 2.0) < high:
        if _score_after(row, fields, now, middle) > fields["cold_threshold"]:
            low = middle
        else:
            high = middle
    return high


def _score_after(row: Row, fields: SweepFields, now: int, days: float) -> float:
    raw_age_days = (now - age_clock(row).at) / 86400000000.0
    accessed_at, access_days = row.last_accessed_at, None
    if accessed_at is not None:
        access_days = max((now - accessed_at) / 86400000000.0 + days, 0.0)
    time_term, access_term = _terms(row, fields, max(raw_age_days + days, 0.0), access_days)
    return time_term + access_term


def _decide(row: Row, reason: str, carries: Mapping[str, list[str]]) -> Decision:
    decision: Decision = {
        "id": row.id,
        "reason": reason,
        "action": ACTIONS[reason],
        "expected_revision": row.revision,
    }
    return decision if reason == "cold" else decision | {"carries": carries[row.id]}


def _figures(row: Row, verdict: str, fields: SweepFields, now: int) -> dict[str, object]:
    if verdict == "expired" and row.expires_at is not None:
        return {"expires_at": format_instant(row.expires_at)}
    if verdict == "purge" and row.tombstoned_at is not None:
        limit = fields["hard_delete_after_days"]
        return {
            "tombstoned_days": days_since(row.tombstoned_at, now),
            "hard_delete_after_days": limit,
        }
    if verdict not in SCORED:
        return {}
    return score(row, fields, now)._asdict() | {
        "threshold": fields["cold_threshold"],
        "days_until_cold": days_until_cold(row, fields, now),
    }


def _anomalies(row: Row, verdict: str, now: int) -> list[str]:
    """List the instants in the future that the verdict rests on (R7)."""
    instants: dict[str, int | None] = {}
    if verdict == "tombstone_waiting":
        instants = {"tombstoned_at": row.tombstoned_at}
    elif verdict in SCORED:
        clock = age_clock(row)
        instants = {clock.field: clock.at, "last_accessed_at": row.last_accessed_at}
    return [field for field, at in instants.items() if at is not None and at > now]


def _warnings(
    decided: Sequence[Row], verdicts: Mapping[str, str], fields: SweepFields
) -> list[str]:
    idle_kinds = set(fields["half_life_days"]) - set(fields["evict_kinds"])
    expired = [row for row in decided if verdicts[row.id] == "expired"]
    return [f"half_life_without_effect:{kind}" for kind in sorted(idle_kinds)] + [
        f"pinned_expired:{row.id}" for row in expired if has_pin(row)
    ]
