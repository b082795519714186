"""Pairs of memories whose stored vectors are near; what becomes of them is decided elsewhere.

A text is searched with once under a serving generation: what was found is stored, and a later run
reads vectors only where a text is new or too many of its partners went. The pairs are those that a
search with every text finds; where an index is asked, as far as that is exact.
Source: spec/consolidate.md R70, R71, R74.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage import Store
from storage.models import Namespace
from storage.namespaces import find_namespace
from storage.neighbours import Embedded, read_embedded
from storage.semantic_searches import (
    PAIR_SCHEMA,
    SEARCH_SCHEMA,
    Searches,
    read_searches,
    store_searches,
)
from storage.vectors import VectorStore
from tasks.near_vectors import compare_with_all
from tasks.rules.near_lists import EVERY, NearLists, Pairs, Places, no_floors
from tasks.served_vectors import ServedVectors

SCHEMA = pa.schema(
    [
        ("memory_id", pa.string()),
        ("partner_id", pa.string()),
        ("cosine", pa.float64()),
        ("is_truncated", pa.bool_()),
    ]
)
# Up to so many vectors are compared exactly, in memory; of more the index is asked.
EXACT_VECTORS = 100_000
# Of a text with very many partners, so many times k are stored: as many less k may go until it is
# searched with again.
_DEPTH = 2
# Runs that store at the same time make each other look again; at last nothing is stored.
_MOST_TRIES = 3

Obstacle = Literal["not_served", "not_indexed"]


@dataclass(frozen=True, slots=True)
class SemanticPairs:
    """The semantic pass of a namespace.

    Attributes:
        pairs: SCHEMA; each pair once, the older memory first, in order of the later one, then of
            the earlier. `is_truncated`: a vector of it stands for a part of its text only, so the
            pair supports no merge.
        obstacle: Why nothing was looked for: no verified publication of this store is served, or
            it is too large to be searched without an index.
        compared: Memories whose vector was compared with the others, in this run or an earlier one.
        unembeddable: Those without a vector, or with one that has no direction.
        stale: Those of which another content was embedded.
        truncated: Those of the compared ones whose vector stands for a part of the text.
        searched: Those of the compared ones that this run searched with.
    """

    pairs: pa.Table
    obstacle: Obstacle | None = None
    compared: int = 0
    unembeddable: int = 0
    stale: int = 0
    truncated: int = 0
    searched: int = 0


def find_semantic_pairs(  # noqa: PLR0913 - a search has this many choices
    store: Store,
    namespace: Namespace,
    *,
    threshold: float,
    k: int = 10,
    now: datetime,
    exact_vectors: int = EXACT_VECTORS,
) -> SemanticPairs:
    """Find the memories of a namespace whose vectors are at least this near.

    What the searches found is stored in the end, in one transaction.

    Args:
        store: The store; no lock may be held.
        namespace: The only namespace that is looked at.
        threshold: The smallest cosine, after rounding to six decimals.
        k: How many neighbours of each memory are looked at; of equal ones the older texts.
        now: The instant that expiry is judged at.
        exact_vectors: The most vectors that are compared without the index.

    Raises:
        IndexUnreadableError: The vectors cannot be read.
    """
    vectors = VectorStore(store.path)
    for _ in range(_MOST_TRIES):
        with store.read() as reader:
            owner = find_namespace(reader, namespace)
            served = None
            if owner is not None:
                served = read_embedded(reader, owner.namespace_id, store.path, now=now)
            if owner is None or served is None or served.vector_table not in vectors.tables():
                return SemanticPairs(SCHEMA.empty_table(), "not_served")
            known = read_searches(reader, owner.namespace_id, served.partition)
        search = _Search(vectors, served, known, depth=_DEPTH * k)
        if not search.complete(threshold, k, exact_vectors=exact_vectors):
            return SemanticPairs(SCHEMA.empty_table(), "not_indexed")
        if not search.is_changed:
            break
        with store.write() as writer:
            if store_searches(writer, search.list_known()):
                break
    return search.report(threshold, k)


class _Search:
    """One search of one publication; texts are known by their place in order of numbers."""

    def __init__(
        self, vectors: VectorStore, served: Embedded, known: Searches, *, depth: int
    ) -> None:
        self._served, self._known, self._depth = served, known, depth
        ages = pa.array(np.arange(served.members.num_rows))
        members = served.members.append_column("age", ages).combine_chunks()
        is_current = pc.equal(members.column("state"), "current")
        self._current = members.filter(is_current).sort_by("text_number")
        self._vectors = ServedVectors(vectors, served, self._current)
        self._lists = self._recall_lists()
        self._searched = np.empty(0, np.int64)

    def _recall_lists(self) -> NearLists:
        """Take from what is known the part that is about current texts."""
        numbers = self._current.column("text_number").to_numpy()
        floors, stored = no_floors(len(numbers)), self._known.searches
        places = _find_places(numbers, stored.column("text_number").to_numpy())
        is_current = places >= 0
        mine = places[is_current]
        floors.cosines[mine] = stored.column("floor_cosine").to_numpy()[is_current]
        floors.numbers[mine] = stored.column("floor_number").fill_null(EVERY).to_numpy()[is_current]
        left, right = (
            _find_places(numbers, self._known.pairs.column(name).to_numpy())
            for name in ("text_number", "partner_number")
        )
        pairs = Pairs(left, right, self._known.pairs.column("cosine").to_numpy())
        is_current = (left >= 0) & (right >= 0)
        return NearLists(numbers, floors, pairs.pick(is_current), depth=self._depth)

    @property
    def is_changed(self) -> bool:
        """Tell whether what is known is not what is stored."""
        known = self._known
        count = int(self._lists.is_searched.sum())
        return len(self._searched) > 0 or known.others > 0 or known.searches.num_rows != count

    def complete(self, threshold: float, k: int, *, exact_vectors: int) -> bool:
        """Search with the texts whose best partners are not certain; False: an index is needed."""
        missing = self._lists.find_unsearched(threshold, k)
        if len(missing) == 0:
            return True
        is_exact = len(self._current) <= exact_vectors
        if not is_exact and self._vectors.lacks_index():
            return False
        wanted = np.arange(len(self._current)) if is_exact else missing
        places, vectors = self._vectors.read(wanted)
        self._lists.forget(np.setdiff1d(wanted, places))
        self._searched = np.intersect1d(missing, places)
        least = self._lists.begin(self._searched, threshold)
        if is_exact:
            asked = np.flatnonzero(np.isin(places, missing))
            for left, right, cosines in compare_with_all(vectors, asked, least):
                self._lists.add(Pairs(places[left], places[right], cosines))
        else:
            # Beyond this many partners a text knows only its best ones.
            limit = 2 * self._depth + 1
            for pairs in self._vectors.ask_index(places, vectors, least, limit=limit):
                self._lists.add(pairs)
        self._lists.settle()
        return True

    def list_known(self) -> Searches:
        """List what is known now, to be stored."""
        lists = self._lists
        is_searched = lists.is_searched
        floors = lists.floors.numbers[is_searched]
        columns = [
            pa.array(lists.numbers[is_searched]),
            pa.array(lists.floors.cosines[is_searched]),
            pa.array(floors, mask=floors == EVERY),
        ]
        left, right, cosines = lists.pairs
        pairs = [pa.array(lists.numbers[left]), pa.array(lists.numbers[right]), pa.array(cosines)]
        return Searches(
            namespace_id=self._known.namespace_id,
            partition=self._known.partition,
            revision=self._known.revision,
            searches=pa.table(columns, schema=SEARCH_SCHEMA),
            pairs=pa.table(pairs, schema=PAIR_SCHEMA),
        )

    def report(self, threshold: float, k: int) -> SemanticPairs:
        """Say what was found."""
        is_compared = self._lists.is_searched
        compared = int(is_compared.sum())
        states = self._served.members.column("state")
        stale = pc.sum(pc.equal(states, "stale")).as_py() or 0
        return SemanticPairs(
            pairs=self._make_table(self._lists.find_nearest(threshold, k)),
            compared=compared,
            unembeddable=len(states) - stale - compared,
            stale=stale,
            truncated=int(self._current.column("is_truncated").to_numpy()[is_compared].sum()),
            searched=len(self._searched),
        )

    def _make_table(self, pairs: Pairs) -> pa.Table:
        ages = self._current.column("age").to_numpy()
        is_older = ages[pairs.left] < ages[pairs.right]
        older = np.where(is_older, pairs.left, pairs.right)
        younger = np.where(is_older, pairs.right, pairs.left)
        order = np.lexsort((ages[older], ages[younger]))
        older, younger = older[order], younger[order]
        is_truncated = self._current.column("is_truncated").to_numpy()
        ids = self._current.column("memory_id")
        columns = [
            ids.take(pa.array(older)),
            ids.take(pa.array(younger)),
            pa.array(pairs.cosines[order]),
            pa.array(is_truncated[older] | is_truncated[younger]),
        ]
        return pa.table(columns, schema=SCHEMA)


def _find_places(numbers: Places, wanted: Places) -> Places:
    """Give where numbers stand among ascending ones; -1 where they do not."""
    if len(numbers) == 0:
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[places] == wanted, places, -1)
