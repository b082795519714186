"""The verbs `merge` and `restore`: what they say, what they write, and what they refuse."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from helpers.cli import Answer, run_here
from helpers.consolidate_runs import ChosenEmbedder, Keeper
from helpers.edits import annotate_memory
from helpers.imports import edges, record
from helpers.rows import NOW
from helpers.runs import dump_tables, plan_id_of, read_rows, run_case
from helpers.vectors import NAMESPACE, Json, VectorCase, fill_store, only_cases

from storage import Store
from storage.instants import format_instant, parse_instant
from storage.models import Status, format_namespace
from storage.plans import read_receipts
from tasks.explain import explain_plan

NOON = "Blue cluster deploys on Tuesdays at noon"
WHERE = format_namespace(NAMESPACE)
AT = ("--now", format_instant(NOW))
UNMOVED = {"runs", "leases"}


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


@pytest.fixture
def pair(keeper: Keeper) -> Keeper:
    """Give a store with a memory, its copy, and one that says the opposite."""
    keeper.add(
        record("m1", content=NOON, importance=0.5, tags=["a"]),
        record("m2", content=f"{NOON}.", importance=0.5, created_at="2025-02-01T00:00:00Z"),
        record("m3", content="Blue cluster never deploys on Tuesdays at noon"),
    )
    return keeper


def tell(keeper: Keeper, *words: object) -> Answer:
    return run_here("--json", "--store", keeper.store.path, *words, "--namespace", WHERE)


def tables(keeper: Keeper) -> object:
    return dump_tables(keeper.store, without=UNMOVED)


def test_merge_says_who_went_into_whom_and_how_to_take_it_back(pair: Keeper) -> None:
    answer = tell(pair, "merge", "m2", "m1", *AT)
    said = answer.value["merge"]
    run_id = said.pop("run_id")
    assert answer.exit_code == 0
    assert not said.pop("has_adopted")
    assert said == {"canonical_id": "m1", "revision": 2, "merged": ["m2"], "skipped": {}}
    assert pair.list_statuses() == {"m1": "active", "m2": "superseded", "m3": "active"}
    pair.check()
    run = tell(pair, "restore", "--run", run_id).run
    assert (run["outcome"], run["applied"]) == ("applied", 1)
    assert set(pair.list_statuses().values()) == {"active"}


def test_people_read_who_went_into_whom(pair: Keeper) -> None:
    answer = run_here("--store", pair.store.path, "merge", "m1", "m2", "--namespace", WHERE, *AT)
    first, second = answer.out.splitlines()
    assert (answer.exit_code, first) == (0, "m2 merged into m1")
    assert second.startswith("take it back: memtend restore --run hand_")
    run_id = second.split()[-1]
    back = run_here("--store", pair.store.path, "restore", "--run", run_id, "--namespace", WHERE)
    assert back.exit_code == 0
    assert pair.list_statuses()["m2"] == "active"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(("m1", "missing"), {"type": "memory_not_found"}, id="unknown"),
        pytest.param(("m1",), {"field": "ids"}, id="one"),
        pytest.param(("m1", "m1"), {"field": "ids"}, id="twice"),
        pytest.param(("m1", "m3"), {"ids": ["m1", "m3"]}, id="opposite"),
        pytest.param(("m1", "gone"), {"reasons": ["it is tombstoned"]}, id="tombstone"),
        pytest.param(("m1", "old"), {"reasons": ["it has expired"]}, id="expired"),
        pytest.param(("m1", "later"), {"reasons": ["expiry"]}, id="expiry"),
        pytest.param(("m1", "other", "--force"), {"reasons": ["below"]}, id="forced-others"),
        pytest.param(("m1", "later", "--force"), {"reasons": ["expiry"]}, id="forced-expiry"),
        pytest.param(("m1", "foe", "--force"), {"reasons": ["related"]}, id="forced-related"),
    ],
)
def test_refused_merge_names_why_and_writes_nothing(
    pair: Keeper, words: tuple[str, ...], error: Json
) -> None:
    pair.add(
        record("gone", content=NOON, status="tombstoned", tombstoned_at="2026-01-01T00:00:00Z"),
        record("old", content=NOON, expires_at="2026-09-01T00:00:00Z"),
        record("later", content=NOON, expires_at="2027-09-01T00:00:00Z"),
        record("other", content="Lunch is at noon"),
        record("foe", content=NOON, **edges(("conflicts_with", "m1"))),
    )
    before = tables(pair)
    answer = tell(pair, "merge", *words, *AT)
    assert answer.exit_code == 1
    assert answer.error | error == answer.error
    assert tables(pair) == before


def test_memory_of_another_namespace_is_unknown(pair: Keeper) -> None:
    before = tables(pair)
    path = pair.store.path
    words = ("merge", "m1", "m2", "--namespace", "t/p/elsewhere", *AT)
    answer = run_here("--json", "--store", path, *words)
    assert (answer.exit_code, answer.error["field"]) == (1, "namespace")
    run_here("add", "lunch is at noon", "--id", "x", "--namespace", "t/p/s", "--store", path)
    answer = run_here("--json", "--store", path, "merge", "x", "m1", "--namespace", "t/p/s", *AT)
    assert (answer.error["type"], answer.error["memory_id"]) == ("memory_not_found", "m1")
    assert pair.read("m1").status == Status.ACTIVE
    assert before != tables(pair)


def test_forced_merge_overrides_a_guard_and_its_receipt_says_so(pair: Keeper) -> None:
    pair.add(record("m4", content="Blue cluster deploys on Tuesdays only at noon"))
    refused = tell(pair, "merge", "m1", "m4", *AT)
    assert (refused.exit_code, refused.error["type"]) == (1, "merge_refused")
    assert "qualifier" in refused.error["reasons"]
    said = tell(pair, "merge", "m1", "m4", "--force", *AT).value["merge"]
    assert said["merged"] == ["m4"]
    with pair.store.read() as reader:
        ((figures,),) = reader.rows("SELECT figures FROM merge_receipts")
    assert json.loads(figures)["forced"] is True


def test_merge_waits_for_the_vector(pair: Keeper) -> None:
    pair.add(record("m5", content=NOON.upper(), importance=0.9))
    pair.refresh(ChosenEmbedder())
    said = tell(pair, "merge", "m1", "m5", *AT).value["merge"]
    assert (said["merged"], said["skipped"]) == ([], {"m5": "awaiting_vector"})
    assert said["has_adopted"]
    assert pair.read("m1").content == NOON.upper()
    assert tell(pair, "restore", "--run", said["run_id"], *AT).run["applied"] == 1
    assert pair.read("m1").content == NOON
    tell(pair, "merge", "m1", "m5", "--force", *AT)
    pair.refresh(ChosenEmbedder())
    assert tell(pair, "merge", "m1", "m5", "--force", *AT).value["merge"]["merged"] == ["m5"]


@pytest.fixture
def swept(keeper: Keeper) -> tuple[Keeper, str]:
    """Give a store in which a sweep took two memories, and its run."""
    keeper.add(
        record("cold", content="nobody asks for this", importance=0.2, tags=["x"]),
        record("frost", content="nor for this one", importance=0.2),
        record("kept", content="a lasting fact", kind="semantic"),
    )
    answer = tell(keeper, "run", "sweep", *AT)
    assert answer.run["applied"] == 2
    return keeper, answer.run["run_id"]


def test_dry_run_shows_what_would_come_back(swept: tuple[Keeper, str]) -> None:
    keeper, run_id = swept
    before = dump_tables(keeper.store)
    plan = tell(keeper, "restore", "--run", run_id, "--dry-run", *AT).plan
    assert (plan["job"], plan["found"], plan["reasons"]) == ("restore", 2, {"tombstone": 2})
    assert plan["decisions"] == [
        {"id": name, "reason": "tombstone", "action": "restore"} for name in ("cold", "frost")
    ]
    assert dump_tables(keeper.store) == before


@pytest.mark.parametrize("by", ["ids", "run", "since"])
def test_tombstones_come_back(swept: tuple[Keeper, str], by: str) -> None:
    keeper, run_id = swept
    long_ago = format_instant(NOW - timedelta(days=365 * 5)).removesuffix("Z")
    asked = {"ids": ("cold", "frost"), "run": ("--run", run_id), "since": ("--since", long_ago)}[by]
    run = tell(keeper, "restore", *asked, *AT).run
    assert (run["outcome"], run["found"], run["applied"]) == ("applied", 2, 2)
    assert set(keeper.list_statuses().values()) == {"active"}
    memory = keeper.read("cold")
    assert (memory.revision, memory.tombstoned_at, memory.tags) == (3, None, ("x",))
    assert memory.restored_at == NOW
    keeper.check()
    held = tables(keeper)
    again = tell(keeper, "restore", *asked, *AT).run
    assert (again["outcome"], again["applied"]) == ("unchanged", 0)
    assert tables(keeper) == held


def test_nothing_is_as_new_as_that(swept: tuple[Keeper, str]) -> None:
    keeper, _ = swept
    answer = tell(keeper, "restore", "--since", "2999-01-01T00:00:00Z", *AT)
    assert (answer.exit_code, answer.run["outcome"], answer.run["found"]) == (0, "unchanged", 0)


def test_memory_that_was_not_taken_is_told(swept: tuple[Keeper, str]) -> None:
    run = tell(swept[0], "restore", "kept", "cold", *AT).run
    assert (run["applied"], run["skipped"]) == (1, {"not_taken": 1})


def test_expired_memory_does_not_come_back(keeper: Keeper) -> None:
    soon = {"expires_at": format_instant(NOW + timedelta(hours=1))}
    keeper.add(record("cold", content="nobody asks for this", importance=0.2, **soon))
    tell(keeper, "run", "sweep", *AT)
    before = tables(keeper)
    later = ("--now", format_instant(NOW + timedelta(hours=1)))
    run = tell(keeper, "restore", "cold", *later).run
    assert (run["outcome"], run["skipped"]) == ("unchanged", {"expired": 1})
    assert tables(keeper) == before
    assert tell(keeper, "restore", "cold", *AT).run["applied"] == 1


@pytest.mark.parametrize(
    "words", [("nobody",), ("--run", "nothing"), (), ("cold", "--run", "x")], ids=repr
)
def test_restore_of_nothing_that_is_known(
    swept: tuple[Keeper, str], words: tuple[str, ...]
) -> None:
    keeper, _ = swept
    before = tables(keeper)
    answer = tell(keeper, "restore", *words, *AT)
    assert answer.exit_code == 1
    assert answer.error["type"] in {"memory_not_found", "run_not_found", "invalid_input"}
    assert tables(keeper) == before


def test_bad_selection_is_told_by_its_option(swept: tuple[Keeper, str]) -> None:
    keeper, _ = swept
    nothing, never = tell(keeper, "restore"), tell(keeper, "restore", "--since", "yesterday")
    assert nothing.error["message"] == (
        "restore.policy: name memories, a run or an instant: one of the three"
    )
    assert never.error["message"].startswith("--since: not an instant such as")


def test_one_loser_of_a_run_comes_back_alone(pair: Keeper) -> None:
    pair.add(record("m4", content=NOON, created_at="2025-03-01T00:00:00Z"))
    assert tell(pair, "run", "consolidate", *AT).run["applied"] == 2
    plan = tell(pair, "restore", "m4", "--dry-run", *AT).plan
    assert plan["decisions"] == [{"id": "m4", "reason": "merged", "action": "restore"}]
    run = tell(pair, "restore", "m4", *AT).run
    assert (run["outcome"], run["found"], run["applied"]) == ("applied", 1, 1)
    wanted = {"m1": "active", "m2": "superseded", "m3": "active", "m4": "active"}
    assert pair.list_statuses() == wanted
    pair.check()
    assert pair.read("m1").metadata["duplicate_ids"] == "m2"
    assert tell(pair, "restore", "m4", *AT).run["outcome"] == "unchanged"
    assert tell(pair, "restore", "m2", *AT).run["applied"] == 1
    assert pair.read("m1").metadata == {}
    assert pair.read("m1").relations == ()


def test_edited_canonical_is_kept_with_a_warning(pair: Keeper) -> None:
    run_id = tell(pair, "run", "consolidate", *AT).run["run_id"]
    with pair.store.write() as writer:
        owner = pair.owner_id(writer)
        annotate_memory(writer, owner, "m1", at=NOW, tags=["edited"])
    answer = tell(pair, "restore", "--run", run_id, *AT)
    assert answer.run["applied"] == 1
    runs = run_here("--json", "--store", pair.store.path, "runs").value["runs"]
    assert runs[0]["figures"] == {"canonical_changed": 1}
    assert pair.read("m1").tags == ("edited",)


@only_cases("sweep", "Q05")
def test_c61_restored_memory_is_not_taken_again(case: VectorCase, tmp_path: Path) -> None:
    store, wanted = fill_store(tmp_path / "store", case), case.expected["after_restore"]
    keeper = Keeper(store, case.now)
    at = ("--now", format_instant(case.now))
    before = keeper.read("m1")
    plan_id = plan_id_of(run_case(store, case, mode="apply"))
    assert read_rows(store)["m1"]["status"] == "tombstoned"
    assert keeper.recall(before.content) == []
    assert run_case(store, case, mode="apply").end.outcome == "unchanged"
    with store.read() as reader:
        assert len(read_receipts(reader, plan_id)) == case.expected["tombstone_receipts"]
    assert tell(keeper, "restore", "m1", *at).run["applied"] == 1
    again = run_case(store, case)
    (figures,) = explain_plan(store, plan_id_of(again))
    row = read_rows(store)["m1"]
    assert (row["status"], row["restored_at"]) == (wanted["status"], case.now)
    for name in ("age_clock", "age_days", "score", "verdict"):
        assert figures[name] == wanted[name]
    after = keeper.read("m1")
    for name in ("content", "tags", "relations", "created_at", "access_count", "last_accessed_at"):
        assert getattr(after, name) == getattr(before, name)
    assert parse_instant(format_instant(case.now)) == after.restored_at


def test_c61_restored_memory_is_found_by_meaning_after_a_refresh(keeper: Keeper) -> None:
    keeper.add(record("cold", content="nobody asks for this", importance=0.2))
    keeper.refresh(ChosenEmbedder())
    assert keeper.recall("unheard", ChosenEmbedder()) == ["cold"]
    tell(keeper, "run", "sweep", *AT)
    keeper.refresh(ChosenEmbedder())
    assert keeper.recall("nobody asks", None) == []
    tell(keeper, "restore", "cold", *AT)
    assert keeper.recall("nobody asks") == ["cold"]
    keeper.refresh(ChosenEmbedder())
    assert keeper.recall("unheard", ChosenEmbedder()) == ["cold"]
    assert tell(keeper, "run", "sweep", *AT).run["outcome"] == "unchanged"
