"""What a plan of consolidation reports beside its decisions: contradictions, groups, near misses.

Ids, reasons and figures only; what a person should look at first stands first. Source:
spec/consolidate.md R33, R34, R83, R84, DESIGN 10.17.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from storage import Store
from storage.candidates import Found
from storage.digests import encode_json
from storage.plans import PlanHeader, read_pairs
from tasks.consolidate.deciding import Decided
from tasks.consolidate.findings import Findings
from tasks.consolidate.pairs import JudgedPair
from tasks.consolidate.semantic import SemanticFindings
from tasks.policies import ConsolidatePolicy
from tasks.stale_siblings import StaleSibling

# DESIGN 10.17: so many pairs are stored with a plan, the others are counted.
MOST_LISTED = 1_000
_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("result", pa.string()),
        ("memory_id", pa.string()),
        ("partner_id", pa.string()),
        ("reasons", pa.string()),
        ("figures", pa.string()),
    ]
)
EMPTY_REPORT = _SCHEMA.empty_table()
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a plan was made of; siblings still say what a superseded memory said."""

    policy: ConsolidatePolicy
    found: Found
    semantic: SemanticFindings
    findings: Findings
    decided: Decided
    siblings: list[StaleSibling]

    def make_rows(self) -> pa.Table:
        """Make the rows of `plan_pairs`."""
        encoded = [
            {
                **row,
                "position": position,
                "reasons": json.dumps(row.get("reasons", ())),
                "figures": encode_json(row["figures"]),
            }
            for position, row in enumerate(self._list_rows())
        ]
        return pa.Table.from_pylist(encoded, schema=_SCHEMA)

    def count(self) -> dict[str, int]:
        """Count what was decided and what is reported, listed or not."""
        results = Counter(pair.result for pair in self.decided.listed)
        reasons = Counter(merge.reason for merge in self.decided.merges)
        to_link = sum("related" not in pair.reasons for pair in self._list_listed("conflict"))
        return {
            "visible": self.findings.visible,
            **{name: reasons[name] for name in ("exact", "near", "semantic")},
            "similar": results["similar"],
            "conflicts": results["conflict"],
            "to_link": 0 if self.policy.conflict_mode == "report" else to_link,
            "to_refine": self._count_refinable(),
            "series": len(self.findings.series),
            "families": self.found.families.num_rows,
            "stale_siblings": len(self.siblings),
            **self.semantic.counters,
        }

    def warn(self) -> Iterator[str]:
        """Say what was not looked at."""
        if self.found.is_over_budget:
            yield "pair_budget:near"
        if self.found.has_too_many_keys:
            yield "pair_budget:conflicts"
        if self.semantic.warning is not None:
            yield self.semantic.warning

    def _list_listed(self, result: str) -> list[JudgedPair]:
        return [pair for pair in self.decided.listed if pair.result == result]

    def _count_refinable(self) -> int:
        if not self.policy.refine:
            return 0
        return sum("report_only" in pair.reasons for pair in self.decided.listed)

    def _list_rows(self) -> Iterator[Row]:
        conflicts = self._list_listed("conflict")
        most = MOST_LISTED if self.policy.conflict_mode == "report" else len(conflicts)
        yield from map(self._describe, conflicts[:most])
        for sibling in self.siblings:
            yield {
                "result": "stale_sibling",
                "memory_id": sibling.memory_id,
                "partner_id": sibling.superseded_id,
                "reasons": [sibling.result],
                "figures": {"superseded_by": sibling.superseded_by},
            }
        for key_kind, memory_id, texts in self.findings.series:
            figures = {"key": key_kind, "texts": texts}
            yield {"result": "series", "memory_id": memory_id, "figures": figures}
        for row in self.found.families.to_pylist():
            figures = {"partners": row["partners"]}
            yield {"result": "family", "memory_id": row["memory_id"], "figures": figures}
        # Those that a switch keeps apart, not a guard, first: a refiner may look at them.
        similar = self._list_listed("similar")
        similar.sort(key=lambda pair: "report_only" not in pair.reasons)
        yield from map(self._describe, similar[: max(0, MOST_LISTED - len(conflicts))])

    def _describe(self, pair: JudgedPair) -> Row:
        figures: Row = {"shared": pair.shared, "union": pair.union_size}
        if pair.cosine is not None:
            figures["cosine"] = pair.cosine
        if pair.conflict_class is not None:
            figures["conflict_class"] = pair.conflict_class
        proposal = self.findings.proposals.get(pair.ids)
        if proposal is not None:
            figures |= {"old_id": proposal.old_id, "new_id": proposal.new_id}
        is_linked = self.policy.conflict_mode != "report" and pair.result == "conflict"
        if is_linked or (self.policy.refine and "report_only" in pair.reasons):
            facts = self.findings.facts
            figures["texts"] = [facts[name]["text_number"] for name in pair.ids]
        return {
            "result": pair.result,
            "memory_id": pair.memory_id,
            "partner_id": pair.partner_id,
            "reasons": pair.reasons,
            "figures": figures,
        }


def explain_pairs(store: Store, plan: PlanHeader) -> list[Row]:
    """List all that a stored plan reports beside its decisions."""
    with store.read() as reader:
        return [_flatten(row) for row in read_pairs(reader, plan.plan_id)]


def _flatten(row: Row) -> Row:
    return {**row, **row.pop("figures")}
