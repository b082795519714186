"""The guards of polarity, antonyms and qualifiers: words that turn or limit what a text says.

Source: spec/consolidate.md R25-R27.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tasks.rules.lists import LISTS, any_of
from tasks.rules.normal_form import normal_form
from tasks.rules.tokens import LETTER, WORD, is_cjk, split_runs, split_words

BARE_CONTRACTIONS = frozenset(LISTS["neg_bare_contractions"])
STANDALONE = frozenset(LISTS["neg_hangul_standalone"])
_NEGATORS = frozenset(LISTS["neg_words"]) | BARE_CONTRACTIONS
_ABBREVIATION = "no. before a digit"
_IDIOMS = any_of(idiom for idiom in LISTS["neg_idioms"] if idiom != _ABBREVIATION)
_IDIOM = re.compile(rf"(?<!{LETTER})(?:(?:{_IDIOMS})(?!{LETTER})|no\. ?(?=[0-9]))")
_CJK_EXCEPTION = re.compile(any_of(LISTS["neg_cjk_exceptions"]))
_CJK_NEGATION = re.compile(any_of(LISTS["neg_cjk"]))
_QUALIFIERS = frozenset(LISTS["qualifiers"])
_CJK_QUALIFIER = re.compile(any_of(LISTS["qualifiers_cjk"]))
_PREFIXES = tuple(LISTS["antonym_prefixes"])
_SHORTEST_STEM = 4


class Side(NamedTuple):
    """One of the two sides of a pair of antonyms."""

    pair_id: str
    is_first: bool


def _read_sides() -> Mapping[str, list[Side]]:
    sides = defaultdict(list)
    for pair in LISTS["antonyms"]:
        for forms, is_first in ((pair["a"], True), (pair["b"], False)):
            for form in forms:
                sides[form].append(Side(pair["id"], is_first))
    return dict(sides)


SIDES = _read_sides()
CJK_ANTONYMS = tuple(filter(is_cjk, SIDES))
_CJK_ANTONYM = re.compile(any_of(CJK_ANTONYMS))


def is_negator(word: str) -> bool:
    """Tell whether a word of a normal form negates."""
    return word in _NEGATORS or word.endswith("n't")


def count_negations(text: str, *, without: Collection[str] = ()) -> int:
    """Count what negates in a text (R25), apart from the forms of some pairs of antonyms."""
    plain = normal_form(text)
    words = _split_without_idioms(plain)
    count = sum(is_negator(word) and not _belongs(word, without) for word in words)
    if plain.isascii():
        return count
    kept = _CJK_ANTONYM.sub(lambda form: " " if _belongs(form[0], without) else form[0], plain)
    count += len(_CJK_NEGATION.findall(_CJK_EXCEPTION.sub(" ", kept)))
    return count + sum(run in STANDALONE for run in split_runs(plain))


def find_sides(text: str) -> list[Side]:
    """Give the side of each antonym in a text, in alphabetical order (R26)."""
    plain = normal_form(text)
    forms = _split_without_idioms(plain)
    if not plain.isascii():
        forms += _CJK_ANTONYM.findall(plain)
    return sorted(side for form in forms for side in SIDES.get(form, ()))


def find_qualifiers(text: str) -> list[str]:
    """Give the words of a text that limit what it says, in alphabetical order (R27)."""
    words = [word for word in split_words(text) if word in _QUALIFIERS]
    return sorted(words + _CJK_QUALIFIER.findall(normal_form(text)))


def find_opposed(ours: Sequence[Side], theirs: Sequence[Side]) -> frozenset[str]:
    """Find the pairs of which one text has more of one side, the other more of the other."""
    mine, other = Counter(ours), Counter(theirs)
    more, less = mine - other, other - mine
    return frozenset(side.pair_id for side in more if Side(side.pair_id, not side.is_first) in less)


def count_prefixed(ours: Collection[str], theirs: Collection[str]) -> int:
    """Count units of one text only that are a prefix and a unit of the other text only."""
    mine, other = set(ours).difference(theirs), set(theirs).difference(ours)
    return _count_prefixed(mine, other) + _count_prefixed(other, mine)


def _split_without_idioms(plain: str) -> list[str]:
    return WORD.findall(_IDIOM.sub(" ", plain))


def _belongs(form: str, pair_ids: Collection[str]) -> bool:
    return any(side.pair_id in pair_ids for side in SIDES.get(form, ()))


def _count_prefixed(longer: Collection[str], shorter: Collection[str]) -> int:
    prefixed = [unit for unit in longer if unit.startswith(_PREFIXES)]
    stems = [
        unit[len(prefix) :] for unit in prefixed for prefix in _PREFIXES if unit.startswith(prefix)
    ]
    return sum(len(stem) >= _SHORTEST_STEM and stem in shorter for stem in stems)
