"""Candidates of consolidation: which memories may say the same, found by joins, never pair by pair.

Exact groups share a stored fingerprint key. Near pairs share at least two of their rarest tokens
(a prefix of n - ceil(43n/50) + 2), have sizes that can reach the threshold, and pass the exact
Jaccard test in integers; no pair that passes is missed. Keys are hashes: whoever uses the answer
judges the texts again. Source: spec/consolidate.md R60-R63, DESIGN 10.15, 10.16.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

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
# R33: a key under which texts differ in more ways is a series.
MOST_VALUES = 4
# How many candidates may stand for one pair before it is cheaper not to ask (each prefix key that
# two texts share is one).
_CANDIDATES_PER_PAIR = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """When the near pass is not worth its price; `max_pairs` counts verified pairs (R63)."""

    max_pairs: int = 2_000_000
    largest_family: int = LARGEST_FAMILY


class OpenPair(NamedTuple):
    """Two texts by number, the smaller first, with the kinds that their memories have."""

    text_number: int
    partner_number: int
    kind: str
    partner_kind: str


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
class Found:
    """What one search gave.

    Attributes:
        pairs: one, other (text numbers, the smaller first), is_declared (they share a slot).
        families: memory_id, partners: memories left out, as they have too many partners.
        is_over_budget: There were too many near pairs; none of them is among the found ones.
        has_too_many_keys: The same for pairs that share a key of contradictions.
    """

    pairs: pa.Table
    families: pa.Table
    is_over_budget: bool
    has_too_many_keys: bool


@dataclass(frozen=True, slots=True)
class Candidates:
    """One look at the candidates of a namespace, in one transaction."""

    reader: StoreReader
    namespace_id: int

    def find_pairs(self, limits: Limits = Limits()) -> Found:
        """Find all pairs to look at: exact and near ones, and those that share a key.

        The methods that list pairs are about these ones.
        """
        is_over_budget = not self._gather_near(limits)
        if is_over_budget:
            self._run("drop_pairs")
        largest = {"largest_family": limits.largest_family}
        self._run("gather_exact_pairs", **largest)
        self._run("gather_exact_families", **largest)
        self._gather_series()
        is_within = self._count("count_key_pairs") <= limits.max_pairs
        self._run("gather_key_pairs", is_within=is_within)
        self._run("gather_found")
        return Found(
            pairs=self.reader.table(_SQL["list_found"]),
            families=self._list_families(),
            is_over_budget=is_over_budget,
            has_too_many_keys=not is_within,
        )

    def take_pairs(self, found: Found) -> None:
        """Take the pairs of an earlier look; those whose texts are gone are in no list."""
        self._gather_series()
        columns = {name: found.pairs.column(name).to_pylist() for name in found.pairs.column_names}
        self.reader.rows(_SQL["gather_known"], columns)

    def find_near_pairs(self, limits: Limits = Limits()) -> NearPairs:
        """Find the pairs of representatives of one kind that pass the exact Jaccard test."""
        if self._gather_near(limits):
            return NearPairs(
                self.reader.table(_SQL["list_pairs"]), self._list_families(), is_over_budget=False
            )
        return NearPairs(_NO_PAIRS, self._list_families(), is_over_budget=True)

    def list_copies(self) -> pa.Table:
        """List what is left out elsewhere: memory_id, and representative_id for its equal text."""
        return self.reader.table(_SQL["list_copies"])

    def list_series(self) -> list[tuple[str, str, int]]:
        """List the keys under which texts differ in too many ways: kind, a memory, its texts."""
        return self.reader.rows(_SQL["list_series"])

    def find_serial_keys(self, numbers: Collection[int]) -> dict[int, set[tuple[str, int]]]:
        """Find which of these texts are in a series, each with the keys of its series."""
        found: dict[int, set[tuple[str, int]]] = {}
        rows = self.reader.rows(_SQL["list_serial_keys"], {"numbers": list(numbers)})
        for number, key_kind, key_hash in rows:
            found.setdefault(number, set()).add((key_kind, key_hash))
        return found

    def list_open_pairs(self) -> list[OpenPair]:
        """List the found pairs that have no verdict yet."""
        rows = self.reader.rows(_SQL["list_open_pairs"], self._owner)
        return [OpenPair(*row) for row in rows]

    def list_verdicts(self) -> pa.Table:
        """List what is known of the found pairs.

        Returns:
            memory_id, partner_id (the later one), result, reasons (a list), conflict_class, shared,
            union_size; in order of the later one, then of the earlier. Pairs that an expiry, an
            edge or a mark keeps apart are `similar`; pairs of texts alike in nothing are left out.
        """
        return self.reader.table(_SQL["list_verdicts"], self._owner)

    def sort_members(self, ids: Collection[str]) -> list[str]:
        """Sort members by (created_at, id)."""
        rows = self.reader.rows(_SQL["list_order"], {"ids": list(ids)})
        return [memory_id for (memory_id,) in rows]

    def _gather_series(self) -> None:
        self._run("gather_keys_of_members", **self._owner)
        self._run("gather_series", most_values=MOST_VALUES)

    def _gather_near(self, limits: Limits) -> bool:
        """Gather near pairs and families; False where that would be too many."""
        self._gather_keys(limits)
        is_worth_it = self._count("count_candidates") <= _CANDIDATES_PER_PAIR * limits.max_pairs
        self._run("gather_pairs", longest=LONGEST_IN_PAIRS, is_within=is_worth_it, **self._owner)
        self._run("gather_families", largest_family=limits.largest_family)
        self._run("drop_families")
        return is_worth_it and self._count("count_pairs") <= limits.max_pairs

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
    reader: StoreReader, namespace_id: int, *, profile: str, now: datetime
) -> Candidates:
    """Gather the memories of a namespace that take part in consolidation.

    Active ones that have not expired at `now` and have at least one token; what they are compared
    by has to be stored under this profile (`storage.duplicate_texts`).

    Args:
        reader: An open handle; nothing is stored, temporary tables go with its transaction.
        namespace_id: The only namespace that is read.
        profile: The detection profile.
        now: The instant that expiry is judged at.
    """
    reader.define(_SQL["define_bounds"])
    owner = {"namespace_id": namespace_id, "profile": profile}
    reader.rows(_SQL["gather_members"], {**owner, "now": now})
    return Candidates(reader, namespace_id)
