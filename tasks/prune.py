"""prune: retire memories that are old and unimportant, and keep a namespace under its cap."""

from datetime import datetime

from storage import StoreReader
from storage.namespaces import StoredNamespace
from storage.plans import Plan, PlanHeader
from tasks.planning import PlanInput, make_plan
from tasks.policies import PrunePolicy
from tasks.rules.decide import count_over_cap, decide_prune


def plan_prune(
    reader: StoreReader, policy: PrunePolicy, *, namespace: StoredNamespace, now: datetime
) -> Plan:
    """Plan a prune: every row that the policy selects, none left out.

    Source: spec/prune.md R14, R15.

    Args:
        reader: An open shared handle; nothing is written.
        policy: What is stale, and the cap.
        namespace: The only namespace that is read.
        now: The decision clock, aware.

    Returns:
        The plan with its decisions in the order of apply.
    """
    verdicts = decide_prune(reader, policy, namespace_id=namespace.namespace_id, now=now)
    unreachable = verdicts.counters["cap_unreachable"]
    return make_plan(
        reader,
        PlanInput("prune", namespace, now, policy.model_dump(mode="json")),
        verdicts,
        actions={"stale": policy.mode, "over_cap": policy.mode},
        warnings=[f"cap_unreachable:{unreachable}"] if unreachable else [],
    )


def allow_prune(reader: StoreReader, plan: PlanHeader, reason: str) -> int | None:
    """Count how many rows over the cap may still go, from the rows as they are now (R17)."""
    if reason != "over_cap":
        return None
    policy = PrunePolicy.model_validate(plan.policy)
    return count_over_cap(reader, policy, namespace_id=plan.namespace_id, now=plan.now)
