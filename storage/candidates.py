"""Candidates of consolidation: which memories may say the same, found by joins, never pair by pair.

Exact groups share a stored fingerprint key. Near pairs share at least two of their rarest tokens
(a prefix of n - ceil(43n/50) + 2), have sizes that can reach the threshold, and pass the exact
Jaccard test in integers; no pair that passes is missed. Keys are hashes: whoever uses the answer
judges the texts again. Source: spec/consolidate.md R60-R63, DESIGN 10.15, 10.16.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from storage.gateway import StoreReader
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "candidates")

# R32: texts with fewer tokens are never near.
FEWEST_TOKENS = 5
# A text has about (0.14 n)^2 / 2 pairs of prefix tokens: above this size, single ones are used.
LONGEST_IN_PAIRS = 64
# DESIGN 10.15: a memory with more partners is one line in the report.
LARGEST_FAMILY = 500
# How many candidates may stand for one pair before it is cheaper not to ask (each prefix key that
# two texts share is one).
_CANDIDATES_PER_PAIR = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """When the near pass is not worth its price; `max_pairs` counts verified pairs (R63)."""

    max_pairs: int = 2_000_000
    largest_family: int = LARGEST_FAMILY


@dataclass(frozen=True, slots=True)
class NearPairs:
    """The near pass of a namespace.

    Attributes:
        pairs: memory_id, partner_id (the later one), shared, union: token counts. In order of
            the later one, then of the earlier. Memories of `families` are in none.
        families: memory_id, partners: memories with more partners than a family may have; of the
            largest families, the partners in a sample.
        is_over_budget: There were too many pairs, or candidates; then `pairs` is empty.
    """

    pairs: pa.Table
    families: pa.Table
    is_over_budget: bool


@dataclass(frozen=True, slots=True)
class Candidates:
    """One look at the candidates of a namespace, in one transaction."""

    reader: StoreReader
    namespace_id: int

    def list_copies(self) -> pa.Table:
        """List what is left out elsewhere: memory_id, and representative_id for its equal text."""
        return self.reader.table(_SQL["list_copies"])

    def list_exact_groups(self) -> pa.Table:
        """List key_hash, memory_id of representatives that share a fingerprint key, in order."""
        return self.reader.table(_SQL["list_exact_groups"])

    def list_key_groups(self, key_kind: str) -> pa.Table:
        """List key_hash, memory_id of representatives that share a key of this kind, in order."""
        params = {"namespace_id": self.namespace_id, "key_kind": key_kind}
        return self.reader.table(_SQL["list_key_groups"], params)

    def find_near_pairs(self, limits: Limits = Limits()) -> NearPairs:
        """Find the pairs of representatives of one kind that pass the exact Jaccard test."""
        self._gather_keys(limits)
        if self._count("count_candidates") > _CANDIDATES_PER_PAIR * limits.max_pairs:
            return NearPairs(_NO_PAIRS, self._list_families(), is_over_budget=True)
        self._run("gather_pairs", longest=LONGEST_IN_PAIRS, **self._owner)
        self._run("gather_families", largest_family=limits.largest_family)
        self._run("drop_families")
        families = self._list_families()
        if self._count("count_pairs") > limits.max_pairs:
            return NearPairs(_NO_PAIRS, families, is_over_budget=True)
        return NearPairs(self.reader.table(_SQL["list_pairs"]), families, is_over_budget=False)

    def _gather_keys(self, limits: Limits) -> None:
        """Gather the keys of all texts but those of large families."""
        self._run("gather_prefixes", fewest_tokens=FEWEST_TOKENS, **self._owner)
        self._run("gather_keys", longest=LONGEST_IN_PAIRS)
        self._run("gather_questions", fewest_tokens=FEWEST_TOKENS)
        largest = {"largest_family": limits.largest_family, "longest": LONGEST_IN_PAIRS}
        self._run("gather_large_families", **largest, **self._owner)
        self._run("drop_keys_of_families")
        self._run("drop_questions_of_families")

    @property
    def _owner(self) -> dict[str, int]:
        return {"namespace_id": self.namespace_id}

    def _run(self, statement: str, **params: int) -> None:
        self.reader.rows(_SQL[statement], params)

    def _list_families(self) -> pa.Table:
        return self.reader.table(_SQL["list_families"])

    def _count(self, statement: str) -> int:
        return int(self.reader.rows(_SQL[statement])[0][0])


_NO_PAIRS = pa.table(
    {"memory_id": pa.array([], pa.string()), "partner_id": pa.array([], pa.string())}
    | {name: pa.array([], pa.int64()) for name in ("shared", "union")}
)


def gather_candidates(
    reader: StoreReader,
    namespace_id: int,
    *,
    profile: str,
    now: datetime,
    alone: Collection[str] = (),
) -> Candidates:
    """Gather the memories of a namespace that take part in consolidation.

    Active ones that have not expired at `now` and have at least one token; what they are compared
    by has to be stored under this profile (`storage.duplicate_texts`).

    Args:
        reader: An open handle; nothing is stored, temporary tables go with its transaction.
        namespace_id: The only namespace that is read.
        profile: The detection profile.
        now: The instant that expiry is judged at.
        alone: Ids of memories that no equal text may represent, nor they another: they have a
            lineage, relations or marks of their own.
    """
    reader.define(_SQL["define_bounds"])
    owner = {"namespace_id": namespace_id, "profile": profile}
    reader.rows(_SQL["gather_members"], {**owner, "now": now, "alone": list(alone)})
    return Candidates(reader, namespace_id)
