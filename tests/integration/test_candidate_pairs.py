"""All pairs that a run looks at: copies, exact and near ones, those that share a key."""

from datetime import timedelta
from itertools import combinations
from typing import Any

from helpers.candidates import as_mapping, find_copies, find_open, number_texts
from helpers.consolidation import cases
from helpers.duplicates import PROFILE, fill
from helpers.rows import NOW

from storage import Store
from storage.candidates import (
    MOST_VALUES,
    Limits,
    gather_candidates,
)
from storage.instants import parse_instant
from storage.merge_receipts import keep_apart
from storage.models import Namespace
from storage.namespaces import ensure_namespace

Row = dict[str, Any]

_OWNERS = Namespace(tenant="t", principal="p", scope="many")
_BASE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


def test_copies_are_represented_by_the_oldest(store: Store, namespace_id: int) -> None:
    texts = [f"{_BASE} x", _BASE, _BASE, _BASE, f"{_BASE}.", _BASE, _BASE]
    rows = number_texts(*texts)
    rows[1]["created_at"] = rows[6]["created_at"]
    rows[4]["kind"] = rows[5]["kind"] = "episodic"
    rows[6]["expires_at"] = NOW + timedelta(days=1)
    fill(store, namespace_id, *rows)
    with store.read() as reader:
        candidates = gather_candidates(reader, namespace_id, profile=PROFILE, now=NOW)
        assert find_copies(candidates) == {"m0001": "m0002", "m0003": "m0002"}
        stand = ["m0000", "m0002", "m0004", "m0005", "m0006"]
        assert find_open(candidates) == set(combinations(stand, 2))
        assert as_mapping(candidates.find_near_pairs()) == {
            ("m0000", "m0002"): (14, 15),
            ("m0000", "m0006"): (14, 15),
            ("m0002", "m0006"): (14, 14),
            ("m0004", "m0005"): (14, 14),
        }


def test_memories_that_stand_alone_represent_nobody(store: Store, namespace_id: int) -> None:
    rows = number_texts(*[_BASE] * 6)
    rows[5]["metadata"] = {"slot": "x"}
    fill(store, namespace_id, *rows)
    with store.write() as writer:
        keep_apart(writer, namespace_id, {"m0000": "1", "m0002": "2"}, clock=NOW)
        candidates = gather_candidates(writer, namespace_id, profile=PROFILE, now=NOW)
        assert find_copies(candidates) == {"m0003": "m0001", "m0004": "m0001"}
        assert find_open(candidates) == set(combinations(["m0000", "m0001", "m0002", "m0005"], 2))


def test_only_live_active_memories_with_tokens_take_part(store: Store, namespace_id: int) -> None:
    rows = number_texts(*[_BASE] * 5, "!!!", "!!!", "one", "one")
    for row, status in zip(rows, ["candidate", "superseded", "conflicted"], strict=False):
        row["status"] = status
    rows[3]["expires_at"] = NOW
    fill(store, namespace_id, *rows)
    with store.write() as writer:
        other = ensure_namespace(writer, _OWNERS).namespace_id
    fill(store, other, *number_texts(_BASE, _BASE))
    with store.read() as reader:
        mine = gather_candidates(reader, namespace_id, profile=PROFILE, now=NOW)
        assert (find_copies(mine), find_open(mine)) == ({"m0008": "m0007"}, {("m0004", "m0007")})
        theirs = gather_candidates(reader, other, profile=PROFILE, now=NOW)
        assert find_copies(theirs) == {"m0001": "m0000"}
        unknown = gather_candidates(reader, other, profile="another", now=NOW)
        assert find_copies(unknown) == {}


def test_memories_with_an_equal_further_key_are_found(store: Store, namespace_id: int) -> None:
    fill(store, namespace_id, *number_texts("a b", "c d", "a e", "a b", "c", "f"))
    with store.read() as reader:
        candidates = gather_candidates(reader, namespace_id, profile=PROFILE, now=NOW)
        assert find_open(candidates) == {("m0000", "m0002"), ("m0001", "m0004")}
        assert candidates.list_series() == []


def test_key_with_many_values_is_a_series_and_no_pairs(store: Store, namespace_id: int) -> None:
    fill(
        store, namespace_id, *number_texts(*[f"a {n}" for n in range(MOST_VALUES + 1)], "c", "c d")
    )
    with store.read() as reader:
        candidates = gather_candidates(reader, namespace_id, profile=PROFILE, now=NOW)
        assert find_open(candidates) == {("m0005", "m0006")}
        assert candidates.list_series() == [("first", "m0000", MOST_VALUES + 1)]


def test_too_many_pairs_of_keys_are_not_looked_at(store: Store, namespace_id: int) -> None:
    fill(store, namespace_id, *number_texts("a b", "a c", "a d"))
    with store.read() as reader:
        candidates = gather_candidates(reader, namespace_id, profile=PROFILE, now=NOW)
        found = candidates.find_pairs(Limits(max_pairs=2))
        assert (found.has_too_many_keys, candidates.list_open_pairs()) == (True, [])


@cases("plan_v2")
def test_candidates_hold_what_the_plans_of_the_vectors_merge(case: Row, store: Store) -> None:
    """Whatever a vector merges or lists is a copy, in one exact group or a near pair."""
    owners: dict[str, list[Row]] = {}
    for row in case["input"]["rows"]:
        owners.setdefault(row.get("ns", ""), []).append(row)
    met: set[frozenset[str]] = set()
    for owner, rows in enumerate(owners.values(), 50):
        plain = [{name: row[name] for name in row if name != "ns"} for row in rows]
        fill(store, owner, *map(read_instants, plain))
        with store.read() as reader:
            candidates = gather_candidates(reader, owner, profile=PROFILE, now=NOW)
            met |= set(map(frozenset, find_copies(candidates).items()))
            met |= set(map(frozenset, as_mapping(candidates.find_near_pairs())))
            met |= set(map(frozenset, find_open(candidates)))
    expected = case["expect"]
    listed = [(one, other) for one, other, _ in expected["similar"]]
    merged = [(one, loser) for one, *losers in expected["clusters"] for loser in losers]
    assert {frozenset(pair) for pair in [*listed, *merged]} <= met
    if not expected["conflicts"] and not listed and not merged:
        assert not met


def read_instants(row: Row) -> Row:
    names = [name for name in ("created_at", "expires_at") if row.get(name)]
    return row | {name: parse_instant(row[name]) for name in names}
