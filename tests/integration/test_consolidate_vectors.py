"""The consolidation vectors as real runs: plans, apply under change, undo, limits, merges."""

import json
from collections.abc import Iterable
from datetime import datetime

import pytest
from helpers.changes import erase_memory, fail_writes_of, heal_writes
from helpers.consolidate_runs import ChosenEmbedder, Keeper, forget_moves
from helpers.consolidation import cases
from helpers.edits import annotate_memory, record_use, revise_memory
from helpers.imports import record
from helpers.runs import STATES, plan_id_of
from helpers.vectors import Json

from storage import Store
from storage.instants import format_instant, parse_instant
from storage.merge_receipts import keep_apart
from storage.models import Namespace, Relation, RelationKind, round_to_f32
from storage.restoring import sha256_contents
from tasks.report import RunResult

TEXT = "Run nightly ledger export checks after schema changes."
LOUD = TEXT.upper()
MEMBERS = ("m1", "m2", "m3")
# Texts of the vectors that detection keeps apart; these are as long, and alike.
ALIKE = {"x y z, longer": "x y z, .......", "xx": "x."}
_SET_METADATA = "UPDATE memories SET metadata = $metadata WHERE id = $memory_id"
_LOSSES = "SELECT losses FROM merge_sources WHERE memory_id = $memory_id ORDER BY position LIMIT 1"


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def annotate(keeper: Keeper, memory_id: str, **changes: object) -> None:
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        annotate_memory(writer, owner, memory_id, at=keeper.now, **changes)


def erase(keeper: Keeper, memory_id: str) -> None:
    """Erase a memory and, as an erasure does, its end of every edge."""
    with keeper.store.write() as writer:
        erase_memory(writer, keeper.owner_id(writer), memory_id)
        writer.execute("DELETE FROM relations WHERE target_id = $id", {"id": memory_id})


def make_lines(rows: Iterable[Json]) -> list[Json]:
    names = ("status", "created_at", "expires_at")
    return [
        record(row["id"], content=row["content"], kind=row["kind"])
        | {name: row[name] for name in names if row.get(name)}
        for row in rows
    ]


def link(keeper: Keeper, pairs: Iterable[list[str]]) -> None:
    """Let memories contradict each other, and keep no others."""
    for one, other in pairs:
        for memory_id, target in ((one, other), (other, one)):
            with keeper.store.write() as writer:
                writer.execute(
                    "INSERT INTO relations BY NAME SELECT namespace_id, id AS memory_id, "
                    "'conflicts_with' AS kind, $target AS target_id, 1 AS since_revision "
                    "FROM memories WHERE id = $id",
                    {"id": memory_id, "target": target},
                )


def mark(keeper: Keeper, pairs: Iterable[list[str]]) -> None:
    """Note that memories are no duplicates."""
    for pair in pairs:
        with keeper.store.write() as writer:
            owner = keeper.owner_id(writer)
            digests = sha256_contents(writer, owner, pair)
            keep_apart(writer, owner, digests, clock=keeper.now)


@cases("plan_v2")
def test_plan_is_what_the_vector_says(case: Json, keeper: Keeper) -> None:
    inputs, expected = case["input"], case["expect"]
    spaces: dict[str, list[Json]] = {}
    for row in inputs["rows"]:
        spaces.setdefault(row.get("ns", "s1"), []).append(row)
    for scope, rows in spaces.items():
        where = keeper.namespace.model_copy(update={"scope": scope})
        one = Keeper(keeper.store, keeper.now, where)
        one.add(*make_lines(rows))
        link(one, inputs.get("related", []))
        mark(one, inputs.get("kept_apart", []))
        result = one.plan()
        told = one.report(result)
        assert told.clusters == expected["clusters"]
        assert (told.similar, told.conflicts) == (expected["similar"], expected["conflicts"])
        assert result.end.found == expected["found"]
        done = one.consolidate()
        assert (done.end.found, done.end.applied) == (expected["found"],) * 2
        assert one.consolidate().end.outcome == "unchanged"


@cases("series")
def test_series_is_one_line(case: Json, keeper: Keeper) -> None:
    keeper.add(*make_lines(case["input"]["rows"]))
    told = keeper.report(keeper.plan())
    series = [row for row in told.others if row["result"] == "series"]
    assert {"pairs": len(told.conflicts), "series": len(series)} == case["expect"]
    assert (told.clusters, told.similar) == ([], [])


def add_members(keeper: Keeper, *, winner: str = "m1") -> None:
    """Add three memories of one text; one of them writes it in another letter case and wins."""
    for day, name in enumerate(MEMBERS, 1):
        is_winner = name == winner
        keeper.add(
            record(
                name,
                content=LOUD if is_winner and name != "m1" else TEXT,
                kind="semantic",
                importance=0.75 if is_winner else 0.5,
                created_at=f"2026-01-{day:02}T00:00:00Z",
            )
        )


def make_losing_plan(keeper: Keeper, inputs: Json) -> RunResult:
    """Bring the store to what a case says before its plan, and plan."""
    is_adopted = dict(map(tuple, inputs["plan"]))["m1"] == 2
    add_members(keeper, winner="m2" if is_adopted else inputs.get("content_from", "m1"))
    if inputs.get("serving_generation"):
        keeper.refresh(ChosenEmbedder())
    if is_adopted:
        assert keeper.consolidate().end.skipped == {"awaiting_vector": 2}
        if inputs["served_digest_current"]:
            keeper.refresh(ChosenEmbedder())
    assert {name: keeper.read(name).revision for name in MEMBERS} == dict(inputs["plan"])
    return keeper.plan()


def change_since_plan(keeper: Keeper, inputs: Json) -> None:
    """Do what a case says that happens between plan and apply."""
    planned = dict(inputs["plan"])
    for name in planned.keys() - inputs["current"].keys():
        erase(keeper, name)
    for name, revision in inputs["current"].items():
        if revision > planned[name]:
            annotate(keeper, name, tags=["edited"])
    for name, count in inputs.get("access_after_plan", {}).items():
        with keeper.store.write() as writer:
            for number in range(count):
                owner = keeper.owner_id(writer)
                record_use(writer, owner, name, event_id=f"u{number}", at=keeper.now)
    if "store_fails_on_write" in inputs:
        fail_writes_of(keeper.store, [MEMBERS[inputs["store_fails_on_write"] - 1]])


@cases("apply")
def test_apply_is_what_the_vector_says(case: Json, keeper: Keeper) -> None:
    inputs, expected = case["input"], case["expect"]
    if "receipts_of_this_plan" in inputs:
        add_members(keeper)
        planned = keeper.plan()
        assert keeper.apply(planned).end.applied == 2
    else:
        planned = make_losing_plan(keeper, inputs)
        change_since_plan(keeper, inputs)
    receipts = keeper.count_receipts()
    result = keeper.apply(planned)
    outcomes = keeper.outcomes(result)
    wanted = dict.fromkeys(expected["merged"], "applied")
    wanted |= expected.get("skipped", {}) | dict.fromkeys(expected.get("failed", ()), "failed")
    wanted |= dict.fromkeys(expected.get("already_applied", ()), "already_applied")
    assert (outcomes, result.end.found) == (wanted, expected["found"])
    assert STATES.get(result.end.outcome, result.end.outcome) == expected.get("state", "completed")
    made = keeper.list_revisions()
    assert made | expected.get("revisions", {}) == made
    assert keeper.count_receipts() - receipts == bool(expected["merged"] or "adopted" in expected)
    assert_merged(keeper, expected)


def assert_merged(keeper: Keeper, expected: Json) -> None:
    statuses = keeper.list_statuses()
    merged = {*expected["merged"], *expected.get("already_applied", ())}
    for name, status in statuses.items():
        assert status == ("superseded" if name in merged else "active")
        wanted = Relation(kind=RelationKind.SUPERSEDED_BY, target_id="m1")
        assert keeper.read(name).relations == ((wanted,) if name in merged else ()) or name == "m1"
    canonical = keeper.read("m1")
    assert canonical.access_count == expected.get("access_count", 0)
    if "adopted" in expected:
        assert (expected["adopted"], canonical.content) == ("m1", LOUD)
        assert keeper.recall("nightly ledger export", ChosenEmbedder())


def test_store_that_failed_takes_the_merge_in_the_next_run(keeper: Keeper) -> None:
    add_members(keeper)
    planned = keeper.plan()
    fail_writes_of(keeper.store, ["m3"])
    assert keeper.apply(planned).end.failed == 2
    heal_writes(keeper.store)
    done = keeper.apply(planned)
    assert (done.end.outcome, done.end.applied) == ("applied", 2)


@cases("undo")
def test_undo_is_what_the_vector_says(case: Json, keeper: Keeper) -> None:
    inputs, expected = case["input"], case["expect"]
    add_members(keeper, winner="m2")
    before = {name: forget_moves(keeper.read(name)) for name in MEMBERS}
    run_id = keeper.consolidate().run_id
    assert keeper.list_revisions() == inputs["receipt"]
    if inputs.get("already_undone"):
        keeper.restore(run_id=run_id)
    else:
        for name in inputs["receipt"].keys() - inputs["current"].keys():
            erase(keeper, name)
        if inputs["current"]["m1"] > inputs["receipt"]["m1"]:
            annotate(keeper, "m1", tags=["edited"])
    assert keeper.list_revisions() == inputs["current"]
    edited = keeper.read("m1")
    result = keeper.restore(run_id=run_id)
    end = result.end
    assert end.applied == len(expected["restored"])
    assert end.skipped == dict.fromkeys(expected.get("skipped", {}).values(), 1)
    revisions = keeper.list_revisions()
    assert revisions | expected.get("revisions", {}) == revisions
    if expected.get("noop"):
        assert (end.outcome, revisions) == ("unchanged", inputs["current"])
        return
    for name in expected["restored"]:
        assert forget_moves(keeper.read(name)) == before[name]
        assert keeper.read(name).restored_at == keeper.now
    canonical = keeper.read("m1")
    if expected["canonical"] == "reverted":
        assert forget_moves(canonical) == before["m1"]
        assert end.figures == {}
        return
    assert end.figures == {expected["warning"]: 1}
    assert (canonical.content, canonical.tags) == (edited.content, ("edited",))
    assert (canonical.relations, canonical.metadata) == ((), {})


@cases("run_after_undo")
def test_run_after_an_undo_keeps_pairs_apart_until_an_edit(case: Json, keeper: Keeper) -> None:
    expected = case["expect"]
    names = case["input"]["pair"]
    keeper.add(*(record(name, content=TEXT, kind="semantic") for name in names))
    run_id = keeper.consolidate().run_id
    assert keeper.restore(run_id=run_id).end.applied == 1
    if case["input"]["digests"] != "unchanged":
        with keeper.store.write() as writer:
            owner = keeper.owner_id(writer)
            revise_memory(writer, owner, names[1], content=LOUD, at=keeper.now)
    result = keeper.plan()
    assert result.end.found == expected["found"]
    assert keeper.report(result).similar == expected.get("similar", [])


def name_number(number: int) -> str:
    """Write a number in letters, so that no text holds a figure."""
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")


@cases("guard")
def test_run_over_the_limit_is_refused(case: Json, keeper: Keeper) -> None:
    inputs, expected = case["input"], case["expect"]
    planned, visible = inputs["planned"], inputs["visible"]
    alike = [record(f"a{number:03}", content=TEXT) for number in range(planned + 1)]
    others = [
        record(f"b{number:03}", content=f"word{name_number(number)}")
        for number in range(visible - len(alike))
    ]
    keeper.add(*alike, *others)
    made = keeper.plan()
    confirmed = inputs["confirm_plan_id"]
    asked = {"plan": plan_id_of(made)}.get(confirmed, confirmed)
    before = keeper.list_statuses()
    result = keeper.apply(made, confirm_plan_id=asked)
    assert result.plan is not None
    assert (result.plan.visible, result.end.found) == (visible, planned)
    assert result.end.outcome == expected["result"]
    if expected["result"] == "applied":
        assert result.end.applied == planned
        return
    assert keeper.list_statuses() == before
    assert result.error is not None
    assert result.error["type"] == "plan_refused"
    if confirmed is None:
        assert result.error["allowed"] == expected["allowed"]


def add_merging(keeper: Keeper, members: Iterable[Json]) -> None:
    """Add the members of a merge; metadata past admission, which would refuse some of it."""
    for given in members:
        proof = {"uri": f"e://{given['id']}", "digest": "d", "occurred_at": given["created_at"]}
        proof["kind"] = "manual" if given["decided"] else "session_turn"
        earlier = [
            {"revision": number, "content": given["content"], "evidence": [proof]}
            for number in range(1, given["revision"])
        ]
        left_out = {"metadata", "decided", "content"}
        content = ALIKE.get(given["content"], given["content"])
        values = {name: value for name, value in given.items() if name not in left_out}
        keeper.add({**values, "content": content, "evidence": [proof], "history": earlier})
        with keeper.store.write() as writer:
            metadata = json.dumps(given["metadata"])
            writer.execute(_SET_METADATA, {"metadata": metadata, "memory_id": given["id"]})


@cases("merge")
def test_merge_is_what_the_vector_says(case: Json, keeper: Keeper) -> None:
    inputs, expected = case["input"], case["expect"]
    assert parse_instant(inputs["now"]) == keeper.now
    add_merging(keeper, inputs["members"])
    before = {name: keeper.read(name) for name in keeper.list_statuses()}
    run = keeper.consolidate()
    assert (run.end.outcome, run.end.applied) == ("applied", len(expected["losers"]))
    wanted = dict(expected["canonical"])
    canonical = keeper.read(wanted.pop("id"))
    assert canonical.content == before[wanted.pop("content_from")].content
    for name in ("confidence", "importance", "salience"):
        wanted[name] = None if wanted[name] is None else round_to_f32(wanted[name])
    for name in [name for name in wanted if name.endswith("_at") and wanted[name]]:
        wanted[name] = parse_instant(wanted[name])
    said = canonical.model_dump() | {"tags": list(canonical.tags)}
    assert {name: said[name] for name in wanted} == wanted
    for one in expected["losers"]:
        loser = keeper.read(one["id"])
        assert (loser.status, loser.revision) == (one["status"], one["revision"])
        assert [edge.target_id for edge in loser.relations] == [one["superseded_by"]]
        assert loser.content == before[one["id"]].content
    with keeper.store.read() as reader:
        ((losses,),) = reader.rows(_LOSSES, {"memory_id": canonical.id})
    assert json.loads(losses)["metadata"] == expected["lost"]
    keeper.restore(run_id=run.run_id)
    for name, one in before.items():
        assert forget_moves(keeper.read(name)) == forget_moves(one)


def test_other_namespaces_are_left_alone(keeper: Keeper) -> None:
    other = Keeper(keeper.store, keeper.now, Namespace(tenant="t1", principal="p1", scope="s2"))
    lines = [record(name, content=TEXT, created_at=format_instant(keeper.now)) for name in "ab"]
    for one in (keeper, other):
        one.add(*lines)
    assert keeper.consolidate().end.applied == 1
    assert other.list_statuses() == {"a": "active", "b": "active"}
