"""Guards: what keeps two texts apart although their words are the same.

Source: spec/consolidate.md R24-R31.
"""

from collections import Counter

from tasks.rules.figures import find_figures
from tasks.rules.marks import find_marks
from tasks.rules.names import find_difference, has_other_names, has_other_order
from tasks.rules.polarity import count_prefixed, find_opposed
from tasks.rules.prepared import Prepared


def fire_guards(left: Prepared, right: Prepared) -> tuple[str, ...]:
    """Name the guards that refuse a pair, in the order in which reasons are listed (R32)."""
    difference = find_difference(left.units, right.units)
    fired = {
        "figures": left.figures != right.figures,
        "polarity": left.negations != right.negations,
        "antonym": has_antonyms(left, right),
        "qualifier": left.qualifiers != right.qualifiers,
        "names": has_other_names(difference, left.capitals, right.capitals),
        "substitution": all(difference),
        "order": has_other_order(left.units, right.units),
        "marks": left.marks != right.marks,
    }
    return tuple(name for name, fires in fired.items() if fires)


def has_antonyms(left: Prepared, right: Prepared) -> bool:
    """Tell whether the texts lean to opposite sides, or one unit is the other with a prefix."""
    if find_opposed(left.sides, right.sides):
        return True
    return count_prefixed(left.units, right.units) > 0


def has_equal_meaning_signs(left: str, right: str) -> bool:
    """Tell whether the guards of figures and of marks are silent about two texts.

    Both compare multisets, so silence is transitive: texts of which neighbours pass all pass with
    one another.
    """
    if Counter(find_figures(left)) != Counter(find_figures(right)):
        return False
    return find_marks(left) == find_marks(right)
