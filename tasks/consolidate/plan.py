"""consolidate: the plan. Losers are its decisions; pairs that are only reported stand beside.

Source: spec/consolidate.md R1-R8, R40-R43, DESIGN 10.15-10.17.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from storage import Store
from storage.candidates import Limits
from storage.digests import digest_table, encode_json
from storage.namespaces import StoredNamespace
from storage.plans import Plan, PlanHeader, identify_plan
from tasks.consolidate.deciding import Merge, decide_merges
from tasks.consolidate.findings import read_findings
from tasks.consolidate.judging import judge_open_pairs
from tasks.consolidate.reporting import EMPTY_REPORT, Report
from tasks.consolidate.seed import SEED_PROFILE, fold_seed, read_seed
from tasks.consolidate.semantic import judge_semantic_pairs
from tasks.duplicate_texts import PROFILE
from tasks.planning import PlanInput
from tasks.policies import ConsolidatePolicy
from tasks.rules.decide import DECISION_SCHEMA
from tasks.stale_siblings import find_stale_siblings

# Losers that one transaction takes in: each costs about a millisecond.
BATCH_SIZE = 500
_SCHEMA = pa.schema(
    [
        *DECISION_SCHEMA,
        ("position", pa.int64()),
        ("head_id", pa.string()),
        ("head_revision", pa.int64()),
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
    about = PlanInput("consolidate", namespace, now, policy.model_dump(mode="json"))
    if policy.profile == SEED_PROFILE:
        return _plan_by_seed(store, about)
    limits = Limits(max_pairs=policy.max_pairs)
    found = judge_open_pairs(store, namespace.namespace_id, limits, now=now)
    semantic = judge_semantic_pairs(store, policy, namespace, now=now)
    with store.read() as reader:
        findings = read_findings(reader, namespace.namespace_id, found, semantic, now=now)
    switches = {
        "exact": policy.exact,
        "near": policy.near,
        "semantic": policy.semantic_mode == "merge",
    }
    decided = decide_merges(findings, frozenset(name for name, is_on in switches.items() if is_on))
    siblings = find_stale_siblings(store, namespace.namespace_id, now=now)
    report = Report(policy, found, semantic, findings, decided, siblings)
    return _make_plan(
        about,
        PROFILE,
        _make_decisions(decided.merges, findings.facts),
        pairs=report.make_rows(),
        counters=report.count(),
        warnings=list(report.warn()),
    )


def _plan_by_seed(store: Store, about: PlanInput) -> Plan:
    with store.read() as reader:
        seed = read_seed(reader, about.namespace.namespace_id, now=about.now)
    merges = fold_seed(seed, now=about.now)
    reasons = Counter(merge.reason for merge in merges)
    return _make_plan(
        about,
        SEED_PROFILE,
        _make_decisions(merges, seed.facts),
        pairs=EMPTY_REPORT,
        counters={"visible": seed.visible, "exact": reasons["exact"], "near": reasons["near"]},
        warnings=[],
    )


def _make_plan(  # noqa: PLR0913 - a plan has this many parts
    about: PlanInput,
    profile: str,
    decisions: pa.Table,
    *,
    pairs: pa.Table,
    counters: dict[str, int],
    warnings: list[str],
) -> Plan:
    digested = {**about.policy, "profile_version": profile, "pairs": digest_table({}, pairs)}
    owner = about.namespace
    header = PlanHeader(
        plan_id=identify_plan(about.job, owner.namespace, about.now, digested, decisions),
        job=about.job,
        namespace_id=owner.namespace_id,
        now=about.now,
        policy=about.policy,
        batch_size=BATCH_SIZE,
        planned=decisions.num_rows,
        carried=0,
        judged=decisions.num_rows,
        visible=counters["visible"],
        counters=counters,
        warnings=warnings,
        profile=profile,
    )
    return Plan(header, decisions, pairs)


def _make_decisions(merges: Sequence[Merge], known: Mapping[str, Mapping[str, Any]]) -> pa.Table:
    rows = []
    for position, merge in enumerate(merges):
        facts = dict(known[merge.loser_id])
        head_revision = known[merge.canonical_id]["revision"]
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
