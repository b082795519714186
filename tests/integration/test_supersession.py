"""Verified supersession on real stores: one change set, all or nothing, and what is left to do."""

from datetime import timedelta

import pytest
from helpers.consolidation import cases
from helpers.runs import dump_tables
from helpers.sets import SPACE, START, change, change_set, edge
from helpers.supersessions import (
    LATER,
    WHEN,
    Json,
    add,
    annotate,
    ask,
    decided,
    draft,
    find_stale,
    list_ids,
    reach,
    read,
    supersede,
)

from storage import Store
from storage.change_errors import EvidenceRequiredError, InvalidTransitionError
from storage.errors import MaintenanceError, RevisionConflictError
from storage.models import MemoryRecord, RelationKind, Status
from storage.namespaces import ensure_namespace
from storage.records import read_history
from storage.repository import apply_change_set
from tasks.rules.conflicts import ConflictClass
from tasks.rules.supersession import EventFacts, gather_event_facts, propose_replacement
from tasks.supersession import (
    Outdated,
    Replacement,
    Superseded,
    SupersessionRequest,
    supersede_memory,
)


def targets(record: MemoryRecord, kind: RelationKind) -> list[str]:
    return [one.target_id for one in record.relations if one.kind == kind]


def make_old(store: Store, given: Json) -> None:
    """Bring the old memory of a vector to its status and revision, and the new one if it exists."""
    add(store, (given["old"]["id"], "old fact"))
    wanted = given["old"]["revision"]
    if "existing_new" in given:
        add(store, ("n", "new fact"))
        supersede(store, "n", "o")
    elif given["old"]["status"] == "superseded":
        add(store, ("m", "fact between"))
        supersede(store, "o", "m")
    for revision in range(reach(store, "o").revision, wanted):
        annotate(store, "o", revision)
    assert reach(store, "o").revision == wanted
    assert reach(store, "o").status == given["old"]["status"]


def request_of(store: Store, given: Json) -> SupersessionRequest:
    new = Replacement(given.get("replacement", "n"), draft=draft())
    if "existing_new" in given:
        new = Replacement("n", revision=reach(store, "n").revision)
    found = [decided(kind, f"proof://{kind}")[0] for kind in given["evidence"]]
    revision = given.get("expected_old_revision", given["old"]["revision"])
    return ask("o", revision, new=new, evidence=tuple(found))


def check_done(store: Store, done: Superseded, expected: Json) -> None:
    old, new = reach(store, "o"), reach(store, "n")
    with store.write() as writer:
        owner = ensure_namespace(writer, SPACE).namespace_id
        history = [state.revision for state in read_history(writer, owner, "o")]
    assert {
        "revision": old.revision,
        "status": old.status.value,
        "superseded_by": targets(old, RelationKind.SUPERSEDED_BY)[0],
        "history": history,
    } == expected["old"]
    assert {
        "revision": new.revision,
        "status": new.status.value,
        "supersedes": targets(new, RelationKind.SUPERSEDES)[0],
    } == expected["new"]
    assert (done.affected, len(new.evidence)) == (expected["affected"], expected["evidence_new"])


def propose(given: Json) -> Json:
    ids = [one["id"] for one in given["pair"]]
    facts = [
        EventFacts(
            one["id"],
            {"event_time": one["event_time"]},
            None,
            START + timedelta(minutes=one.get("stored", 0)),
        )
        for one in given["pair"]
    ]
    found = propose_replacement(facts[0], facts[1], ConflictClass.DECLARED)
    assert found == propose_replacement(facts[1], facts[0], ConflictClass.DECLARED)
    if found is None:
        return {"propose": None, "conflict": ids}
    return {"propose": {"old": found.old_id, "new": found.new_id}}


def replay(store: Store) -> Json:
    """Do the same supersession under the same key again, as it was or with another text."""
    add(store, ("o", "old fact"))
    first = supersede_memory(store, ask(key="k"))
    before = dump_tables(store)
    again = supersede_memory(store, ask(key="k"))
    assert dump_tables(store) == before
    assert (again.replayed, again.new, again.old) == (True, first.new, first.old)
    return {"result": "first result", "revisions": "unchanged"}


def replay_other(store: Store) -> Json:
    add(store, ("o", "old fact"))
    supersede_memory(store, ask(key="k"))
    before = dump_tables(store)
    other = Replacement("n", draft=draft("another fact"))
    with pytest.raises(MaintenanceError) as refused:
        supersede_memory(store, ask(key="k", new=other))
    assert dump_tables(store) == before
    return {"error": refused.value.code, "stored": 0}


def look_for_copies(store: Store, given: Json) -> Json:
    add(store, *((name, text) for name, text in given["rows"]))
    old, new = given["superseded"], Replacement(given["by"], draft=draft("It is on Monday now"))
    supersede_memory(store, ask(old, 1, new=new))
    names = [name for name, _ in given["rows"]]
    hidden = [name for name in names if name not in list_ids(store)]
    return {"hidden": hidden, "stale_sibling": [one.memory_id for one in find_stale(store)]}


@cases("supersede")
def test_supersession_is_what_the_vector_says(case: Json, store: Store) -> None:
    given, expected = case["input"], case["expect"]
    if "rows" in given:
        assert look_for_copies(store, given) == expected
    elif "pair" in given:
        assert propose(given) == expected
    elif "replay" in given:
        run = replay if given["replay"].endswith("same operations") else replay_other
        assert run(store) == expected
    else:
        make_old(store, given)
        before = dump_tables(store)
        if "error" not in expected:
            check_done(store, supersede_memory(store, request_of(store, given)), expected)
            return
        with pytest.raises(MaintenanceError) as refused:
            supersede_memory(store, request_of(store, given))
        assert (refused.value.code, dump_tables(store)) == (expected["error"], before)


def test_one_memory_supersedes_several(store: Store) -> None:
    add(store, ("a", "one old fact"), ("b", "other old fact"), ("c", "bystander"))
    done = supersede_memory(store, ask(old=(Outdated("a", 1), Outdated("b", 1))))
    assert [(one.id, one.revision) for one in done.old] == [("a", 3), ("b", 3)]
    assert (done.new.revision, done.affected, list_ids(store)) == (4, 3, ["c", "n"])
    assert targets(reach(store, "n"), RelationKind.SUPERSEDES) == ["a", "b"]


def test_active_memory_takes_over_at_its_own_revision(store: Store) -> None:
    add(store, ("o", "old fact"), ("n", "new fact"))
    annotate(store, "n", 1)
    done = supersede_memory(store, ask(new=Replacement("n", revision=2)))
    assert (done.new.revision, done.old[0].revision, done.affected) == (3, 3, 2)
    assert done.evidence == decided()


def test_linking_active_memories_needs_a_decision_too(store: Store) -> None:
    add(store, ("o", "old fact"), ("n", "new fact"))
    before = dump_tables(store)
    with pytest.raises(EvidenceRequiredError):
        supersede_memory(
            store, ask(new=Replacement("n", revision=1), evidence=decided("user_statement"))
        )
    assert dump_tables(store) == before


def test_candidate_is_activated_and_takes_over(store: Store) -> None:
    add(store, ("o", "old fact"))
    add(store, ("n", "new fact"), status="candidate")
    supersede_memory(store, ask(new=Replacement("n", revision=1, is_candidate=True)))
    new = reach(store, "n")
    assert (new.status, new.revision, len(new.evidence)) == (Status.ACTIVE, 3, 2)
    assert list_ids(store) == ["n"]


def test_conflicted_memory_cannot_hide_another(store: Store) -> None:
    add(store, ("o", "old fact"), ("n", "new fact"), ("x", "third fact"))
    steps = (
        change("add_relation", "n", 1, **edge("conflicts_with", "x")),
        change("add_relation", "x", 1, **edge("conflicts_with", "n")),
        change("set_status", "n", 2, status="conflicted"),
    )
    apply_change_set(store, change_set("conflict", 1, *steps))
    before = dump_tables(store)
    with pytest.raises(InvalidTransitionError):
        supersede_memory(store, ask(new=Replacement("n", revision=3)))
    assert dump_tables(store) == before


def test_request_without_key_is_done_once(store: Store) -> None:
    add(store, ("o", "old fact"))
    first = supersede_memory(store, ask())
    annotate(store, "n", first.new.revision, minute=10)
    before = dump_tables(store)
    again = supersede_memory(store, ask())
    assert (again.replayed, again.new, dump_tables(store)) == (True, first.new, before)
    with pytest.raises(MaintenanceError):
        supersede_memory(store, ask(occurred_at=LATER))


def test_event_time_is_read_from_what_tells_it_best() -> None:
    def facts(**said: str) -> EventFacts:
        return EventFacts("a", said, WHEN, START)

    other = EventFacts("b", {}, None, WHEN - timedelta(minutes=1))
    slot = ConflictClass.SLOT
    assert propose_replacement(facts(), other, slot) == ("b", "a")
    assert propose_replacement(facts(event_time="2025-12-31"), other, slot) == ("a", "b")
    assert propose_replacement(facts(event_time=" "), other, slot) == ("b", "a")
    assert propose_replacement(facts(event_time="last spring"), other, slot) is None
    assert propose_replacement(facts(), other, ConflictClass.POLARITY) is None
    assert propose_replacement(facts(), other, ConflictClass.FIGURES) is not None


def test_slot_that_changed_keeps_the_newer_event(store: Store) -> None:
    """C32: coffee is stored first and happened later; other facts of Sam stay as they are."""
    said = {"coffee": "2026-03-01T00:00:00Z", "tea": "2025-03-01T00:00:00Z"}
    for name, when in said.items():
        labels = {"slot": "sam.drink", "event_time": when}
        add(store, (name, f"Sam drinks {name}"), metadata=labels)
    add(store, ("lives", "Sam lives in Oslo"), ("works", "Sam works at Acme"))
    coffee, tea = (gather_event_facts(reach(store, name)) for name in said)
    found = propose_replacement(coffee, tea, ConflictClass.DECLARED)
    assert found == ("tea", "coffee")
    others = [reach(store, name) for name in ("lives", "works")]
    supersede_memory(store, ask(found.old_id, new=Replacement(found.new_id, revision=1)))
    assert list_ids(store) == ["coffee", "lives", "works"]
    assert others == [reach(store, name) for name in ("lives", "works")]


def test_stale_expectation_of_one_of_several_undoes_all(store: Store) -> None:
    add(store, ("a", "one old fact"), ("b", "other old fact"))
    annotate(store, "b", 1)
    before = dump_tables(store)
    with pytest.raises(RevisionConflictError):
        supersede_memory(store, ask(old=(Outdated("a", 1), Outdated("b", 1))))
    assert dump_tables(store) == before
    assert read(store, "n") is None
