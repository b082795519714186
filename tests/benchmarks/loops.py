"""The rules as plain loops over tuples: the best that Python does in one process.

They decide what the data of the benchmark can ask for: default policies, sound clocks, no
relations, no half-lives. Counters, digests and explanations are left out, so they do less.
"""

import heapq
import math
import re
from collections.abc import Iterable
from datetime import timedelta

from benchmarks.data import DAY_US, NOW, NOW_US

from storage.instants import epoch_us

STALE_BEFORE_US = epoch_us(NOW - timedelta(days=90))
PURGE_BEFORE_US = epoch_us(NOW - timedelta(days=180))
GRACE_US = 3_600_000_000
# The columns that the rules read, in the order of the tuples; instants are UTC microseconds.
FIELDS = (
    "id", "revision", "kind", "status", "importance", "salience", "pinned", "expires_at", "marks",
    "created_at", "content_at", "restored_at", "tombstoned_at", "last_accessed_at", "access_count",
)  # fmt: skip
_PIN = re.compile(r'"(?:tag|metadata):(?:keep|pinned|protected)"')

RuleRow = tuple[
    str, int, str, str, float, float | None, bool, int | None, str,
    int, int, int | None, int | None, int | None, int,
]  # fmt: skip
# Reason, id, expected revision, the fence, days of age, score.
Decision = tuple[
    str, str, int, str, bool, float, float | None, int, int | None, int | None, int | None,
    float, float | None,
]  # fmt: skip


def decide_sweep(rows: Iterable[RuleRow]) -> list[Decision]:  # noqa: C901 - calls cost
    """Decide what is expired, cold or due (spec/sweep.md R4-R11), unsorted."""
    decided: list[Decision] = []
    add, exp, log, is_pin = decided.append, math.exp, math.log, _PIN.search
    for (
        id_, revision, kind, status, importance, salience, pinned, expires_at, marks,
        created_at, content_at, restored_at, tombstoned_at, accessed_at, count,
    ) in rows:  # fmt: skip
        score: float | None = None
        age_at = content_at if content_at > created_at else created_at  # noqa: FURB136 - speed
        if restored_at is not None and restored_at > age_at:
            age_at = restored_at
        age_days = (NOW_US - age_at) / DAY_US
        if expires_at is not None and expires_at <= NOW_US:
            reason = "expired"
        elif status == "tombstoned":
            if tombstoned_at is None or tombstoned_at > PURGE_BEFORE_US:
                continue
            reason = "purge"
        elif status != "active" or kind != "episodic" or pinned or is_pin(marks):
            continue
        else:
            score = (1.0 if salience is None else salience) * exp(-0.02 * age_days)
            if accessed_at is not None:
                days = (NOW_US - accessed_at) / DAY_US
                score += 0.6 * log(1 + count) * exp(-0.04 * days)
            if score >= 0.2:
                continue
            reason = "cold"
        add((
            reason, id_, revision, status, pinned, importance, salience, count, accessed_at,
            expires_at, tombstoned_at, age_days, score,
        ))  # fmt: skip
    return decided


def decide_prune(rows: Iterable[RuleRow], cap: int) -> list[Decision]:
    """Decide what is stale or over the cap (spec/prune.md R4-R11), unsorted."""
    decided: list[Decision] = []
    candidates: list[tuple[float, int, str, float, RuleRow]] = []
    protected = graced = 0
    exp = math.exp
    for row in rows:
        (
            id_, revision, _, status, importance, salience, pinned, expires_at, marks,
            created_at, content_at, restored_at, tombstoned_at, accessed_at, count,
        ) = row  # fmt: skip
        if status != "active" or (expires_at is not None and expires_at <= NOW_US):
            continue
        if pinned or count >= 3 or marks != "[]":
            protected += 1
            continue
        age_at = content_at if content_at > created_at else created_at  # noqa: FURB136 - speed
        if restored_at is not None and restored_at > age_at:
            age_at = restored_at
        age_days = (NOW_US - age_at) / DAY_US
        if importance < 0.5 and age_at < STALE_BEFORE_US:
            decided.append((
                "stale", id_, revision, status, pinned, importance, salience, count, accessed_at,
                expires_at, tombstoned_at, age_days, None,
            ))  # fmt: skip
        elif NOW_US - age_at < GRACE_US:
            graced += 1
        else:
            relevance = importance * 0.7 + exp(-age_days / 30.0) * 0.3
            candidates.append((relevance, created_at, id_, age_days, row))
    over_cap = count_over_cap(cap, protected=protected, graced=graced, candidates=len(candidates))
    for relevance, _, id_, age_days, row in heapq.nsmallest(over_cap, candidates):
        fence = (row[1], row[3], row[6], row[4], row[5], row[14], row[13], row[7], row[12])
        decided.append(("over_cap", id_, *fence, age_days, relevance))
    return decided


def count_over_cap(cap: int, *, protected: int, graced: int, candidates: int) -> int:
    """Count the candidates that have to go (spec/prune.md R9)."""
    if protected + graced + candidates <= cap:
        return 0
    return max(0, candidates - max(0, cap - protected))
