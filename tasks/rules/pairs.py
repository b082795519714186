"""Judge a pair of memories: whether they say the same thing, or contradict one another.

Source: spec/consolidate.md R23, R32-R34 and the decision table.
"""

from dataclasses import dataclass
from enum import StrEnum

from tasks.rules.conflicts import ConflictClass, classify_conflict
from tasks.rules.guards import fire_guards
from tasks.rules.prepared import Prepared

FEWEST_TOKENS = 5
# The Jaccard threshold 0.86 as a fraction: all of its arithmetic is integer.
SHARED_PARTS, UNION_PARTS = 50, 43


class PairResult(StrEnum):
    """What is found about a pair."""

    EXACT = "exact"
    NEAR = "near"
    SIMILAR = "similar"
    CONFLICT = "conflict"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """A result with its figures: tokens that both have, and tokens that either has.

    `reasons` are the guards that fired, or why there is no result.
    """

    result: PairResult
    reasons: tuple[str, ...]
    shared: int
    union: int
    conflict_class: ConflictClass | None = None


def judge_pair(left: Prepared, right: Prepared) -> PairVerdict:
    """Judge two memories by the rules of ``memtend.near-duplicate.v2``; the order is no matter."""
    shared = len(left.tokens & right.tokens)
    union = len(left.tokens) + len(right.tokens) - shared
    result, reasons, conflict_class = _decide(left, right, overlaps=reaches_overlap(shared, union))
    return PairVerdict(result, reasons, shared, union, conflict_class)


def reaches_overlap(shared: int, union: int) -> bool:
    """Tell whether shared tokens are at least 0.86 of all tokens."""
    return SHARED_PARTS * shared >= UNION_PARTS * union


_Decision = tuple[PairResult, tuple[str, ...], ConflictClass | None]


def _decide(left: Prepared, right: Prepared, *, overlaps: bool) -> _Decision:
    apart = _tell_apart(left, right)
    if apart is not None:
        return PairResult.NONE, (apart,), None
    if left.fingerprint == right.fingerprint:
        return _decide_exact(left, right)
    is_long = min(len(left.tokens), len(right.tokens)) >= FEWEST_TOKENS
    is_close = is_long and overlaps and left.kind == right.kind
    fired = fire_guards(left, right)
    if is_close and not fired:
        return PairResult.NEAR, (), None
    conflict_class = classify_conflict(left, right, fired=fired, is_close=is_close)
    if conflict_class is not None:
        return PairResult.CONFLICT, fired, conflict_class
    if is_close:
        return PairResult.SIMILAR, fired, None
    why = "few_tokens" if not is_long else "kind" if overlaps else "below"
    return PairResult.NONE, (why,), None


def _tell_apart(left: Prepared, right: Prepared) -> str | None:
    """Say why two memories have nothing to do with one another, if they have not."""
    if left.namespace_id != right.namespace_id:
        return "namespace"
    return None if left.tokens and right.tokens else "empty"


def _decide_exact(left: Prepared, right: Prepared) -> _Decision:
    signs = {"figures": left.figures != right.figures, "marks": left.marks != right.marks}
    fired = tuple(name for name, fires in signs.items() if fires)
    return (PairResult.SIMILAR if fired else PairResult.EXACT), fired, None
