"""Erase: every trace of a memory leaves both stores, it is proved, and nobody else is touched."""

from pathlib import Path

import pytest
from helpers.erasures import (
    erase,
    fill,
    proof_of,
    read_vectors,
    recall,
    refresh,
    remember,
)
from helpers.rows import NOW
from helpers.runs import dump_namespace, dump_tables, plan_id_of, request_job, run_one

from storage import Store
from storage.invariants import check_invariants
from storage.models import Namespace
from storage.namespaces import find_namespace
from tasks.erasing.selection import ErasePolicy
from tasks.inline import preview_job, run_job
from tasks.limits import SafetyLimits
from tasks.policies import PrunePolicy

A, B = (Namespace(tenant="t", principal="p", scope=scope) for scope in ("a", "b"))
PUBLISHED = """
SELECT u.*
FROM publications AS u
WHERE u.namespace_id = $namespace_id
ORDER BY u.publication_id
"""
PUBLISHED_ROWS = """
SELECT r.*
FROM publication_rows AS r
INNER JOIN publications AS u ON u.publication_id = r.publication_id
WHERE u.namespace_id = $namespace_id
ORDER BY ALL
"""
POINTERS = "SELECT * FROM partitions WHERE namespace_id = $namespace_id ORDER BY ALL"
NAMED = "SELECT DISTINCT place FROM named_memories WHERE memory_id = $id ORDER BY place"


def read_index(store: Store, namespace: Namespace) -> list[object]:
    """Read all that a namespace has in the index: pointers, publications, their rows, vectors."""
    with store.read() as reader:
        owner = find_namespace(reader, namespace)
        assert owner is not None
        own = {"namespace_id": owner.namespace_id}
        rows = [reader.rows(one, own) for one in (POINTERS, PUBLISHED, PUBLISHED_ROWS)]
    partitions = {row[0] for row in rows[0]}
    vectors = [row for row in read_vectors(store) if row["partition"] in partitions]
    return [*rows, sorted(vectors, key=lambda row: str(row["record_id"]))]


def assert_sound(store: Store) -> None:
    with store.read() as reader:
        assert [check for check in check_invariants(reader) if check.broken] == []


def test_all_150_memories_of_a_subject_go_and_the_other_subject_stays_c10(
    store: Store, tmp_path: Path
) -> None:
    ours = [remember(f"a{n}", f"what u1 said, number {n}", tags=["subject:u1"]) for n in range(150)]
    other = [remember(f"b{n}", f"what u2 said, number {n}", tags=["subject:u2"]) for n in range(5)]
    fill(store, tmp_path / "in.jsonl", *ours, *other)
    refresh(store)
    with store.read() as reader:
        before = reader.rows("SELECT * FROM memories WHERE id LIKE 'b%' ORDER BY id")
    result = erase(store, tag="subject:u1")
    assert (result.end.outcome, result.end.found, result.end.applied) == ("applied", 150, 150)
    said = proof_of(store, result)
    assert (said["phase"], said["memories"]) == ("proved", 150)
    assert (said["proof"]["memories"], said["proof"]["remaining"]) == (150, 0)
    assert said["proof"]["needles"] == 300
    with store.read() as reader:
        assert reader.rows("SELECT * FROM memories ORDER BY id") == before
    assert sorted(row["memory_id"] for row in read_vectors(store)) == [f"b{n}" for n in range(5)]
    assert_sound(store)


def test_other_namespace_is_untouched_and_an_empty_selector_is_refused_c11(
    store: Store, tmp_path: Path
) -> None:
    for namespace in (A, B):
        lines = [remember(f"m{n}", f"{namespace.scope} said it {n} times") for n in range(3)]
        fill(store, tmp_path / "in.jsonl", *lines, namespace=namespace)
        refresh(store, namespace)
    rows, index = dump_namespace(store, B), read_index(store, B)
    result = erase(store, namespace=A, whole_namespace=True)
    assert (result.end.outcome, result.end.applied) == ("applied", 3)
    assert (dump_namespace(store, B), read_index(store, B)) == (rows, index)
    assert {row["memory_id"] for row in read_vectors(store)} == {"m0", "m1", "m2"}
    assert len(read_vectors(store)) == 3
    assert dump_namespace(store, A)["memories"] == []
    for empty in ({}, {"tag": "subject:"}, {"tag": ""}, {"tag": "work"}, {"ids": ("",)}):
        with pytest.raises(ValueError, match="ErasePolicy"):
            ErasePolicy(**empty)
    unnamed = erase_everywhere(store)
    assert unnamed == {"refused"}
    assert dump_namespace(store, B) == rows


def erase_everywhere(store: Store) -> set[str]:
    policy = ErasePolicy(whole_namespace=True)
    request = request_job(store, job="erase", policy=policy, mode="apply", now=NOW)
    return {result.end.outcome for result in run_job(request)}


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("it's_a_note", id="C47-quote"),
        pytest.param("x' OR '1'='1", id="C47-injection"),
        pytest.param('he said "no" \\ % _ {ü}', id="C47-json"),
        pytest.param("a:b:3", id="C47-colons"),
    ],
)
def test_hostile_id_takes_exactly_its_own_row(store: Store, tmp_path: Path, target: str) -> None:
    where = Namespace(tenant="t", principal="p", scope="a' OR 1=1 --")
    names = [target, "plain", "x", "1", "a", "a:b", f"{target}!"]
    lines = [remember(name, f"the text number {n}") for n, name in enumerate(names)]
    fill(store, tmp_path / "in.jsonl", *lines, namespace=where)
    refresh(store, where)
    result = erase(store, target, namespace=where)
    assert (result.end.outcome, result.end.applied) == ("applied", 1)
    left = {row[1] for row in dump_namespace(store, where)["memories"]}
    assert left == set(names) - {target}
    assert {row["memory_id"] for row in read_vectors(store)} == left
    result = erase(store, namespace=where, whole_namespace=True)
    assert result.end.applied == len(left)
    assert read_vectors(store) == []


def test_search_after_an_erasure_in_the_same_process_finds_nothing_c51(
    store: Store, tmp_path: Path
) -> None:
    lines = [remember("m1", "the cat sleeps on the mat"), remember("m2", "a dog barks at night")]
    fill(store, tmp_path / "in.jsonl", *lines)
    refresh(store)
    assert [hit.memory_id for hit in recall(store, "the cat sleeps on the mat")] == ["m1"]
    assert erase(store, "m1").end.outcome == "applied"
    assert recall(store, "the cat sleeps on the mat") == ()
    assert [hit.memory_id for hit in recall(store, "a dog barks at night")] == ["m2"]


def test_second_erasure_does_nothing(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"), remember("m2", "the dog"))
    refresh(store)
    erase(store, "m1")
    tables = dump_tables(store, without=["runs", "leases"])
    file = (store.path / "memory.duckdb").stat().st_ino
    again = erase(store, "m1")
    assert (again.end.outcome, again.end.skipped) == ("unchanged", {"already_erased": 1})
    assert dump_tables(store, without=["runs", "leases"]) == tables
    assert (store.path / "memory.duckdb").stat().st_ino == file


def test_next_refresh_publishes_the_rest_from_reuse(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "in.jsonl", *(remember(f"m{n}", f"text {n}") for n in range(4)))
    first = refresh(store)
    erase(store, "m2")
    result = refresh(store)
    assert result.end.outcome == "applied"
    assert first.end.figures["embed_inputs"] == 4
    assert result.end.figures.get("embed_inputs", 0) == 0
    assert result.end.figures["reuse_hits"] == 3
    assert {row["memory_id"] for row in read_vectors(store)} == {"m0", "m1", "m3"}


def test_neighbour_loses_its_edge_with_one_revision(store: Store, tmp_path: Path) -> None:
    edge = [{"kind": "related_to", "target_id": "m1"}]
    lines = [remember("m1", "the cat"), remember("m2", "the dog", relations=edge)]
    fill(store, tmp_path / "in.jsonl", *lines)
    with store.read() as reader:
        ((before,),) = reader.rows("SELECT revision FROM memories WHERE id = 'm2'")
    erase(store, "m1")
    with store.read() as reader:
        assert reader.rows("SELECT id, revision FROM memories") == [("m2", before + 1)]
        assert reader.rows("SELECT * FROM relations") == []
        assert reader.rows(NAMED, {"id": "m1"}) == []
    assert_sound(store)


def test_plan_that_was_made_before_leaves_it_alone_and_adds_up(
    store: Store, tmp_path: Path
) -> None:
    old = {"created_at": "2025-01-01T00:00:00Z", "importance": 0.1}
    fill(store, tmp_path / "in.jsonl", *(remember(f"m{n}", f"text {n}", **old) for n in range(3)))
    asked = {"job": "prune", "policy": PrunePolicy(), "now": NOW}
    planned = run_one(request_job(store, **asked))
    applied = run_one(request_job(store, **asked, mode="apply", plan_id=plan_id_of(planned)))
    assert applied.end.applied == 3
    later = {"created_at": "2025-02-01T00:00:00Z", "importance": 0.1}
    fill(store, tmp_path / "in.jsonl", *(remember(f"n{n}", f"note {n}", **later) for n in range(3)))
    second = run_one(request_job(store, **asked))
    assert erase(store, "m1", "n1").end.applied == 2
    with store.read() as reader:
        for name in ("m1", "n1"):
            assert reader.rows(NAMED, {"id": name}) == []
    assert_sound(store)
    done = run_one(request_job(store, **asked, mode="apply", plan_id=plan_id_of(second)))
    assert (done.end.outcome, done.end.applied) == ("applied", 2)
    assert done.end.skipped == {"changed_since_plan": 1}
    assert_sound(store)


def test_plan_lists_all_without_a_word_of_content(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the secret cat", tags=["subject:u1"]))
    policy = ErasePolicy(tag="subject:u1")
    before = dump_tables(store)
    (plan,) = preview_job(request_job(store, job="erase", policy=policy, now=NOW))
    assert plan["decisions"] == [
        {
            "id": "m1",
            "reason": "named",
            "action": "erase",
            "expected_revision": 1,
            "status": "active",
        }
    ]
    assert "secret" not in str(plan)
    assert dump_tables(store) == before


def test_whole_namespace_over_the_limit_needs_exactly_its_plan(
    store: Store, tmp_path: Path
) -> None:
    fill(store, tmp_path / "in.jsonl", *(remember(f"m{n}", f"text {n}") for n in range(20)))
    policy = ErasePolicy(whole_namespace=True)
    where = Namespace(tenant="default", principal="default", scope="default")
    (plan,) = preview_job(request_job(store, job="erase", policy=policy, now=NOW, namespace=where))
    refused = erase(store, whole_namespace=True)
    assert (refused.end.outcome, refused.end.code) == ("refused", "plan_refused")
    assert refused.error is not None
    assert refused.error["plan_id"] == plan["plan_id"]
    fill(store, tmp_path / "in.jsonl", remember("later", "one more"))
    stale = erase(store, whole_namespace=True, plan_ids=(plan["plan_id"],))
    assert stale.end.outcome == "refused"
    (plan,) = preview_job(request_job(store, job="erase", policy=policy, now=NOW, namespace=where))
    done = erase(store, whole_namespace=True, plan_ids=(plan["plan_id"],))
    assert (done.end.outcome, done.end.applied) == ("applied", 21)


def test_limit_of_rows_is_judged_for_named_memories_too(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"), remember("m2", "the dog"))
    request = request_job(
        store,
        job="erase",
        policy=ErasePolicy(ids=("m1", "m2")),
        mode="apply",
        now=NOW,
        limits=SafetyLimits(max_rows=1),
    )
    assert run_one(request).end.outcome == "refused"


def test_id_in_two_namespaces_has_to_be_told_apart(store: Store, tmp_path: Path) -> None:
    for namespace in (A, B):
        fill(store, tmp_path / "in.jsonl", remember("m1", "the cat"), namespace=namespace)
    request = request_job(
        store, job="erase", policy=ErasePolicy(ids=("m1",)), mode="apply", now=NOW
    )
    assert {result.end.outcome for result in run_job(request)} == {"refused"}
    assert erase(store, "m1", namespace=A).end.applied == 1
    assert len(dump_namespace(store, B)["memories"]) == 1
