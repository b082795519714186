"""Judge the pairs of a namespace that have no verdict yet; the store is free meanwhile.

What is stored here is derived from texts: it can be made again and decides nothing by itself.
Source: spec/consolidate.md R60-R63, DESIGN 10.15-10.17.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from storage import Store
from storage.candidates import Found, Limits, OpenPair, gather_candidates
from storage.duplicate_texts import index_missing_tokens
from storage.verdicts import Verdict, read_texts, store_verdicts
from tasks.duplicate_texts import PROFILE, tokenise_text
from tasks.rules.pairs import judge_pair
from tasks.rules.prepared import Prepared, prepare

# Texts of so many pairs are held at once, prepared: some kilobytes each.
_PAIRS_AT_ONCE = 20_000


def judge_open_pairs(store: Store, namespace_id: int, limits: Limits, *, now: datetime) -> Found:
    """Find the pairs of a namespace and judge those that no run has judged.

    Args:
        store: The store; no lock may be held.
        namespace_id: The only namespace that is read.
        limits: When pairs are too many.
        now: The instant that expiry is judged at.

    Returns:
        The pairs, each with its verdict stored; those of texts that went meanwhile have none.
    """
    index_missing_tokens(store, namespace_id, tokenise_text, profile=PROFILE)
    with store.read() as reader:
        candidates = gather_candidates(reader, namespace_id, profile=PROFILE, now=now)
        found = candidates.find_pairs(limits)
        open_pairs = candidates.list_open_pairs()
    for start in range(0, len(open_pairs), _PAIRS_AT_ONCE):
        pairs = open_pairs[start : start + _PAIRS_AT_ONCE]
        with store.read() as reader:
            numbers = {number for pair in pairs for number in pair[:2]}
            texts = read_texts(reader, namespace_id, numbers)
        verdicts = list(_judge(pairs, texts))
        with store.write() as writer:
            store_verdicts(writer, namespace_id, verdicts)
    return found


def _judge(pairs: Sequence[OpenPair], texts: dict[int, str]) -> Iterator[Verdict]:
    prepared: dict[tuple[int, str], Prepared] = {}

    def get(number: int, kind: str) -> Prepared:
        known = prepared.get((number, kind))
        if known is None:
            # The namespace is one and the same: pairs of two are never found.
            known = prepare(texts[number], kind=kind, namespace_id=0)
            prepared[number, kind] = known
        return known

    for pair in pairs:
        if pair.text_number in texts and pair.partner_number in texts:
            verdict = judge_pair(
                get(pair.text_number, pair.kind), get(pair.partner_number, pair.partner_kind)
            )
            yield Verdict(
                pair,
                verdict.result,
                verdict.reasons,
                verdict.conflict_class,
                verdict.shared,
                verdict.union,
            )
