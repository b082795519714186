"""Conflict classes: pairs that look contradictory, and keys with so many values that they do not.

Source: spec/consolidate.md R33.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from tasks.rules.figures import has_date
from tasks.rules.names import list_singulars
from tasks.rules.polarity import count_negations, count_prefixed, find_opposed
from tasks.rules.prepared import Prepared

_MOST_VALUES = 4
_FLEETING = frozenset({"episodic", "working"})


class ConflictClass(StrEnum):
    """How a pair contradicts, in the order in which it is looked for."""

    POLARITY = "polarity"
    FIGURES = "figures"
    SLOT = "slot"
    DECLARED = "declared"


class SharedKey(NamedTuple):
    """A key under which memories are compared for a class of conflict."""

    conflict_class: ConflictClass
    key: str


def classify_conflict(
    left: Prepared, right: Prepared, *, fired: Collection[str], is_close: bool
) -> ConflictClass | None:
    """Give the first class of conflict that holds for a pair that is neither exact nor near.

    Args:
        left: One memory.
        right: The other one.
        fired: The guards that refuse the pair.
        is_close: Kinds are equal and the Jaccard test is met.
    """
    turns = not {"polarity", "antonym"}.isdisjoint(fired)
    is_alike = is_close or _agree(left.polarity_key, right.polarity_key)
    if turns and is_alike and _is_flipped(left, right):
        return ConflictClass.POLARITY
    if not turns and "figures" in fired and _has_other_figures(left, right):
        return ConflictClass.FIGURES
    if "figures" not in fired and _has_other_slot(left, right):
        return ConflictClass.SLOT
    is_declared = _agree(left.declared_slot, right.declared_slot)
    return ConflictClass.DECLARED if is_declared and left.fingerprint != right.fingerprint else None


def list_keys(memory: Prepared) -> Iterator[tuple[SharedKey, object]]:
    """Yield the keys of a memory that may become a series, each with its value there."""
    keys = {
        ConflictClass.FIGURES: (memory.figure_key, memory.figures),
        ConflictClass.SLOT: (memory.slot_key, memory.units[-1:]),
        ConflictClass.DECLARED: (memory.declared_slot, memory.fingerprint),
    }
    for conflict_class, (key, value) in keys.items():
        if key is not None:
            yield SharedKey(conflict_class, key), value


def find_series(memories: Iterable[Prepared]) -> frozenset[SharedKey]:
    """Find the keys of a namespace with too many distinct values; their pairs are not reported."""
    values: dict[SharedKey, set[object]] = defaultdict(set)
    for memory in memories:
        for key, value in list_keys(memory):
            values[key].add(value)
    return frozenset(key for key, found in values.items() if len(found) > _MOST_VALUES)


def _agree(left: str | None, right: str | None) -> bool:
    return left is not None and left == right


def _is_flipped(left: Prepared, right: Prepared) -> bool:
    """Tell whether the texts mean opposite things: an odd number of flips lies between them."""
    opposed = find_opposed(left.sides, right.sides)
    flips = len(opposed) + count_prefixed(left.units, right.units)
    flips += sum(count_negations(one.content, without=opposed) for one in (left, right))
    return flips % 2 == 1


def _has_other_figures(left: Prepared, right: Prepared) -> bool:
    """Tell whether texts differ in figures only; fleeting memories may differ in date and time."""
    if not _agree(left.figure_key, right.figure_key):
        return False
    ours, theirs = Counter(left.figures), Counter(right.figures)
    is_fleeting = not _FLEETING.isdisjoint({left.kind, right.kind})
    return not (is_fleeting and has_date({*(ours - theirs), *(theirs - ours)}))


def _has_other_slot(left: Prepared, right: Prepared) -> bool:
    if not _agree(left.slot_key, right.slot_key):
        return False
    ours, theirs = left.units[-1], right.units[-1]
    is_variant = ours in list_singulars(theirs) or theirs in list_singulars(ours)
    return ours != theirs and not is_variant
