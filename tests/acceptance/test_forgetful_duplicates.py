"""The duplicates of a real store: found, merged, judged again, and taken back, in both profiles."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.consolidate_runs import Keeper, forget_moves, gather_clusters
from helpers.consolidation import load_consolidation
from helpers.rows import NOW
from helpers.runs import dump_tables, plan_id_of
from helpers.shared import find_shared
from helpers.vectors import Json

from storage import Store, create_store
from storage.models import DEFAULT_NAMESPACE, MemoryRecord, round_to_f32
from storage.plans import read_decisions
from storage.records import read_records
from tasks.importing import import_file

pytestmark = pytest.mark.slow

V2, SEED = "memtend.near-duplicate.v2", "seed.near-duplicate.v1"
POLICIES: dict[str, dict[str, Any]] = {
    V2: {"profile": V2},
    SEED: {"profile": SEED, "allow_seed_profile": True},
}
# The file names no kind; the vector takes all for semantic, an import for episodic.
KINDS = ("episodic", "semantic")
_LOSSES = "SELECT memory_id, losses FROM merge_sources WHERE position = 0"
_MOVED = ("revision", "revision_kind", "updated_at", "restored_at", "history")


@pytest.fixture(scope="module")
def expected() -> Json:
    (case,) = [one for one in load_consolidation()["cases"] if one["op"] == "forgetful_file"]
    return dict(case["expect"])


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Import the file once; each test works on a copy."""
    backup = find_shared("data/forgetful-backup.json")
    store, _ = create_store(tmp_path_factory.mktemp("imported") / "store", clock=NOW)
    assert import_file(store, backup, clock=NOW).imported == 463
    return store.path


@pytest.fixture(params=[(profile, kind) for profile in POLICIES for kind in KINDS], ids="-".join)
def case(request: pytest.FixtureRequest, imported: Path, tmp_path: Path) -> tuple[Keeper, str]:
    """Give the imported memories, of a kind, and a profile."""
    profile, kind = request.param
    shutil.copytree(imported, tmp_path / "store")
    store = Store(tmp_path / "store")
    with store.write() as writer:
        writer.execute("UPDATE memories SET kind = $kind", {"kind": kind})
    return Keeper(store, NOW, DEFAULT_NAMESPACE), profile


def read_all(keeper: Keeper) -> dict[str, MemoryRecord]:
    names = keeper.list_statuses()
    with keeper.store.read() as reader:
        return read_records(reader, keeper.owner_id(reader), names)


def test_exactly_the_known_pairs_merge_and_come_back(
    case: tuple[Keeper, str], expected: Json
) -> None:
    keeper, profile = case
    policy, before = POLICIES[profile], read_all(keeper)
    count_statuses(keeper, expected, "before")
    clusters = {str(one["cluster"][0]): one for one in expected["clusters"]}
    planned = keeper.plan(policy)
    assert planned.end.found == expected["found"]
    with keeper.store.read() as reader:
        decisions = read_decisions(reader, plan_id_of(planned))
    assert {decision["reason"] for decision in decisions} == {"exact"}
    assert {int(one): int(other) for one, other in gather_clusters(decisions)} == {
        one["cluster"][0]: one["cluster"][1] for one in expected["clusters"]
    }
    told = keeper.report(planned)
    assert (told.similar, told.conflicts) == (expected["similar"], expected["conflicts"])
    assert read_all(keeper) == before

    result = keeper.consolidate(policy)
    assert (result.end.outcome, result.end.applied) == ("applied", expected["found"])
    count_statuses(keeper, expected, "after")
    after = read_all(keeper)
    lost = read_losses(keeper)
    for name, one in clusters.items():
        canonical = after[name]
        assert canonical.content == before[str(one["content_from"])].content
        assert canonical.importance == round_to_f32(one["importance"])
        assert len(canonical.tags) == one["tags"]
        assert sum(loss["key"] == "title" for loss in lost[name]) == one["lost_titles"]
    assert_only_these_changed(before, after, expected)

    again = keeper.consolidate(policy)
    assert (again.end.outcome, again.end.found) == ("unchanged", expected["second_run_found"])
    assert read_all(keeper) == after

    undone = keeper.restore(run_id=result.run_id)
    assert (undone.end.applied, undone.end.skipped, undone.end.figures) == (11, {}, {})
    restored = read_all(keeper)
    assert {name: forget_moves(one) for name, one in restored.items()} == {
        name: forget_moves(one) for name, one in before.items()
    }
    count_statuses(keeper, expected, "before")
    held = dump_tables(keeper.store, without=("runs", "leases"))
    assert keeper.restore(run_id=result.run_id).end.outcome == "unchanged"
    assert dump_tables(keeper.store, without=("runs", "leases")) == held


def count_statuses(keeper: Keeper, expected: Json, when: str) -> None:
    counted = Counter(keeper.list_statuses().values())
    assert counted == {status: expected[f"{status}_{when}"] for status in ("active", "superseded")}


def read_losses(keeper: Keeper) -> dict[str, list[Json]]:
    with keeper.store.read() as reader:
        rows = reader.rows(_LOSSES)
    return {name: json.loads(losses)["metadata"] for name, losses in rows}


def assert_only_these_changed(
    before: dict[str, MemoryRecord], after: dict[str, MemoryRecord], expected: Json
) -> None:
    """Members change; of all others, only those that had an edge with a loser, and only these."""
    members = {str(name) for one in expected["clusters"] for name in one["cluster"]}
    losers = {str(one["cluster"][1]) for one in expected["clusters"]}
    for name in after.keys() - members:
        if after[name] != before[name]:
            assert losers & {edge.target_id for edge in before[name].relations}
            left_out = {"relations": (), **dict.fromkeys(_MOVED)}
            assert after[name].model_copy(update=left_out) == before[name].model_copy(
                update=left_out
            )
    for name in losers:
        assert after[name].content == before[name].content


@pytest.mark.parametrize("case", [(V2, "semantic")], indirect=True)
def test_undone_pairs_stay_apart(case: tuple[Keeper, str]) -> None:
    keeper, profile = case
    result = keeper.consolidate(POLICIES[profile])
    keeper.restore(run_id=result.run_id)
    planned = keeper.plan(POLICIES[profile])
    assert planned.end.found == 0
    assert [reasons for *_, reasons in keeper.report(planned).similar] == [["kept_apart"]] * 11
