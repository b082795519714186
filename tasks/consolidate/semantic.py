"""Duplicates that only vectors show: judged outside of the lock, listed with the other pairs.

Source: spec/consolidate.md R70-R74.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from storage import Store
from storage.candidates import Candidates
from storage.index_errors import IndexUnreadableError
from storage.merge_facts import JoinedPair, TextFacts, find_kept_apart, read_text_facts
from storage.namespaces import StoredNamespace
from storage.verdicts import read_texts
from tasks.consolidate.pairs import JudgedPair
from tasks.policies import ConsolidatePolicy
from tasks.rules.prepared import prepare
from tasks.rules.semantic_pairs import SemanticResult, judge_semantic_pair
from tasks.semantic_pairs import Obstacle, find_semantic_pairs


@dataclass(frozen=True, slots=True)
class SemanticFindings:
    """Pairs of near vectors, judged on the texts that had these numbers.

    Attributes:
        pairs: Semantic, similar and contradicting ones; none of another kind.
        numbers: The text number of each memory in them.
        counters: compared, unembeddable, stale: what the search could look at.
        warning: Why there was no search.
    """

    pairs: tuple[JudgedPair, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    warning: str | None = None


def judge_semantic_pairs(
    store: Store, policy: ConsolidatePolicy, namespace: StoredNamespace, *, now: datetime
) -> SemanticFindings:
    """Find and judge the pairs of near vectors, unless the policy says not to."""
    if policy.semantic_mode == "off":
        return SemanticFindings()
    try:
        found = find_semantic_pairs(
            store,
            namespace.namespace,
            threshold=policy.semantic_threshold,
            k=policy.semantic_neighbours,
            now=now,
        )
    except IndexUnreadableError as error:
        return SemanticFindings(warning=f"semantic:{error.code}")
    rows = found.pairs.to_pylist()
    ids = {row[side] for row in rows for side in ("memory_id", "partner_id")}
    with store.read() as reader:
        facts = read_text_facts(reader, namespace.namespace_id, ids)
        numbers = [one.text_number for one in facts.values()]
        texts = read_texts(reader, namespace.namespace_id, numbers)
    counters = {name: getattr(found, name) for name in ("compared", "unembeddable", "stale")}
    return SemanticFindings(
        pairs=tuple(_judge(rows, facts, texts)),
        numbers={name: one.text_number for name, one in facts.items()},
        counters=counters,
        warning=_warn(policy, found.obstacle),
    )


def _warn(policy: ConsolidatePolicy, obstacle: Obstacle | None) -> str | None:
    """Say what keeps vectors from being looked at; that there is no index yet is no news."""
    is_expected = obstacle == "not_served" and policy.semantic_mode == "report"
    return None if obstacle is None or is_expected else f"semantic:{obstacle}"


def take_semantic_pairs(
    candidates: Candidates, semantic: SemanticFindings, known: Iterable[JudgedPair]
) -> list[JudgedPair]:
    """Take the pairs whose texts are still the judged ones and say nothing yet.

    Passing ones that their expiry, an edge or a mark keeps apart are similar (R41); refused ones
    of a series are left out (R33).
    """
    reader, namespace_id = candidates.reader, candidates.namespace_id
    listed = {pair.ids for pair in known}
    fresh = [pair for pair in semantic.pairs if pair.ids not in listed]
    ids = {name for pair in fresh for name in pair.ids}
    facts = read_text_facts(reader, namespace_id, ids)
    kept = find_kept_apart(reader, namespace_id, ids)
    serial = candidates.find_serial_keys([one.text_number for one in facts.values()])
    return [
        _keep(pair, facts, kept)
        for pair in fresh
        if all(
            name in facts and facts[name].text_number == semantic.numbers.get(name)
            for name in pair.ids
        )
        and not (pair.result != "semantic" and _share_series(pair, facts, serial))
    ]


def _judge(
    rows: Iterable[Mapping[str, Any]], facts: Mapping[str, TextFacts], texts: Mapping[int, str]
) -> Iterator[JudgedPair]:
    for row in rows:
        ids = row["memory_id"], row["partner_id"]
        sides = [facts.get(name) for name in ids]
        left, right = (
            prepare(texts[one.text_number], kind=one.kind, namespace_id=0)
            if one is not None and one.text_number in texts
            else None
            for one in sides
        )
        if left is None or right is None:
            continue
        verdict = judge_semantic_pair(left, right)
        if verdict.result == SemanticResult.NONE:
            continue
        reasons = [*verdict.reasons]
        if verdict.result == SemanticResult.SEMANTIC:
            reasons += ["kind"] if left.kind != right.kind else []
            reasons += ["truncated"] if row["is_truncated"] else []
        is_refused = verdict.result == SemanticResult.SEMANTIC and reasons
        yield JudgedPair(
            *ids,
            result="similar" if is_refused else verdict.result.value,
            reasons=tuple(reasons),
            conflict_class=verdict.conflict_class,
            shared=len(left.tokens & right.tokens),
            union_size=len(left.tokens | right.tokens),
            cosine=row["cosine"],
        )


def _share_series(
    pair: JudgedPair,
    facts: Mapping[str, TextFacts],
    serial: Mapping[int, set[tuple[str, int]]],
) -> bool:
    left, right = (serial.get(facts[name].text_number, set()) for name in pair.ids)
    return not left.isdisjoint(right)


def _keep(
    pair: JudgedPair, facts: Mapping[str, TextFacts], kept: Mapping[tuple[str, str], JoinedPair]
) -> JudgedPair:
    left, right = (facts[name] for name in pair.ids)
    joined = kept.get((min(pair.ids), max(pair.ids)), JoinedPair(is_related=False, is_marked=False))
    reasons = {
        "expiry": left.expires_at != right.expires_at,
        "related": joined.is_related,
        "kept_apart": joined.is_marked,
    }
    held = tuple(name for name, is_so in reasons.items() if is_so)
    if pair.result == "conflict":
        return pair._replace(reasons=("related",) if joined.is_related else ())
    if pair.result == "semantic" and held:
        return pair._replace(result="similar", reasons=held)
    return pair
