"""The pair rules of consolidation against the vectors, and the word lists against theirs."""

from collections.abc import Mapping
from itertools import combinations, starmap
from typing import Any

from helpers.consolidation import Json, cases, load_consolidation, prepare_side
from helpers.rows import NOW

from storage.fingerprints import fingerprint as seed_fingerprint
from storage.models import Kind, MemoryRecord
from tasks.rules.conflicts import SharedKey, find_series, list_keys
from tasks.rules.figures import find_figures
from tasks.rules.lists import LISTS
from tasks.rules.pairs import PairResult, PairVerdict, judge_pair
from tasks.rules.polarity import count_negations
from tasks.rules.prepared import Prepared, prepare
from tasks.rules.seed_profile import fold_memories, judge_seed_pair, read_seed_text
from tasks.rules.tokens import fingerprint, fingerprint_key

_GUARDS = load_consolidation()["lists"]["guard_order"]


def assert_is(verdict: PairVerdict, expected: Mapping[str, Any]) -> None:
    """Compare a verdict with all that its vector says."""
    assert verdict.result == expected["result"]
    found = {"shared": verdict.shared, "union": verdict.union}
    assert found == {**found, **{name: expected[name] for name in found if name in expected}}
    why = (expected["why"],) if "why" in expected else tuple(expected.get("reasons", ()))
    assert verdict.reasons == why
    classes = [] if verdict.conflict_class is None else [verdict.conflict_class.value]
    assert classes == expected.get("conflict", [])


def test_shipped_lists_are_those_of_the_vectors() -> None:
    assert load_consolidation()["lists"] == LISTS


@cases("fp_v1")
def test_seed_fingerprint(case: Json) -> None:
    assert seed_fingerprint(case["input"]["text"]) == case["expect"]["fingerprint"]


@cases("pair_v1")
def test_seed_pair(case: Json) -> None:
    given = case["input"]
    left, right = (read_seed_text(given[side], given[f"kind_{side}"]) for side in "ab")
    assert_is(judge_seed_pair(left, right), case["expect"])
    assert judge_seed_pair(right, left) == judge_seed_pair(left, right)


@cases("fold_v1")
def test_seed_fold(case: Json) -> None:
    records = [MemoryRecord(**row, created_at=NOW, updated_at=NOW) for row in case["input"]["rows"]]
    groups = fold_memories(records, at=NOW)
    assert [list(group.memory_ids) for group in groups] == case["expect"]["groups"]
    assert [group.record.content for group in groups] == case["expect"]["content"]


@cases("tokens_v2")
def test_tokens(case: Json) -> None:
    prepared = prepare(case["input"]["text"], kind=Kind.SEMANTIC, namespace_id=1)
    assert sorted(prepared.tokens) == sorted(case["expect"]["tokens"])
    assert prepared.fingerprint == case["expect"]["fingerprint"]


@cases("fp_v2_hash")
def test_fingerprint_key(case: Json) -> None:
    words = fingerprint(case["input"]["text"])
    assert words == case["expect"]["fingerprint"]
    assert fingerprint_key(words).hex() == case["expect"]["sha256"]


@cases("figures")
def test_figures(case: Json) -> None:
    assert find_figures(case["input"]["text"]) == case["expect"]["figures"]


@cases("negations")
def test_negations(case: Json) -> None:
    assert count_negations(case["input"]["text"]) == case["expect"]["count"]


@cases("pair_v2")
def test_pair(case: Json) -> None:
    left, right = (prepare_side(case["input"], side) for side in "ab")
    verdict = judge_pair(left, right)
    assert_is(verdict, case["expect"])
    assert judge_pair(right, left) == verdict
    if verdict.result != PairResult.NONE:
        places = [_GUARDS.index(reason) for reason in verdict.reasons]
        assert places == sorted(places)


@cases("series")
def test_series(case: Json) -> None:
    rows = [
        prepare(row["content"], kind=row["kind"], namespace_id=1) for row in case["input"]["rows"]
    ]
    series = find_series(rows)
    pairs = sum(
        starmap(lambda left, right: _is_reported(left, right, series), combinations(rows, 2))
    )
    assert {"pairs": pairs, "series": len(series)} == case["expect"]


def _is_reported(left: Prepared, right: Prepared, series: frozenset[SharedKey]) -> bool:
    found = judge_pair(left, right).conflict_class
    shared = {key for key, _ in list_keys(left)} & {key for key, _ in list_keys(right)}
    return found is not None and not any(key.conflict_class == found for key in shared & series)
