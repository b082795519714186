"""A refiner's texts become candidates beside their sources, each only once."""

from datetime import timedelta
from typing import Any

import pytest
from helpers.children import start_child
from helpers.consolidation import Json, cases
from helpers.refiners import (
    TEXT,
    ScriptedRefiner,
    ask_about,
    dump_memories,
    fill,
    join_texts,
    list_candidates,
    read_all,
    read_attempts,
    refine,
)
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.sets import SPACE, change, change_set, create

from storage import Store, StoreWriter
from storage.errors import FenceLostError
from storage.instants import format_instant
from storage.models import EvidenceKind, MemoryRecord, Namespace, Status
from storage.repository import apply_change_set
from tasks.providers.refiner import RefineRequest


def read_one(store: Store, memory_id: str) -> MemoryRecord:
    return read_all(store, SPACE, [memory_id])[memory_id]


@cases("refine_output")
def test_output_of_the_vector_makes_a_candidate_or_nothing(case: Json, store: Store) -> None:
    given, expected = case["input"], case["expect"]
    texts = zip(given["source_ids"], given["source_texts"], strict=True)
    apply_change_set(store, change_set("fill", 0, *(create(*text) for text in texts)))
    before = dump_memories(store)
    refiner = ScriptedRefiner(always=lambda _: given["output"])
    report = refine(store, refiner, [ask_about(store, SPACE, given["source_ids"])])
    assert list_candidates(store, SPACE) == [
        str(each.detail) for each in report.outcomes if expected["candidate_created"]
    ]
    if not expected["candidate_created"]:
        assert report.count_details("failed") == {expected["error"]: 1}
        assert dump_memories(store) == before


def test_candidate_cites_its_sources_and_leaves_them_as_they_are(store: Store) -> None:
    first, second = "Keep 10 attempts, never more", "Never more than 10 attempts"
    day = timedelta(days=1)
    ends = [format_instant(NOW + 2 * day), format_instant(NOW + day)]
    apply_change_set(
        store,
        change_set(
            "fill",
            5,
            create("m1", first, importance=0.25, tags=["subject:ann", "x"], expires_at=ends[0]),
            create("m2", second, importance=0.75, tags=["x", "y"], expires_at=ends[1]),
        ),
    )
    before = read_all(store, SPACE, ["m1", "m2"])
    report = refine(store, ScriptedRefiner(), [ask_about(store, SPACE, ["m1", "m2"])])
    (candidate_id,) = list_candidates(store, SPACE)
    assert [tuple(each) for each in report.outcomes] == [(("m1", "m2"), "refined", candidate_id)]
    assert read_all(store, SPACE, ["m1", "m2"]) == before
    made = read_one(store, candidate_id)
    assert (made.content, made.kind, made.importance) == (first, "semantic", 0.75)
    assert made.tags == ("subject:ann", "x", "y")
    assert made.metadata == {"refiner": "fixture refine-v1 r1"}
    assert (made.created_at, made.expires_at) == (NOW, NOW + day)
    assert [(each.uri, each.kind) for each in made.evidence] == [
        ("memtend:memory:m1:1", EvidenceKind.ARTIFACT),
        ("memtend:memory:m2:1", EvidenceKind.ARTIFACT),
    ]
    assert {each.occurred_at for each in made.evidence} == {before["m1"].content_at}


def test_candidate_of_memories_from_the_future_keeps_the_order_of_times(store: Store) -> None:
    (cluster,) = fill(store, 1)
    early = NOW.replace(year=2025)
    report = refine(store, ScriptedRefiner(), [cluster], clock=early)
    made = read_one(store, str(report.outcomes[0].detail))
    sources = read_all(store, SPACE, cluster.texts)
    assert made.created_at == max(source.updated_at or NOW for source in sources.values())
    assert read_attempts(store)


def test_second_run_asks_nobody(store: Store) -> None:
    clusters = fill(store, 2)
    refine(store, ScriptedRefiner(), clusters)
    before = dump_tables(store)
    again = ScriptedRefiner()
    turned = [each.model_copy(update={"sources": each.sources[::-1]}) for each in clusters]
    report = refine(store, again, turned)
    assert (again.asked, report.calls, report.state) == ([], 0, "unchanged")
    assert report.count_details("skipped") == {"refined_before": 2}
    assert dump_tables(store) == before


def test_rejected_candidate_is_not_made_again(store: Store) -> None:
    (cluster,) = fill(store, 1)
    made = str(refine(store, ScriptedRefiner(), [cluster]).outcomes[0].detail)
    tombstone = change("set_status", made, 1, status="tombstoned")
    apply_change_set(store, {**change_set("no", 0, tombstone), "occurred_at": NOW})
    report = refine(store, ScriptedRefiner(), [cluster])
    assert report.count_details("skipped") == {"refined_before": 1}
    assert read_one(store, made).status == Status.TOMBSTONED


def edit(store: Store, memory_id: str, **fields: Any) -> None:  # noqa: ANN401
    annotated = change("annotate", memory_id, 1, **fields)
    apply_change_set(store, {**change_set(f"edit-{memory_id}", 0, annotated), "occurred_at": NOW})


@pytest.mark.parametrize("fields", [{"tags": ["new"]}, {"expires_at": format_instant(NOW)}])
def test_source_that_changes_during_the_call_stores_nothing(
    store: Store, fields: dict[str, Any]
) -> None:
    (cluster,) = fill(store, 1)

    def answer(request: RefineRequest) -> object:
        edit(store, "m00b", **fields)
        return join_texts(request)

    report = refine(store, ScriptedRefiner(answer), [cluster])
    assert (report.calls, report.state) == (1, "unchanged")
    assert report.count_details("skipped") == {"changed_since_plan": 1}
    assert not list_candidates(store, SPACE)
    assert not read_attempts(store)


def test_source_that_had_changed_before_costs_no_call(store: Store) -> None:
    clusters = fill(store, 3)
    edit(store, "m00a", pinned=True)
    edit(store, "m01a", expires_at=format_instant(NOW))
    tombstone = change("set_status", "m02a", 1, status="tombstoned")
    apply_change_set(store, change_set("away", 0, tombstone))
    gone = clusters[0].model_copy(
        update={"namespace": Namespace(tenant="t", principal="p", scope="other")}
    )
    refiner = ScriptedRefiner()
    report = refine(store, refiner, [*clusters, gone])
    assert refiner.asked == []
    assert report.count_details("skipped") == {"changed_since_plan": 4}


def test_source_takes_part_until_it_expires(store: Store) -> None:
    end = format_instant(NOW)
    drafts = [create(name, "Keep 10 attempts", expires_at=end) for name in ("m1", "m2")]
    apply_change_set(store, change_set("fill", 0, *drafts))
    cluster = ask_about(store, SPACE, ["m1", "m2"])
    report = refine(store, ScriptedRefiner(), [cluster])
    assert report.count_details("skipped") == {"changed_since_plan": 1}
    report = refine(store, ScriptedRefiner(), [cluster], clock=NOW - timedelta(microseconds=1))
    assert report.count("refined") == 1


def test_text_that_was_not_read_is_never_cited(store: Store) -> None:
    (cluster,) = fill(store, 1)
    first, second = cluster.sources
    other = first.model_copy(update={"content": "something else"})
    forged = cluster.model_copy(update={"sources": (other, second)})
    report = refine(store, ScriptedRefiner(), [forged])
    assert report.count_details("skipped") == {"changed_since_plan": 1}


def test_lock_is_free_while_the_refiner_works(store: Store) -> None:
    impatient = Store(store.path, lock_wait_s=0.2)
    (cluster,) = fill(store, 1)

    def answer(request: RefineRequest) -> object:
        apply_change_set(impatient, change_set("meanwhile", 0, create("n1", "something else")))
        return join_texts(request)

    assert refine(store, ScriptedRefiner(answer), [cluster]).count("refined") == 1


def test_two_runs_at_a_time_make_one_candidate(store: Store) -> None:
    (cluster,) = fill(store, 1)

    def answer(request: RefineRequest) -> object:
        assert refine(store, ScriptedRefiner(), [request]).count("refined") == 1
        longer = {**request.texts, "m00a": f"{TEXT.format('j0')}!"}["m00a"]
        return {"content": longer, "sources": list(request.texts)}

    report = refine(store, ScriptedRefiner(answer), [cluster])
    assert report.count_details("skipped") == {"refined_before": 1}
    assert len(list_candidates(store, SPACE)) == 1


def test_failure_does_not_undo_what_another_run_made(store: Store) -> None:
    (cluster,) = fill(store, 1)

    def answer(request: RefineRequest) -> object:
        refine(store, ScriptedRefiner(), [request])
        return None

    refine(store, ScriptedRefiner(answer, always=lambda _: None), [cluster])
    assert [row[1:3] for row in read_attempts(store)] == [("refined", None)]


@pytest.mark.parametrize("stored", [False, True], ids=["before-it-is-stored", "after"])
def test_kill_makes_no_second_candidate(store: Store, stored: bool) -> None:
    (cluster,) = fill(store, 1)
    with start_child("refine_cluster", store.path, cluster.model_dump_json()) as child:
        assert child.hear() == "asked"
        if stored:
            child.signal()
            assert child.hear() == "stored"
        child.process.kill()
        child.process.wait()
    assert len(list_candidates(store, SPACE)) == stored
    refiner = ScriptedRefiner()
    refine(store, refiner, [cluster])
    assert (len(refiner.asked), len(list_candidates(store, SPACE))) == (1 - stored, 1)
    assert [row[1:4] for row in read_attempts(store)] == [("refined", None, 0)]


def test_lost_lease_ends_the_run_and_stores_nothing(store: Store) -> None:
    def guard(_: StoreWriter) -> None:
        raise FenceLostError(fence=1)

    clusters = fill(store, 1)
    before = dump_tables(store)
    with pytest.raises(FenceLostError):
        refine(store, ScriptedRefiner(), clusters, guard=guard)
    assert dump_tables(store) == before


def test_tags_of_all_sources_have_to_fit(store: Store) -> None:
    apply_change_set(
        store,
        change_set(
            "fill",
            0,
            create("m1", "Keep 10 attempts", tags=[f"a{number}" for number in range(40)]),
            create("m2", "Keep 10 attempts", tags=[f"b{number}" for number in range(40)]),
        ),
    )
    refiner = ScriptedRefiner()
    report = refine(store, refiner, [ask_about(store, SPACE, ["m1", "m2"])])
    assert refiner.asked == []
    assert report.count_details("skipped") == {"limit_exceeded": 1}


def test_nothing_to_do_is_unchanged(store: Store) -> None:
    report = refine(store, ScriptedRefiner(), [])
    assert (report.outcomes, report.calls, report.stop) == ((), 0, "done")
    assert report.state == "unchanged"


def test_cluster_occurs_once(store: Store) -> None:
    with pytest.raises(ValueError, match="once"):
        refine(store, ScriptedRefiner(), fill(store, 1) * 2)
