"""The verb `supersede`: what it says, what it keeps of the old memory, and what it refuses."""

from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.runs import dump_tables

from storage import Store, open_store
from storage.models import DEFAULT_NAMESPACE, EvidenceKind, MemoryRecord, Status
from storage.repository import read_state

NEWS = ("supersede", "old", "new", "--text", "deploys happen on tuesdays")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store with two memories."""
    path = tmp_path / "store"
    run_here("init", "--store", path)
    told = ("--kind", "semantic", "--importance", "0.75", "--tag", "subject:ann", "--pin")
    run_here("add", "deploys happen on mondays", "--id", "old", *told, "--store", path)
    run_here("add", "lunch is at noon", "--id", "other", "--store", path)
    return path


def read(path: Path, memory_id: str) -> MemoryRecord:
    with open_store(path).read() as reader:
        found = read_state(reader, DEFAULT_NAMESPACE, memory_id)
    assert found is not None
    return found


def tables(path: Path) -> object:
    store: Store = open_store(path)
    return dump_tables(store)


def test_new_memory_takes_the_place_of_an_old_one(path: Path) -> None:
    answer = run_here(*NEWS, "--evidence", "ticket://7", "--store", path, "--json")
    assert answer.exit_code == 0
    said = answer.value["superseded"]
    assert said["old"] == [{"id": "old", "revision": 3}]
    assert said["new"] == {"id": "new", "revision": 3}
    assert (said["affected"], said["replayed"]) == (2, False)
    assert said["namespace"] == DEFAULT_NAMESPACE.model_dump()
    assert [(one["kind"], one["uri"]) for one in said["evidence"]] == [
        ("verification", "ticket://7")
    ]
    old, new = read(path, "old"), read(path, "new")
    assert (old.status, new.status) == (Status.SUPERSEDED, Status.ACTIVE)
    assert (new.kind, new.importance, new.tags, new.pinned) == (
        old.kind,
        old.importance,
        old.tags,
        old.pinned,
    )
    recalled = run_here("recall", "deploys happen", "--store", path, "--json").value["hits"]
    assert [hit["id"] for hit in recalled] == ["new"]


def test_people_read_one_line(path: Path) -> None:
    answer = run_here(*NEWS, "--approver", "ann", "--store", path)
    assert (answer.exit_code, answer.out) == (0, "new supersedes old\n")


def test_approver_is_kept_as_evidence_and_the_note_with_the_memory(path: Path) -> None:
    run_here(*NEWS, "--approver", "ann", "--note", "said at stand-up", "--store", path)
    new = read(path, "new")
    assert EvidenceKind.MANUAL in {item.kind for item in new.evidence}
    assert "memtend:approver/ann" in {item.uri for item in new.evidence}
    assert new.metadata == {"note": "said at stand-up"}


def test_existing_memory_takes_over(path: Path) -> None:
    words = ("supersede", "old", "other", "--approver", "ann", "--store", path, "--json")
    said = run_here(*words).value["superseded"]
    assert (said["old"][0]["revision"], said["new"]["revision"]) == (3, 2)
    assert said["evidence"][0]["uri"] == "memtend:approver/ann"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(NEWS, "evidence_required", id="nobody-vouches"),
        pytest.param((*NEWS, "--approver", " "), "evidence_required", id="blank-approver"),
        pytest.param(("supersede", "old", "other"), "evidence_required", id="link-unvouched"),
        pytest.param(
            ("supersede", "old", "new", "--approver", "ann"), "memory_not_found", id="no-new"
        ),
        pytest.param(
            ("supersede", "none", "other", "--approver", "ann"), "memory_not_found", id="no-old"
        ),
        pytest.param(
            (*NEWS, "--approver", "ann", "--expected-revision", "2"),
            "revision_conflict",
            id="stale",
        ),
        pytest.param(
            ("supersede", "old", "other", "--text", "x", "--approver", "ann"),
            "memory_already_exists",
            id="text-for-an-existing-one",
        ),
        pytest.param(
            ("supersede", "old", "old", "--approver", "ann"), "invariant_violation", id="itself"
        ),
        pytest.param((*NEWS, "--evidence", "a\tb"), "invalid_input", id="bad-uri"),
    ],
)
def test_refusal_names_its_reason_and_stores_nothing(
    path: Path, words: tuple[str, ...], error: str
) -> None:
    before = tables(path)
    answer = run_here(*words, "--store", path, "--json")
    assert (answer.exit_code, answer.error["type"]) == (1, error)
    assert tables(path) == before


def test_note_needs_a_new_memory(path: Path) -> None:
    words = ("supersede", "old", "other", "--approver", "ann", "--note", "x", "--store", path)
    answer = run_here(*words, "--json")
    assert (answer.exit_code, answer.error["field"]) == (2, "--note")


def test_superseded_memory_cannot_be_superseded_again(path: Path) -> None:
    run_here(*NEWS, "--approver", "ann", "--store", path)
    words = ("supersede", "old", "other", "--approver", "ann", "--store", path, "--json")
    answer = run_here(*words)
    assert (answer.exit_code, answer.error["type"]) == (1, "invariant_violation")


def test_namespace_is_named_where_an_id_has_several(path: Path) -> None:
    where = ("--namespace", "t/p/s")
    run_here("add", "deploys happen on fridays", "--id", "old", *where, "--store", path)
    unclear = run_here(*NEWS, "--approver", "ann", "--store", path, "--json")
    assert (unclear.exit_code, unclear.error["field"]) == (1, "namespace")
    said = run_here(*NEWS, "--approver", "ann", *where, "--store", path, "--json")
    assert said.value["superseded"]["namespace"]["tenant"] == "t"
    assert read(path, "old").status == Status.ACTIVE
