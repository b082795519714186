"""Decide what merges: passing pairs, judged for whole lineages, become clusters.

Pure functions over findings. Source: spec/consolidate.md R6, R40-R43, R62.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from storage.merge_facts import KindedText
from tasks.consolidate.findings import Findings
from tasks.consolidate.pairs import PASSING, JudgedPair
from tasks.rules.clusters import Clustering, add_copies, form_clusters, judge_lineages
from tasks.rules.pairs import PairResult, judge_pair
from tasks.rules.prepared import Prepared, prepare

_MERGING = frozenset({PairResult.EXACT, PairResult.NEAR})


@dataclass(frozen=True, slots=True)
class Merge:
    """A loser, its canonical memory, and the pair that the two, or their representatives, are."""

    loser_id: str
    canonical_id: str
    reason: str
    pair: JudgedPair | None


@dataclass(frozen=True, slots=True)
class Decided:
    """What merges, in the order of apply, and the pairs that are only reported."""

    merges: list[Merge]
    listed: list[JudgedPair]


def decide_merges(findings: Findings, merging: frozenset[str]) -> Decided:
    """Decide on the clusters of a namespace.

    Args:
        findings: What is known of its pairs.
        merging: The results of pairs that are merged; other passing ones are `report_only`.
    """
    passing = [pair for pair in findings.pairs if pair.result in merging]
    listed = [
        pair.refuse("report_only") if pair.result in PASSING else pair
        for pair in findings.pairs
        if pair.result not in merging
    ]
    whole, broken = _divide(passing, findings)
    copies = findings.copies if PairResult.EXACT in merging else {}
    representatives = [one for one in findings.order if one not in copies]
    clustering = form_clusters(representatives, (pair.ids for pair in whole))
    parted = set(clustering.parted)
    listed += [pair.refuse("lineage") for pair in broken]
    listed += [pair.refuse("not_clique") for pair in whole if pair.ids in parted]
    clustering = add_copies(clustering, copies, findings.order)
    return Decided(list(_list_merges(clustering, copies, whole)), listed)


def _divide(
    passing: Sequence[JudgedPair], findings: Findings
) -> tuple[list[JudgedPair], list[JudgedPair]]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    said = dict(findings.texts)
    for text in findings.lineages:
        names[text.memory_id].append(text.name)
        said[text.name] = KindedText(text.kind, text.content)

    @cache
    def get(name: str) -> Prepared:
        # With the kinds that they had: or else a promoted memory would take in, run by run, what
        # no cluster holds.
        return prepare(said[name].content, kind=said[name].kind, namespace_id=0)

    def passes(left: str, right: str) -> bool:
        return judge_pair(get(left), get(right)).result in _MERGING

    with_lineage = (pair.ids for pair in passing if not names.keys().isdisjoint(pair.ids))
    _, broken = judge_lineages(with_lineage, names, passes)
    refused = set(broken)
    return (
        [pair for pair in passing if pair.ids not in refused],
        [pair for pair in passing if pair.ids in refused],
    )


def _list_merges(
    clustering: Clustering, copies: Mapping[str, str], passing: Iterable[JudgedPair]
) -> Iterator[Merge]:
    pairs = {pair.ids: pair for pair in passing}
    for canonical_id, *losers in clustering.merges:
        one = copies.get(canonical_id, canonical_id)
        for loser_id in losers:
            other = copies.get(loser_id, loser_id)
            pair = pairs.get((one, other)) or pairs.get((other, one))
            reason = pair.result if pair is not None else "exact"
            yield Merge(loser_id, canonical_id, reason, pair)
