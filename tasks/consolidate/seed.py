"""The seed profile in the job: memories folded one into the other, as the original does.

For comparison only: it drifts and it knows no guards. Source: spec/consolidate.md R12, R13.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from storage import StoreReader
from storage.errors import AdmissionError
from storage.merge_facts import count_visible, list_visible, read_facts
from storage.models import MemoryRecord
from storage.records import read_records
from tasks.consolidate.deciding import Merge
from tasks.rules.pairs import PairResult
from tasks.rules.seed_profile import fold_memories, judge_seed_pair, read_seed_text

SEED_PROFILE = "seed.near-duplicate.v1"
# Each memory is compared with every group: more of them take too long (R13).
_MOST = 5_000


@dataclass(frozen=True, slots=True)
class Seed:
    """The memories that are folded, in store order, and their decision facts."""

    visible: int
    memories: list[MemoryRecord]
    facts: Mapping[str, Mapping[str, Any]]


def read_seed(reader: StoreReader, namespace_id: int, *, now: datetime) -> Seed:
    """Read the memories that take part.

    Raises:
        AdmissionError: The namespace has too many for this profile.
    """
    visible = count_visible(reader, namespace_id, now=now)
    if visible > _MOST:
        message = f"{SEED_PROFILE} is for at most {_MOST} memories of a namespace, not {visible}"
        raise AdmissionError("consolidate.profile", message)
    names = list_visible(reader, namespace_id, now=now)
    records = read_records(reader, namespace_id, names)
    facts = read_facts(reader, namespace_id, names).to_pylist()
    return Seed(
        visible, [records[name] for name in names], {row["memory_id"]: row for row in facts}
    )


def fold_seed(seed: Seed, *, now: datetime) -> list[Merge]:
    """Fold the memories, each into the first group that it matches."""
    known = {one.id: one for one in seed.memories}
    merges = []
    for group in fold_memories(seed.memories, at=now):
        canonical_id, *losers = group.memory_ids
        for loser_id in losers:
            left, right = (
                read_seed_text(known[name].content, known[name].kind)
                for name in (canonical_id, loser_id)
            )
            is_exact = judge_seed_pair(left, right).result == PairResult.EXACT
            merges.append(Merge(loser_id, canonical_id, "exact" if is_exact else "near", None))
    return merges
