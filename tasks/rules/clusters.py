"""Clusters: which memories stand for one another, so that each passes with every other.

First fit over memories in order: a memory joins the oldest cluster in which it passes with all, or
opens one. Connected ones are never joined, so no chain drifts away from its beginning. Work grows
with the passing pairs, not with the memories. Source: spec/consolidate.md R40, R42-R44.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

# One change set absorbs at most this many losers (R44).
MAX_LOSERS = 127

Pair = tuple[str, str]
Passes = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Clustering:
    """All clusters in order of creation, those of one included, and the pairs that they part.

    `parted` are passing pairs whose memories ended in two clusters, reason `not_clique` (R43); both
    their members and they themselves are in order.
    """

    clusters: tuple[tuple[str, ...], ...]
    parted: tuple[Pair, ...]

    @property
    def merges(self) -> tuple[tuple[str, ...], ...]:
        """The clusters with something to merge: the canonical first, then its losers."""
        return tuple(cluster for cluster in self.clusters if len(cluster) > 1)

    @property
    def found(self) -> int:
        """How many losers there are."""
        return sum(len(cluster) - 1 for cluster in self.clusters)


def form_clusters(order: Sequence[str], passing: Iterable[Pair]) -> Clustering:
    """Form clusters of memories.

    Args:
        order: Memory ids by (created_at, id); ids of other memories in pairs are ignored.
        passing: Pairs that pass, in any order and direction; lineages are already judged.
    """
    places = {memory_id: place for place, memory_id in enumerate(order)}
    earlier = _find_earlier(places, passing)
    clusters: list[list[str]] = []
    home: dict[str, int] = {}
    for memory_id in order:
        fitting = Counter(home[partner] for partner in earlier[memory_id])
        whole = (number for number, passed in fitting.items() if passed == len(clusters[number]))
        number = min(whole, default=len(clusters))
        if number == len(clusters):
            clusters.append([])
        clusters[number].append(memory_id)
        home[memory_id] = number
    parted = [
        (partner, memory_id)
        for memory_id, partners in earlier.items()
        for partner in partners
        if home[partner] != home[memory_id]
    ]
    parted.sort(key=lambda pair: (places[pair[0]], places[pair[1]]))
    return Clustering(tuple(map(tuple, clusters)), tuple(parted))


def _find_earlier(places: Mapping[str, int], passing: Iterable[Pair]) -> dict[str, set[str]]:
    """Find with which earlier memories each one passes."""
    earlier: dict[str, set[str]] = {memory_id: set() for memory_id in places}
    for pair in passing:
        if pair[0] != pair[1] and places.keys() >= set(pair):
            first, second = sorted(pair, key=places.__getitem__)
            earlier[second].add(first)
    return earlier


def judge_lineages(
    passing: Iterable[Pair], lineages: Mapping[str, Sequence[str]], passes: Passes
) -> tuple[list[Pair], list[Pair]]:
    """Divide passing pairs into those that pass for their whole lineages, and the others (R42).

    Args:
        passing: Pairs of memories whose own texts pass.
        lineages: For each merged memory, names of the texts that its lineage brought in.
        passes: Tells whether two texts pass, by name; a memory's own text has the memory's id.

    Returns:
        The pairs that pass against every text of either lineage, and those that do not.
    """
    whole: list[Pair] = []
    broken: list[Pair] = []
    for one, other in passing:
        texts = product((one, *lineages.get(one, ())), (other, *lineages.get(other, ())))
        is_whole = all(left == right or passes(left, right) for left, right in texts)
        (whole if is_whole else broken).append((one, other))
    return whole, broken


def add_copies(
    clustering: Clustering, copies: Mapping[str, str], order: Sequence[str]
) -> Clustering:
    """Put copies into the clusters of the memories that represented them.

    A copy passes with whatever its representative passes with, so both end in one cluster.

    Args:
        clustering: Clusters of representatives, each the first of its copies in order.
        copies: Copy to representative; every representative is in `clustering`.
        order: All memories by (created_at, id).
    """
    home = {one: number for number, each in enumerate(clustering.clusters) for one in each}
    grown: defaultdict[int, list[str]] = defaultdict(list)
    for memory_id in order:
        grown[home[copies.get(memory_id, memory_id)]].append(memory_id)
    clusters = tuple(tuple(grown[number]) for number in range(len(clustering.clusters)))
    return Clustering(clusters, clustering.parted)
