"""Merges are taken back: one by one, in chains, with their edges; nobody loses a fact by it."""

from datetime import datetime, timedelta

import pytest
from helpers.changes import erase_memory
from helpers.consolidate_runs import ChosenEmbedder, Keeper, forget_moves
from helpers.edits import annotate_memory, record_use, revise_memory
from helpers.imports import edges, record
from helpers.rows import NOW

from storage import Store
from storage.models import MemoryRecord, RelationKind, Status
from tasks.consolidate.by_hand import MergeRefusedError, merge_memories
from tasks.limits import SafetyLimits
from tasks.policies import SweepPolicy

pytestmark = pytest.mark.slow

TEXT = "Run nightly ledger export checks after schema changes."
WORDS = "alpha bravo charlie delta echo foxtrot golf"
DRIFTED = f"{WORDS} hotel india"
SUPERSEDES, RELATED = RelationKind.SUPERSEDES, RelationKind.RELATED_TO
NO_LIMITS = SafetyLimits(max_fraction=1.0)


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def read_all(keeper: Keeper) -> dict[str, object]:
    return {name: forget_moves(keeper.read(name)) for name in keeper.list_statuses()}


def list_edges(one: MemoryRecord) -> list[tuple[RelationKind, str]]:
    return [(edge.kind, edge.target_id) for edge in one.relations]


def make_chain(keeper: Keeper) -> tuple[str, str]:
    """Merge m2 into m1, and m1 into the older m0 that is imported later; give both runs."""
    keeper.add(
        record("m1", content=TEXT, created_at="2025-02-01T00:00:00Z"),
        record("m2", content=TEXT, created_at="2025-03-01T00:00:00Z"),
    )
    first = keeper.consolidate()
    keeper.add(record("m0", content=TEXT, created_at="2025-01-01T00:00:00Z"))
    return first.run_id, keeper.consolidate().run_id


def test_whoever_a_loser_took_in_goes_along(keeper: Keeper) -> None:
    make_chain(keeper)
    assert list_edges(keeper.read("m0")) == [(SUPERSEDES, "m1"), (SUPERSEDES, "m2")]
    assert list_edges(keeper.read("m2")) == [(RelationKind.SUPERSEDED_BY, "m0")]
    assert keeper.read("m0").metadata["duplicate_ids"] == "m1,m2"


def test_chain_is_taken_back_from_its_end(keeper: Keeper) -> None:
    first, second = make_chain(keeper)
    assert keeper.restore(run_id=second).end.applied == 1
    assert list_edges(keeper.read("m0")) == []
    assert list_edges(keeper.read("m1")) == [(SUPERSEDES, "m2")]
    assert keeper.read("m1").metadata["duplicate_ids"] == "m2"
    assert keeper.restore(run_id=first).end.applied == 1
    assert set(keeper.list_statuses().values()) == {"active"}
    assert [list_edges(keeper.read(name)) for name in ("m0", "m1", "m2")] == [[], [], []]
    assert keeper.read("m1").metadata == {}


def test_chain_is_taken_back_as_a_whole(keeper: Keeper) -> None:
    make_chain(keeper)
    done = keeper.restore(since=keeper.now - timedelta(days=1))
    assert (done.end.found, done.end.applied) == (2, 2)
    assert set(keeper.list_statuses().values()) == {"active"}


def test_place_that_is_taken_is_told_and_can_come_back_later(keeper: Keeper) -> None:
    first, second = make_chain(keeper)
    held = read_all(keeper)
    for asked in ({"run_id": first}, {"ids": ("m2",)}):
        end = keeper.restore(*asked.pop("ids", ()), **asked).end
        assert (end.outcome, end.skipped) == ("unchanged", {"taken": 1})
        assert read_all(keeper) == held
    keeper.restore(run_id=second)
    assert keeper.restore("m2").end.applied == 1
    assert set(keeper.list_statuses().values()) == {"active"}


def test_edges_to_others_move_with_a_merge_and_back(keeper: Keeper) -> None:
    keeper.add(
        record("x", content="The ledger is kept in Oslo"),
        record("y", content="The audit happens in spring"),
        record("m1", content=TEXT, created_at="2025-02-01T00:00:00Z", **edges((RELATED, "x"))),
        record(
            "m2",
            content=TEXT,
            created_at="2025-03-01T00:00:00Z",
            **edges((RELATED, "x"), (RELATED, "y"), (RELATED, "m1")),
        ),
    )
    before = read_all(keeper)
    run_id = keeper.consolidate().run_id
    assert list_edges(keeper.read("m1")) == [
        (SUPERSEDES, "m2"),
        (RELATED, "x"),
        (RELATED, "y"),
    ]
    assert list_edges(keeper.read("y")) == [(RELATED, "m1")]
    assert keeper.read("y").revision == 2
    keeper.restore(run_id=run_id)
    assert read_all(keeper) == before


def test_losers_of_a_large_cluster_all_merge_and_all_come_back(keeper: Keeper) -> None:
    keeper.add(*(record(f"m{number:03}", content=TEXT) for number in range(300)))
    before = read_all(keeper)
    result = keeper.consolidate(limits=NO_LIMITS)
    assert (result.end.found, result.end.applied) == (299, 299)
    assert keeper.count_receipts() == 3
    assert keeper.read("m000").metadata["duplicate_count"] == "299"
    assert keeper.recall("nightly ledger export") == ["m000"]
    assert keeper.restore(run_id=result.run_id).end.applied == 299
    assert read_all(keeper) == before


def test_undo_of_an_adopted_text_goes_back_to_before_it(keeper: Keeper) -> None:
    keeper.add(*WAITING)
    before = read_all(keeper)
    adopt(keeper)
    keeper.refresh(ChosenEmbedder())
    result = keeper.consolidate()
    assert result.end.applied == 1
    keeper.restore(run_id=result.run_id)
    assert read_all(keeper) == before


WAITING = (
    record("m1", content=TEXT, importance=0.2, created_at="2025-02-01T00:00:00Z"),
    record("m2", content=TEXT.upper(), importance=0.9, created_at="2025-03-01T00:00:00Z"),
)


def adopt(keeper: Keeper) -> str:
    """Let m1 take over the text of m2, which then waits for the vector; give the run."""
    keeper.refresh(ChosenEmbedder())
    result = keeper.consolidate()
    assert result.end.skipped == {"awaiting_vector": 1}
    assert keeper.read("m1").content == TEXT.upper()
    return result.run_id


def test_adopted_text_is_given_back_and_stays_apart(keeper: Keeper) -> None:
    keeper.add(*WAITING)
    before = read_all(keeper)
    run_id = adopt(keeper)
    end = keeper.restore(run_id=run_id).end
    assert (end.outcome, end.found, end.applied) == ("applied", 1, 1)
    assert read_all(keeper) == before
    assert keeper.read("m1").revision == 3
    assert keeper.restore(run_id=run_id).end.found == 0
    result = keeper.plan()
    assert (result.end.found, read_all(keeper)) == (0, before)
    assert keeper.report(result).similar == [["m1", "m2", ["kept_apart"]]]


def test_adopted_text_that_somebody_edited_stays(keeper: Keeper) -> None:
    keeper.add(*WAITING)
    run_id = adopt(keeper)
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        annotate_memory(writer, owner, "m1", at=NOW, tags=["edited"])
    held = read_all(keeper)
    assert keeper.restore(run_id=run_id).end.outcome == "unchanged"
    assert read_all(keeper) == held


def test_uses_since_the_merge_stay(keeper: Keeper) -> None:
    keeper.add(record("m1", content=TEXT, access_count=2), record("m2", content=TEXT))
    run_id = keeper.consolidate().run_id
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        record_use(writer, owner, "m1", event_id="u", at=NOW)
    keeper.restore(run_id=run_id)
    one = keeper.read("m1")
    assert (one.access_count, one.last_accessed_at) == (3, NOW)


def test_swept_canonical_and_its_loser_both_come_back(keeper: Keeper) -> None:
    keeper.add(record("m1", content=TEXT, importance=0.2), record("m2", content=TEXT))
    keeper.consolidate()
    assert keeper.run("sweep", policy=SweepPolicy()).end.applied == 1
    assert keeper.list_statuses() == {"m1": "tombstoned", "m2": "superseded"}
    assert keeper.restore("m2").end.applied == 1
    assert keeper.list_statuses() == {"m1": "tombstoned", "m2": "active"}
    assert keeper.restore("m1").end.applied == 1
    assert set(keeper.list_statuses().values()) == {"active"}
    assert list_edges(keeper.read("m1")) == []


def test_run_that_swept_a_canonical_gives_it_back_after_its_loser(keeper: Keeper) -> None:
    keeper.add(record("m1", content=TEXT, importance=0.2), record("m2", content=TEXT))
    keeper.consolidate()
    swept = keeper.run("sweep", policy=SweepPolicy())
    keeper.restore("m2")
    end = keeper.restore(run_id=swept.run_id).end
    assert (end.found, end.applied) == (1, 1)
    assert set(keeper.list_statuses().values()) == {"active"}


def test_edit_between_two_merges_is_kept_with_a_warning(keeper: Keeper) -> None:
    keeper.add(record("m1", content=TEXT), record("m2", content=TEXT, tags=["brought"]))
    keeper.consolidate()
    with keeper.store.write() as writer:
        annotate_memory(writer, keeper.owner_id(writer), "m1", at=NOW, tags=["edited"])
    keeper.add(record("m3", content=TEXT, tags=["brought later"]))
    keeper.consolidate()
    assert keeper.restore("m2").end.figures == {"canonical_changed": 1}
    assert keeper.read("m1").metadata["duplicate_ids"] == "m3"
    assert keeper.restore("m3").end.figures == {}
    assert (keeper.read("m1").tags, keeper.read("m1").metadata) == (("edited",), {})
    assert set(keeper.list_statuses().values()) == {"active"}


def test_id_that_another_loser_brought_too_stays(keeper: Keeper) -> None:
    said = {"metadata": {"duplicate_ids": "p"}}
    keeper.add(record("m1", content=TEXT), *(record(f"m{n}", content=TEXT, **said) for n in (2, 3)))
    keeper.consolidate()
    assert keeper.read("m1").metadata["duplicate_ids"] == "m2,p,m3"
    keeper.restore("m2")
    assert keeper.read("m1").metadata["duplicate_ids"] == "p,m3"
    keeper.restore("m3")
    assert keeper.read("m1").metadata == {}


def test_other_loser_comes_back_when_one_is_gone(keeper: Keeper) -> None:
    keeper.add(*(record(name, content=TEXT) for name in ("m1", "m2", "m3")))
    run_id = keeper.consolidate().run_id
    with keeper.store.write() as writer:
        erase_memory(writer, keeper.owner_id(writer), "m2")
        writer.execute("DELETE FROM relations WHERE target_id = 'm2'")
    end = keeper.restore(run_id=run_id).end
    assert (end.applied, end.skipped) == (1, {"gone": 1})
    assert keeper.restore(run_id=run_id).end.found == 0


def make_drifting(keeper: Keeper) -> None:
    """Let a memory stand for two texts, and add a third that only the longer one is near to."""
    keeper.add(
        record("m1", content=WORDS, kind="semantic", created_at="2025-01-01T00:00:00Z"),
        record("m2", content=f"{WORDS} hotel", kind="semantic", created_at="2025-02-01T00:00:00Z"),
    )
    assert keeper.consolidate().end.applied == 1
    assert keeper.read("m1").content == f"{WORDS} hotel"
    keeper.add(
        record(
            "m3",
            content=DRIFTED,
            kind="semantic",
            created_at="2025-03-01T00:00:00Z",
        )
    )


def test_no_chain_forms_run_by_run(keeper: Keeper) -> None:
    make_drifting(keeper)
    for _ in range(2):
        result = keeper.plan()
        assert result.end.found == 0
        assert keeper.report(result).similar == [["m1", "m3", ["lineage"]]]


@pytest.mark.parametrize("force", [False, True])
def test_no_chain_forms_by_hand(keeper: Keeper, *, force: bool) -> None:
    make_drifting(keeper)
    with pytest.raises(MergeRefusedError) as refused:
        merge_memories(
            keeper.store, keeper.namespace, ["m1", "m3"], force=force, now=NOW, clock=NOW
        )
    assert refused.value.facts["reasons"] == ["lineage"]
    assert keeper.list_statuses() == {"m1": "active", "m2": "superseded", "m3": "active"}


def test_revised_text_starts_the_lineage_anew(keeper: Keeper) -> None:
    make_drifting(keeper)
    with keeper.store.write() as writer:
        owner = keeper.owner_id(writer)
        annotate_memory(writer, owner, "m1", at=NOW, tags=["x"])
    assert keeper.plan().end.found == 0
    with keeper.store.write() as writer:
        content = f"{DRIFTED} juliett"
        revise_memory(writer, owner, "m1", content=content, at=NOW)
    result = keeper.consolidate()
    assert keeper.outcomes(result) == {"m3": "applied"}
    assert keeper.read("m3").status == Status.SUPERSEDED
