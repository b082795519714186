"""Make a plan from verdicts: actions, positions, carried ancestors, counters, the plan's id."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage import StoreReader
from storage.namespaces import StoredNamespace
from storage.plans import Plan, PlanHeader, identify_plan
from tasks.rules.decide import Verdicts
from tasks.rules.lineage import read_carried

# One transaction holds this many decisions: well under a second, so that others get their turn.
BATCH_SIZE = 25_000
_REMOVING = ("delete", "purge")


@dataclass(frozen=True, slots=True)
class PlanInput:
    """What a plan is about; `policy` is the policy as JSON values."""

    job: str
    namespace: StoredNamespace
    now: datetime
    policy: dict[str, Any]


def make_plan(
    reader: StoreReader,
    about: PlanInput,
    verdicts: Verdicts,
    *,
    actions: Mapping[str, str],
    warnings: list[str],
) -> Plan:
    """Turn verdicts into a plan.

    Args:
        reader: The handle that the verdicts were read with.
        about: Job, namespace, now and policy.
        verdicts: Decisions in the order of apply, and the counters of the rule.
        actions: The action of each reason.
        warnings: What a person should know although nothing is wrong with the plan.

    Returns:
        The plan; decisions and then carried rows, each with its position.
    """
    decisions = _with_actions(verdicts.decisions, actions)
    carried = _carried_rows(reader, about.namespace.namespace_id, decisions)
    rows = pa.concat_tables([decisions, carried])
    counters = dict(verdicts.counters)
    counters["carried"] = carried.num_rows
    counters["inactive"] -= carried.num_rows
    judged = sum(counters[reason] for reason in ("stale", "over_cap", "cold") if reason in counters)
    plan_id = identify_plan(about.job, about.namespace.namespace, about.now, about.policy, rows)
    header = PlanHeader(
        plan_id=plan_id,
        job=about.job,
        namespace_id=about.namespace.namespace_id,
        now=about.now,
        policy=about.policy,
        batch_size=BATCH_SIZE,
        planned=decisions.num_rows,
        carried=carried.num_rows,
        judged=judged,
        visible=counters["visible"],
        counters=counters,
        warnings=warnings,
    )
    return Plan(header, rows)


def _with_actions(decisions: pa.Table, actions: Mapping[str, str]) -> pa.Table:
    reasons = decisions.column("reason")
    names = pa.array(list(actions), pa.string())
    chosen = pa.array(list(actions.values()), pa.string())
    action = chosen.take(pc.index_in(reasons, value_set=names).combine_chunks())
    count = decisions.num_rows
    return (
        decisions.append_column("action", action)
        .append_column("position", pa.array(range(count), pa.int64()))
        .append_column("head_id", pa.nulls(count, pa.string()))
    )


def _carried_rows(reader: StoreReader, namespace_id: int, decisions: pa.Table) -> pa.Table:
    removing = pa.array(_REMOVING, pa.string())
    heads = decisions.filter(pc.is_in(decisions.column("action"), value_set=removing))
    if heads.num_rows == 0:
        return decisions.slice(0, 0)
    carried = read_carried(reader, namespace_id, heads)
    place, count = carried.column("place"), carried.num_rows
    fixed = {
        "reason": pa.array(["carried"] * count, pa.string()),
        "figures": pa.array(["{}"] * count, pa.string()),
        "action": heads.column("action").take(place),
        "position": heads.column("position").take(place),
    }
    columns = [
        fixed[name] if name in fixed else carried.column(name) for name in decisions.column_names
    ]
    return pa.table(columns, names=decisions.column_names).cast(decisions.schema)
