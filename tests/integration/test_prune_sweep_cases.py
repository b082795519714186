"""Faults that other stores really had, as cases of prune and sweep: import, plan, run, recall."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from helpers.cli import run_here
from helpers.consolidate_runs import Keeper
from helpers.decided_runs import (
    POLICIES,
    aged,
    apply,
    assert_applied,
    explain,
    list_live,
    list_planned,
    plan,
    run_both,
    serve,
    verdicts,
)
from helpers.edits import record_use
from helpers.runs import dump_namespace, plan_id_of, run_one
from helpers.store_contract import ids_of
from helpers.vectors import NAMESPACE

from storage import Store
from storage.instants import format_instant
from storage.plans import read_receipts
from storage.records import read_history
from tasks.explain import explain_plan
from tasks.hits import RecallPolicy
from tasks.memory_store import DuckMemoryStore, MemoryItem
from tasks.policies import SweepPolicy
from tasks.recall import recall_memories
from tasks.report import RunResult

TEXT = "The kestrel badge is kept in the locker"
MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)

Use = Callable[[DuckMemoryStore], object]


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def test_c02_pinned_memory_is_in_neither_plan_nor_apply(keeper: Keeper) -> None:
    keeper.add(aged("m1", 400, importance=0.1, pinned=True), aged("m2", 400, importance=0.1))
    planned = plan(keeper, "prune")
    assert verdicts(keeper, planned) == {"m1": "kept_protected", "m2": "stale"}
    assert explain(keeper, planned)["m1"]["protections"] == ["pinned"]
    assert_applied(keeper, apply(keeper, planned), {"m2": "stale"}, {"m1"})
    assert keeper.list_statuses() == {"m1": "active", "m2": "tombstoned"}
    assert keeper.recall("memory") == ["m1"]


def test_c07_newborn_is_graced_and_takes_no_room(keeper: Keeper) -> None:
    used = {"importance": 0.9, "access_count": 1, "last_accessed_at": format_instant(keeper.now)}
    old = [aged(f"m{number}", 40, **used) for number in (1, 2, 3)]
    keeper.add(*old, aged("young", MINUTE, importance=0.3))
    everyone = {"m1", "m2", "m3", "young"}
    planned = run_both(keeper, "prune", {}, everyone, max_items=3)
    assert verdicts(keeper, planned) == dict.fromkeys(everyone, "kept_other") | {
        "young": "kept_grace"
    }
    assert planned.plan is not None
    assert planned.plan.warnings == ["cap_unreachable:1"]
    assert planned.plan.counters["cap_unreachable"] == 1
    assert set(keeper.recall("memory")) == everyone


def test_c08_pinned_memories_over_the_cap_stay_with_a_warning(keeper: Keeper) -> None:
    names = {f"m{number}" for number in range(5)}
    keeper.add(*(aged(name, 400, pinned=True) for name in sorted(names)))
    planned = run_both(keeper, "prune", {}, names, max_items=2)
    assert planned.end.outcome == "unchanged"
    assert set(verdicts(keeper, planned).values()) == {"kept_protected"}
    assert planned.plan is not None
    assert planned.plan.warnings == ["cap_unreachable:3"]


def test_c09_no_page_hides_memories_from_the_cap(keeper: Keeper) -> None:
    names = [f"m{number:04}" for number in range(1500)]
    keeper.add(*(aged(name, 1, importance=at / 1500) for at, name in enumerate(names)))
    reasons = dict.fromkeys(names[:300], "over_cap")
    planned = run_both(keeper, "prune", reasons, set(names[300:]), max_items=1200)
    assert planned.plan is not None
    counters = planned.plan.counters
    assert (counters["scanned"], planned.end.found, planned.end.applied) == (1500, 300, 0)
    assert planned.end.skipped == {"dry_run": 300}


def test_c48_tags_are_equal_or_different(keeper: Keeper) -> None:
    tags = {"a": "keepsake", "b": "keep", "c": "testing", "d": "test"}
    keeper.add(*(aged(name, 100, tags=[tag]) for name, tag in tags.items()))
    assert ids_of(serve(keeper).search_by_tags(["test"], 10)) == ["d"]
    planned = run_both(keeper, "prune", dict.fromkeys("acd", "stale"), {"b"})
    assert planned.plan is not None
    assert planned.plan.counters["kept_protected"] == 1
    assert explain(keeper, planned)["b"]["protections"] == ["tag:keep"]


def test_c03_pin_stops_cold_decay_and_not_expiry(keeper: Keeper) -> None:
    keeper.add(
        aged("m1", 60, pinned=True, expires_at="2026-09-01T00:00:00Z"), aged("m2", 400, pinned=True)
    )
    planned = plan(keeper, "sweep")
    assert verdicts(keeper, planned) == {"m1": "expired", "m2": "exempt_pinned"}
    shown = run_here("show", plan_id_of(planned), "--store", keeper.store.path)
    assert "expired at 2026-09-01T00:00:00.000000Z, pinned" in " ".join(shown.out.split())
    assert "pinned_expired:m1" in shown.out
    done = apply(keeper, planned)
    for one in (planned, done):
        assert one.plan is not None
        assert one.plan.warnings == ["pinned_expired:m1"]
    assert_applied(keeper, done, {"m1": "expired"}, {"m2"})
    assert (keeper.list_statuses(), keeper.recall("memory")) == ({"m2": "active"}, ["m2"])


def add_forty(keeper: Keeper, age: float, **used: object) -> list[str]:
    """Add 20 semantic memories and 20 episodic ones, and give the ids of these."""
    fading = [f"e{number:02}" for number in range(20)]
    lasting = (f"s{number:02}" for number in range(20))
    keeper.add(*(aged(name, age, importance=0.1, **used) for name in fading))
    keeper.add(*(aged(name, age, importance=0.9, kind="semantic", **used) for name in lasting))
    return fading


def score_of(keeper: Keeper, planned: RunResult, names: list[str]) -> float:
    """Give the score that these memories share."""
    rows = explain(keeper, planned)
    (score,) = {rows[name]["score"] for name in names}
    return float(score)


def test_c04_half_of_all_memories_needs_a_confirmation(keeper: Keeper) -> None:
    used = format_instant(keeper.now - timedelta(days=70))
    fading = add_forty(keeper, 120, access_count=1, last_accessed_at=used)
    planned = plan(keeper, "sweep")
    reasons = dict.fromkeys(fading, "cold")
    assert list_planned(keeper, planned) == reasons
    assert score_of(keeper, planned, fading) == pytest.approx(0.116008, abs=5e-7)
    before = dump_namespace(keeper.store, NAMESPACE)
    refused = apply(keeper, planned)
    assert (refused.end.outcome, refused.end.found, refused.end.applied) == ("refused", 20, 0)
    assert refused.end.skipped == {"refused": 20}
    assert refused.error is not None
    figures = [refused.error[name] for name in ("limit", "planned", "visible", "allowed")]
    assert figures == ["max_fraction", 20, 40, 12]
    assert dump_namespace(keeper.store, NAMESPACE) == before
    with keeper.store.read() as reader:
        assert read_receipts(reader, plan_id_of(planned)) == []
    done = apply(keeper, planned, confirm_plan_id=plan_id_of(planned))
    assert_applied(keeper, done, reasons, {f"s{number:02}" for number in range(20)})
    assert {keeper.list_statuses()[name] for name in fading} == {"tombstoned"}


def test_c04_nothing_is_cold_after_seventy_days(keeper: Keeper) -> None:
    fading = add_forty(keeper, 70)
    planned = run_both(keeper, "sweep", {}, set(keeper.list_statuses()))
    assert score_of(keeper, planned, fading) == pytest.approx(0.246597, abs=5e-7)


def test_c05_decay_reads_base_values_however_often(keeper: Keeper) -> None:
    keeper.add(aged("m1", 30))
    before = dump_namespace(keeper.store, NAMESPACE)
    planned = plan(keeper, "sweep")
    scores = [score_of(keeper, planned, ["m1"])]
    for _ in range(25):
        done = run_one(keeper.ask("sweep", policy=SweepPolicy()))
        assert (done.end.outcome, done.end.found) == ("unchanged", 0)
        assert plan_id_of(done) == plan_id_of(planned)
        scores.append(score_of(keeper, planned, ["m1"]))
    assert set(scores) == {scores[0]}
    assert scores[0] == pytest.approx(0.548812, abs=5e-7)
    assert dump_namespace(keeper.store, NAMESPACE) == before
    assert (list_live(keeper), keeper.recall("memory")) == ({"m1"}, ["m1"])
    keeper.check()


def test_c06_memory_from_the_future_goes_before_sound_ones(keeper: Keeper) -> None:
    ahead = "2027-09-30T00:00:00Z"
    keeper.add(aged("future", 0, created_at=ahead, content_at=ahead))
    keeper.add(*(aged(name, 89, importance=0.0) for name in ("m1", "m2")))
    swept = explain(keeper, plan(keeper, "sweep"))["future"]
    assert (swept["age_days"], swept["score"]) == (0, 1)
    assert swept["clock_anomaly"] == ["created_at"]
    planned = plan(keeper, "prune", max_items=2)
    said = explain(keeper, planned)["future"]
    assert (said["age_days"], said["clock_anomaly"]) == (0, True)
    assert said["relevance"] == pytest.approx(0.44)
    assert planned.plan is not None
    assert planned.plan.counters["clock_anomaly"] == 1
    assert_applied(keeper, apply(keeper, planned), {"future": "over_cap"}, {"m1", "m2"})
    assert keeper.recall("memory") == ["m1", "m2"]


def use_by_event(keeper: Keeper, at: datetime) -> None:
    """Record that m1 was used, as a host does that reads in its own way."""
    with keeper.store.write() as writer:
        record_use(writer, keeper.owner_id(writer), "m1", event_id="u1", at=at)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda memory: memory.retrieve("m1"), id="c12-retrieve"),
        pytest.param(lambda memory: memory.search("kestrel", 5), id="c12-search"),
        pytest.param(lambda memory: memory.search_by_tags(["depot"], 5), id="c12-tags"),
        pytest.param(lambda memory: memory.get_recent(5), id="c12-recent"),
        pytest.param(lambda memory: memory.get_important(0.1, 5), id="c12-important"),
        pytest.param(None, id="c12-record_use"),
    ],
)
def test_every_way_to_read_keeps_a_memory(keeper: Keeper, use: Use | None) -> None:
    keeper.add(aged("m1", 200, content=TEXT, tags=["depot"]))
    yesterday = keeper.now - timedelta(days=1)
    if use is None:
        use_by_event(keeper, yesterday)
    else:
        use(serve(keeper, at=yesterday))
    read = keeper.read("m1")
    assert (read.access_count, read.last_accessed_at, read.revision) == (1, yesterday, 1)
    planned = run_both(keeper, "sweep", {}, {"m1"})
    assert explain(keeper, planned)["m1"]["score"] == pytest.approx(0.417897, abs=5e-7)
    assert keeper.recall("kestrel badge") == ["m1"]


def test_c12_unread_memory_goes_cold(keeper: Keeper) -> None:
    keeper.add(aged("m1", 200, content=TEXT))
    planned = plan(keeper, "sweep")
    assert explain(keeper, planned)["m1"]["score"] == pytest.approx(0.018316, abs=5e-7)
    assert_applied(keeper, apply(keeper, planned), {"m1": "cold"}, set())
    assert keeper.recall("kestrel badge") == []


def test_c14_scoring_and_planning_change_nothing(keeper: Keeper) -> None:
    keeper.add(aged("m1", 400), aged("m2", 300, content=TEXT), aged("m3", 200, content=TEXT))
    before = dump_namespace(keeper.store, NAMESPACE)
    found = {job: plan(keeper, job) for job in POLICIES}
    assert {job: result.end.found for job, result in found.items()} == {
        "prune": 3,
        "sweep": 3,
        "consolidate": 1,
    }
    for result in found.values():
        explain_plan(keeper.store, plan_id_of(result))
    assert keeper.recall("kestrel badge") == ["m3", "m2"]
    assert dump_namespace(keeper.store, NAMESPACE) == before


def test_c18_expiry_is_an_instant_and_no_text(store: Store, now: datetime) -> None:
    keeper = Keeper(store, now - timedelta(minutes=30))
    ends = ("2026-09-29T23:00:00.000Z", "2026-09-30T01:00:00+02:00", "2026-09-29T22:00:00-02:00")
    keeper.add(*(aged(f"m{at}", 9, expires_at=text) for at, text in enumerate(ends, 1)))
    assert keeper.recall("memory") == ["m3"]
    assert [serve(keeper).retrieve(name) is None for name in ("m1", "m2", "m3")] == [
        True,
        True,
        False,
    ]
    run_both(keeper, "sweep", {"m1": "expired", "m2": "expired"}, {"m3"})
    assert keeper.list_statuses() == {"m3": "active"}


def test_c20_memory_expires_at_its_instant_and_not_before(keeper: Keeper) -> None:
    later = format_instant(keeper.now + MICROSECOND)
    keeper.add(aged("m1", 1, expires_at=format_instant(keeper.now)))
    keeper.add(aged("m2", 1, expires_at=later))
    assert keeper.recall("memory") == ["m2"]
    assert ids_of(serve(keeper).get_recent(5)) == ["m2"]
    run_both(keeper, "sweep", {"m1": "expired"}, {"m2"})
    after = Keeper(keeper.store, keeper.now + MICROSECOND)
    assert after.recall("memory") == []
    run_both(after, "sweep", {"m2": "expired"}, set())
    assert after.list_statuses() == {}


def test_c20_expired_matches_take_no_place_of_a_limit(keeper: Keeper) -> None:
    ended = format_instant(keeper.now - MINUTE)
    expired = [f"a{number:03}" for number in range(100)]
    live = {f"m{number}" for number in range(5)}
    keeper.add(*(aged(name, 1, content=TEXT, expires_at=ended) for name in expired))
    keeper.add(*(aged(name, 9, content=f"{TEXT} of depot {name}") for name in sorted(live)))
    assert set(ids_of(serve(keeper).search("kestrel badge", 5))) == live
    policy = RecallPolicy(max_results=5)
    found = recall_memories(keeper.store, NAMESPACE, "kestrel badge", policy=policy, now=keeper.now)
    assert {hit.memory_id for hit in found.hits} == live
    run_both(keeper, "sweep", dict.fromkeys(expired, "expired"), live)


def test_c55_text_of_a_tombstone_can_be_stored_anew(keeper: Keeper) -> None:
    keeper.add(aged("m1", 400, content=TEXT))
    run_both(keeper, "sweep", {"m1": "cold"}, set())
    gone = keeper.read("m1")
    stored = serve(keeper).store_and_return(MemoryItem(TEXT))
    assert (stored.id, stored.revision, stored.content) == ("new", 1, TEXT)
    assert keeper.list_statuses() == {"m1": "tombstoned", "new": "active"}
    assert keeper.read("m1") == gone
    with keeper.store.read() as reader:
        history = read_history(reader, keeper.owner_id(reader), "m1")
    assert [(one.revision, one.status, one.content) for one in history] == [(1, "active", TEXT)]
    assert (list_live(keeper), keeper.recall("kestrel badge")) == ({"new"}, ["new"])
    keeper.check()
