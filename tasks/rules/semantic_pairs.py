"""Judge a pair of memories whose vectors are near: whether one may stand for the other.

Source: spec/consolidate.md R72; that words and their order differ says nothing about a paraphrase.
"""

from dataclasses import dataclass
from enum import StrEnum

from tasks.rules.conflicts import ConflictClass
from tasks.rules.guards import fire_guards
from tasks.rules.pairs import PairResult, judge_pair
from tasks.rules.prepared import Prepared

_PARAPHRASED = {"substitution", "order"}


class SemanticResult(StrEnum):
    """What is found about a pair of near vectors."""

    SEMANTIC = "semantic"
    SIMILAR = "similar"
    CONFLICT = "conflict"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SemanticVerdict:
    """A result with the guards that fired, in the order in which reasons are listed."""

    result: SemanticResult
    reasons: tuple[str, ...]
    conflict_class: ConflictClass | None = None


def judge_semantic_pair(left: Prepared, right: Prepared) -> SemanticVerdict:
    """Judge two memories whose vectors are near; the order is no matter.

    What their texts say comes first: two values of one slot have near vectors, too, and no guard
    that applies here tells them apart. Texts without tokens equal nothing.
    """
    texts = judge_pair(left, right)
    if texts.result == PairResult.NONE and texts.reasons[0] in {"namespace", "empty"}:
        return SemanticVerdict(SemanticResult.NONE, texts.reasons)
    fired = fire_guards(left, right)
    reasons = tuple(name for name in fired if name not in _PARAPHRASED)
    if texts.result == PairResult.CONFLICT:
        return SemanticVerdict(SemanticResult.CONFLICT, reasons, texts.conflict_class)
    return SemanticVerdict(SemanticResult.SIMILAR if reasons else SemanticResult.SEMANTIC, reasons)
