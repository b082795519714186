"""consolidate: the plan. Losers are its decisions; pairs that are only reported stand beside.

Source: spec/consolidate.md R1-R8, R40-R43, DESIGN 10.15-10.17.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from storage import Store
from storage.candidates import Found, Limits
from storage.digests import digest_table, encode_json
from storage.namespaces import StoredNamespace
from storage.plans import Plan, PlanHeader, identify_plan, read_pairs
from tasks.consolidate.deciding import Decided, Merge, decide_merges
from tasks.consolidate.findings import Findings, JudgedPair, read_findings
from tasks.consolidate.judging import judge_open_pairs
from tasks.duplicate_texts import PROFILE
from tasks.policies import ConsolidatePolicy
from tasks.rules.decide import DECISION_SCHEMA

# Losers that one transaction takes in: each costs about a millisecond.
BATCH_SIZE = 500
# DESIGN 10.17: so many similar pairs are stored with a plan, the others are counted.
MOST_LISTED = 1_000

_SCHEMA = pa.schema(
    [
        *DECISION_SCHEMA,
        ("position", pa.int64()),
        ("head_id", pa.string()),
        ("head_revision", pa.int64()),
    ]
)
_PAIR_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("result", pa.string()),
        ("memory_id", pa.string()),
        ("partner_id", pa.string()),
        ("reasons", pa.string()),
        ("figures", pa.string()),
    ]
)
Row = dict[str, Any]


def plan_consolidate(
    store: Store, policy: ConsolidatePolicy, *, namespace: StoredNamespace, now: datetime
) -> Plan:
    """Plan the merges of a namespace.

    Args:
        store: The store; no lock may be held. Nothing that anybody decides on is written.
        policy: What merges and what is only reported.
        namespace: The only namespace that is read.
        now: The decision clock, aware.

    Returns:
        The plan: its losers cluster by cluster, in the order of apply, and what it reports.
    """
    limits = Limits(max_pairs=policy.max_pairs)
    found = judge_open_pairs(store, namespace.namespace_id, limits, now=now)
    with store.read() as reader:
        findings = read_findings(reader, namespace.namespace_id, found, now=now)
    switches = {"exact": policy.exact, "near": policy.near}
    decided = decide_merges(findings, frozenset(name for name, is_on in switches.items() if is_on))
    decisions = _make_decisions(decided.merges, findings)
    pairs = _make_pairs(list(_report(policy, found, findings, decided)))
    about = policy.model_dump(mode="json")
    digested = {**about, "profile_version": PROFILE, "pairs": digest_table({}, pairs)}
    header = PlanHeader(
        plan_id=identify_plan("consolidate", namespace.namespace, now, digested, decisions),
        job="consolidate",
        namespace_id=namespace.namespace_id,
        now=now,
        policy=about,
        batch_size=BATCH_SIZE,
        planned=decisions.num_rows,
        carried=0,
        judged=decisions.num_rows,
        visible=findings.visible,
        counters=_count(policy, found, findings, decided),
        warnings=list(_warn(found)),
        profile=PROFILE,
    )
    return Plan(header, decisions, pairs)


def explain_pairs(store: Store, plan: PlanHeader) -> list[Row]:
    """List all that a stored plan reports beside its decisions."""
    with store.read() as reader:
        return [_flatten(row) for row in read_pairs(reader, plan.plan_id)]


def _flatten(row: Row) -> Row:
    return {**row, **row.pop("figures")}


def _make_decisions(merges: Sequence[Merge], findings: Findings) -> pa.Table:
    rows = []
    for position, merge in enumerate(merges):
        facts = dict(findings.facts[merge.loser_id])
        head_revision = findings.facts[merge.canonical_id]["revision"]
        figures: Row = {"canonical_id": merge.canonical_id, "canonical_revision": head_revision}
        if merge.pair is not None:
            figures |= {"shared": merge.pair.shared, "union": merge.pair.union_size}
        rows.append(
            {
                **facts,
                "expected_revision": facts.pop("revision"),
                "reason": merge.reason,
                "position": position,
                "head_id": merge.canonical_id,
                "head_revision": head_revision,
                "figures": encode_json(figures),
            }
        )
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _report(
    policy: ConsolidatePolicy, found: Found, findings: Findings, decided: Decided
) -> Iterator[Row]:
    """Yield what is reported, what a person should look at first: contradictions, groups, pairs."""
    conflicts = [pair for pair in decided.listed if pair.result == "conflict"]
    most = MOST_LISTED if policy.conflict_mode == "report" else len(conflicts)
    yield from map(_report_pair, conflicts[:most])
    for key_kind, memory_id, texts in findings.series:
        figures = {"key": key_kind, "texts": texts}
        yield {"result": "series", "memory_id": memory_id, "figures": figures}
    for row in found.families.to_pylist():
        figures = {"partners": row["partners"]}
        yield {"result": "family", "memory_id": row["memory_id"], "figures": figures}
    similar = [pair for pair in decided.listed if pair.result == "similar"]
    yield from map(_report_pair, similar[: max(0, MOST_LISTED - len(conflicts))])


def _report_pair(pair: JudgedPair) -> Row:
    figures: Row = {"shared": pair.shared, "union": pair.union_size}
    if pair.conflict_class is not None:
        figures["conflict_class"] = pair.conflict_class
    return {
        "result": pair.result,
        "memory_id": pair.memory_id,
        "partner_id": pair.partner_id,
        "reasons": pair.reasons,
        "figures": figures,
    }


def _make_pairs(rows: Sequence[Row]) -> pa.Table:
    encoded = [
        {
            **row,
            "position": position,
            "reasons": json.dumps(row.get("reasons", ())),
            "figures": encode_json(row["figures"]),
        }
        for position, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(encoded, schema=_PAIR_SCHEMA)


def _count(
    policy: ConsolidatePolicy, found: Found, findings: Findings, decided: Decided
) -> dict[str, int]:
    results = Counter(pair.result for pair in decided.listed)
    reasons = Counter(merge.reason for merge in decided.merges)
    conflicts = [pair for pair in decided.listed if pair.result == "conflict"]
    to_link = sum("related" not in pair.reasons for pair in conflicts)
    return {
        "visible": findings.visible,
        "exact": reasons["exact"],
        "near": reasons["near"],
        "similar": results["similar"],
        "conflicts": results["conflict"],
        "to_link": 0 if policy.conflict_mode == "report" else to_link,
        "series": len(findings.series),
        "families": found.families.num_rows,
    }


def _warn(found: Found) -> Iterator[str]:
    if found.is_over_budget:
        yield "pair_budget:near"
    if found.has_too_many_keys:
        yield "pair_budget:conflicts"
