"""The guards of names, substitution and order: which units two texts do not share, and where.

Source: spec/consolidate.md R28-R30.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from tasks.rules.normal_form import fold, without_invisible
from tasks.rules.tokens import has_number, split_runs

_SENTENCE_END = re.compile("[.!?:;。！？：；\n\r\v\f\x85\u2028\u2029]")  # noqa: RUF001 - R28
_SHORTEST_SINGULAR = 3


class Capitals(NamedTuple):
    """Units with a capital; `inner` are those whose capital no sentence begins with."""

    units: frozenset[str]
    inner: frozenset[str]


class Difference(NamedTuple):
    """The differing units of two texts."""

    ours: frozenset[str]
    theirs: frozenset[str]


def find_capitals(content: str) -> Capitals:
    """Read from letter case which units of a text may be names (R28)."""
    text = without_invisible(content)
    units: set[str] = set()
    inner: set[str] = set()
    for sentence in _SENTENCE_END.split(text) if any(map(str.islower, text)) else ():
        for place, run in enumerate(split_runs(sentence)):
            is_acronym = run.isupper() and sum(map(str.isalpha, run)) > 1
            if is_acronym or run[0].istitle():
                found = split_runs(fold(run))
                units.update(found)
                inner.update(found if is_acronym or place else ())
    return Capitals(frozenset(units), frozenset(inner))


def find_difference(ours: Sequence[str], theirs: Sequence[str]) -> Difference:
    """Find the differing units of two texts; plural variants are matched one to one (R28)."""
    mine, other = Counter(ours), Counter(theirs)
    mine, other = mine - other, other - mine
    for plural in sorted(unit for unit in (*mine, *other) if unit.endswith("s")):
        long, short = (mine, other) if plural in mine else (other, mine)
        for unit in list_singulars(plural):
            matched = min(short[unit], long[plural])
            short[unit] -= matched
            long[plural] -= matched
    return Difference(_drop_numbers(+mine), _drop_numbers(+other))


def list_singulars(plural: str) -> list[str]:
    """Give the units that a unit may be the plural of."""
    stems = [plural.removesuffix(ending) for ending in ("s", "es") if plural.endswith(ending)]
    return [stem for stem in stems if len(stem) >= _SHORTEST_SINGULAR]


def has_other_names(difference: Difference, ours: Capitals, theirs: Capitals) -> bool:
    """Tell whether differing units are names: on both sides, or one within a sentence (R28)."""
    mine, other = difference
    if mine & ours.units and other & theirs.units:
        return True
    return bool(mine & ours.inner or other & theirs.inner)


def has_other_order(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Tell whether the units that two texts share come in another order (R30)."""
    shared = set(ours).intersection(theirs)
    lists = ([unit for unit in units if unit in shared] for units in (ours, theirs))
    shorter, longer = sorted(lists, key=len)
    rest = iter(longer)
    return not all(unit in rest for unit in shorter)


def _drop_numbers(units: Collection[str]) -> frozenset[str]:
    return frozenset(unit for unit in units if not has_number(unit))
