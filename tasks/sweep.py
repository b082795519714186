"""sweep: delete what has expired, retire what nobody uses, purge old tombstones."""

from datetime import datetime

from storage import StoreReader
from storage.namespaces import StoredNamespace
from storage.plans import Plan
from tasks.planning import PlanInput, make_plan
from tasks.policies import SweepPolicy
from tasks.rules.decide import decide_sweep, warn_sweep

_ACTIONS = {"expired": "delete", "cold": "tombstone", "purge": "purge"}


def plan_sweep(
    reader: StoreReader, policy: SweepPolicy, *, namespace: StoredNamespace, now: datetime
) -> Plan:
    """Plan a sweep: expired, cold and purge, ancestors included, none left out.

    Source: spec/sweep.md R12-R14.

    Args:
        reader: An open shared handle; nothing is written.
        policy: Decay, threshold, retention.
        namespace: The only namespace that is read.
        now: The decision clock, aware.

    Returns:
        The plan with its decisions in the order of apply.
    """
    verdicts = decide_sweep(reader, policy, namespace_id=namespace.namespace_id, now=now)
    idle = sorted(policy.half_life_days.keys() - policy.evict_kinds)
    warnings = [f"half_life_without_effect:{kind}" for kind in idle]
    if verdicts.counters["expired"] or verdicts.counters["unscorable"]:
        warnings += warn_sweep(reader, policy, namespace_id=namespace.namespace_id, now=now)
    return make_plan(
        reader,
        PlanInput("sweep", namespace, now, policy.model_dump(mode="json")),
        verdicts,
        actions=_ACTIONS,
        warnings=warnings,
    )
