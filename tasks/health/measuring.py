"""The figures about one namespace, or about several together: counted, and then added up.

The sums are the same for one namespace and for all, so that a part and the whole never disagree.
What would go, now and later, is asked of the rules themselves. Source: DESIGN 7, 10.7.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from storage import Store, StoreReader
from storage.health import (
    count_ahead,
    count_duplicates,
    count_index,
    count_states,
    count_uncompared,
)
from storage.namespaces import StoredNamespace
from tasks.health.policy import HealthPolicy
from tasks.rules.decide import count_sweep, decide_prune, warn_sweep

HORIZONS = (7, 30, 90)  # days
_GONE = ("cold", "expired", "purge")
_PINNED = "pinned_expired:"
_NEVER = {"found": None, "remaining": None}

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Counted:
    """What one consistent read says about each namespace, by its number."""

    states: Mapping[int, Mapping[str, int]]
    index: Mapping[int, Mapping[str, Any]]
    ahead: Mapping[int, int]
    uncompared: Mapping[int, int]
    duplicates: Mapping[int, Mapping[str, int]]


def count_all(reader: StoreReader, *, now: datetime) -> Counted:
    """Count what needs no rule, for all namespaces at once."""
    return Counted(
        states=count_states(reader, now=now),
        index=count_index(reader),
        ahead=count_ahead(reader, now=now),
        uncompared=count_uncompared(reader),
        duplicates=count_duplicates(reader),
    )


def measure_namespace(
    store: Store,
    policy: HealthPolicy,
    counted: Counted,
    target: StoredNamespace,
    *,
    now: datetime,
) -> Figures:
    """Give the figures about one namespace.

    A forecast is the sweep of a later day, if nothing is used or changed until then; each is a read
    of its own, so that no writer waits for all of them.
    """
    number = target.namespace_id
    with store.read() as reader:
        due = count_sweep(reader, policy.sweep, namespace_id=number, now=now)
        prune = decide_prune(reader, policy.prune, namespace_id=number, now=now).counters
        warnings = warn_sweep(reader, policy.sweep, namespace_id=number, now=now)
    duplicates = counted.duplicates.get(number, _NEVER)
    index = dict(counted.index[number])
    return {
        "memories": dict(counted.states[number]),
        "index": index,
        "backlog": {
            "sweep": sum(due[name] for name in _GONE),
            "prune": prune["stale"] + prune["over_cap"],
            "consolidate": counted.uncompared.get(number, 0) + (duplicates["remaining"] or 0),
            "refresh": index["pending"],
        },
        "duplicates": dict(duplicates),
        "anomalies": {
            "clock": counted.ahead.get(number, 0),
            "pinned_expired": sum(text.startswith(_PINNED) for text in warnings),
            "unscorable": due["unscorable"],
        },
        "forecast": {
            str(days): _foresee(store, policy, number, now + timedelta(days=days))
            for days in HORIZONS
        },
    }


def _foresee(
    store: Store, policy: HealthPolicy, namespace_id: int, now: datetime
) -> dict[str, int]:
    with store.read() as reader:
        found = count_sweep(reader, policy.sweep, namespace_id=namespace_id, now=now)
    return {name: found[name] for name in _GONE}


def add_up(parts: Iterable[Figures]) -> Figures:
    """Add the figures of namespaces up; shares are those of the sums."""
    listed = list(parts)
    summed: Figures = {
        name: _sum(one[name] for one in listed)
        for name in ("memories", "index", "backlog", "duplicates", "anomalies")
    }
    active = summed["memories"]["active"]
    served = [one["index"] for one in listed if one["index"]["is_served"]]
    index = summed["index"]
    del index["is_served"]
    index["coverage"] = _share(index["embedded"], index["active"], empty=1.0)
    index["served_coverage"] = (
        _share(sum(i["embedded"] for i in served), sum(i["active"] for i in served), empty=1.0)
        if served
        else None
    )
    left = summed["duplicates"]["remaining"]
    summed["duplicates"]["ratio"] = None if left is None else _share(left, active, empty=0.0)
    summed["forecast"] = {
        days: _sum(one["forecast"][days] for one in listed) for days in map(str, HORIZONS)
    }
    for one in summed["forecast"].values():
        one["cold_ratio"] = _share(one["cold"], active, empty=0.0)
    return summed


def _sum(records: Iterable[Mapping[str, int | None]]) -> Figures:
    """Add records of the same names; a value that is unknown everywhere stays unknown."""
    summed: Figures = {}
    for record in records:
        for name, value in record.items():
            before = summed.get(name)
            summed[name] = value if before is None else before + (value or 0)
    return summed


def _share(part: int, whole: int, *, empty: float) -> float:
    return round(part / whole, 6) if whole else empty
