"""BM25 over a few English texts: what a good search by words alone would give.

Stop words are left out and common endings cut off, which the product's lexical profiles, made for
any language, do not do.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

_K1 = 1.2
_B = 0.75
_WORD = re.compile(r"[a-z0-9]+")
_STOP_WORDS = frozenset(
    _WORD.findall(
        "a about after all also an and any are as at be been before both but by can could "
        "did do does for from had has have he her him his how i if in into is it its may "
        "me might more most my no not of on or other our out over s she should so some "
        "such t than that the their them then there these they this those to up was we "
        "were what when where which while who whom whose why will with would you your"
    )
)
_ENDINGS = ("ings", "ing", "ies", "ied", "ed", "es", "ly", "s")
_SHORTEST_STEM = 3


class Ranking:
    """The texts of one namespace, ready to be ranked."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Count the terms of the texts."""
        self._counts = [Counter(list_terms(text)) for text in texts]
        self._held = Counter(term for counts in self._counts for term in counts)
        lengths = [counts.total() for counts in self._counts]
        mean = max(sum(lengths), 1) / max(len(texts), 1)
        self._norms = [_K1 * (1 - _B + _B * length / mean) for length in lengths]

    def rank(self, text: str, limit: int) -> list[int]:
        """Give the places of the best texts, best first; texts without a common term never."""
        asked = {term: self._weigh(term) for term in list_terms(text) if term in self._held}
        scores = [
            math.fsum(
                weight * counts[term] * (_K1 + 1) / (counts[term] + norm)
                for term, weight in asked.items()
            )
            for counts, norm in zip(self._counts, self._norms, strict=True)
        ]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        return [place for place in order[:limit] if scores[place] > 0]

    def _weigh(self, term: str) -> float:
        held = self._held[term]
        return math.log(1 + (len(self._counts) - held + 0.5) / (held + 0.5))


def list_terms(text: str) -> list[str]:
    """List the stems of the words that carry meaning."""
    return [_cut(word) for word in _WORD.findall(text.casefold()) if word not in _STOP_WORDS]


def _cut(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word
