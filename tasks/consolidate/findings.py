"""What a plan of consolidation is made of, read in one transaction after all pairs were judged.

Source: spec/consolidate.md R40-R43.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from storage import StoreReader
from storage.candidates import Found, gather_candidates
from storage.merge_facts import (
    KindedText,
    LineageText,
    count_visible,
    read_facts,
    read_kinded_texts,
    read_lineage_texts,
)
from tasks.consolidate.events import propose_replacements
from tasks.consolidate.pairs import PASSING, JudgedPair
from tasks.consolidate.semantic import SemanticFindings, take_semantic_pairs
from tasks.duplicate_texts import PROFILE
from tasks.rules.supersession import Proposal


@dataclass(frozen=True, slots=True)
class Findings:
    """One consistent view.

    Attributes:
        visible: How many memories the namespace shows.
        pairs: All judged pairs but those that have nothing to do with one another.
        copies: Copy to representative: equal texts of which one stands for all.
        series: Kind of key, a memory, number of texts: groups with too many values to contradict.
        facts: Decision facts of every memory that may merge, or contradicts another, by id.
        order: Those that may merge, by (created_at, id).
        lineages: Texts that merged memories stand for.
        texts: What memories that have a lineage say, and those that they pass with.
        proposals: By pair, which of two contradicting memories may replace the other.
    """

    visible: int
    pairs: list[JudgedPair]
    copies: Mapping[str, str]
    series: list[tuple[str, str, int]]
    facts: Mapping[str, Mapping[str, Any]]
    order: list[str]
    lineages: list[LineageText]
    texts: Mapping[str, KindedText]
    proposals: Mapping[tuple[str, str], Proposal]


def read_findings(
    reader: StoreReader,
    namespace_id: int,
    found: Found,
    semantic: SemanticFindings,
    *,
    now: datetime,
) -> Findings:
    """Read what is known of the found pairs and of the memories in them."""
    candidates = gather_candidates(reader, namespace_id, profile=PROFILE, now=now)
    candidates.take_pairs(found)
    pairs = [_read_pair(row) for row in candidates.list_verdicts().to_pylist()]
    pairs += take_semantic_pairs(candidates, semantic, pairs)
    listed = candidates.list_copies().to_pylist()
    copies = {row["memory_id"]: row["representative_id"] for row in listed}
    in_pairs = {name for pair in pairs if pair.result in PASSING for name in pair.ids}
    involved = {*in_pairs, *copies, *copies.values()}
    lineages = read_lineage_texts(reader, namespace_id, in_pairs)
    merged = {text.memory_id for text in lineages}
    beside = {
        name
        for pair in pairs
        if pair.result in PASSING and not merged.isdisjoint(pair.ids)
        for name in pair.ids
    }
    contradicting = {name for pair in pairs if pair.result == "conflict" for name in pair.ids}
    facts = _by_id(read_facts(reader, namespace_id, involved | contradicting).to_pylist())
    return Findings(
        visible=count_visible(reader, namespace_id, now=now),
        pairs=pairs,
        copies=copies,
        series=candidates.list_series(),
        facts=facts,
        order=candidates.sort_members(involved),
        lineages=lineages,
        texts=read_kinded_texts(reader, namespace_id, beside),
        proposals=propose_replacements(reader, namespace_id, pairs),
    )


def _read_pair(row: Mapping[str, Any]) -> JudgedPair:
    return JudgedPair(**{**row, "reasons": tuple(row["reasons"])})


def _by_id(rows: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {row["memory_id"]: row for row in rows}
