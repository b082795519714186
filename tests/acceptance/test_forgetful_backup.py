"""A real store of another tool: imported whole, then planned, pruned and swept by commands."""

import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.children import ROOT
from helpers.cli import Answer, run_process
from helpers.imports import counts
from helpers.rows import NOW
from helpers.runs import dump_tables, read_rows
from helpers.vectors import Json

from storage import Store, create_store, open_store
from storage.invariants import check_invariants
from storage.memories import read_relations
from storage.models import DEFAULT_NAMESPACE, round_to_f32
from storage.namespaces import find_namespace
from tasks.importing import ImportReport, import_file
from tasks.status import show_status

pytestmark = pytest.mark.slow

MEMORIES = 463
SUPERSEDED = ["101", "108", "130", "168", "99"]
SUCCESSOR = "175"
Edges = Counter[tuple[str, str, str]]
IMPORTANCES = {0.5: 5, 0.6: 16, 0.7: 126, 0.8: 151, 0.9: 89, 1.0: 76}
AT = ("--now", "2026-09-30T00:00:00Z")
PRUNE = ("run", "prune", "--set", "min_importance_to_keep=0.65", *AT)


@pytest.fixture(scope="module")
def backup() -> Path:
    shared = Path(os.environ.get("MEMTEND_SHARED", ROOT.parent / "shared"))
    path = shared / "data" / "forgetful-backup.json"
    if not path.is_file():
        pytest.skip("the folder named by MEMTEND_SHARED has no data/forgetful-backup.json")
    return path


@pytest.fixture(scope="module")
def imported(backup: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, ImportReport]:
    """Give a store that holds the backup, for tests that only read, and the import's report."""
    store, _ = create_store(tmp_path_factory.mktemp("imported") / "store", clock=NOW)
    return store, import_file(store, backup, clock=NOW)


@pytest.fixture(scope="module")
def rows(imported: tuple[Store, ImportReport]) -> dict[str, Json]:
    return read_rows(imported[0], DEFAULT_NAMESPACE)


@pytest.fixture(scope="module")
def related(imported: tuple[Store, ImportReport], rows: dict[str, Json]) -> Edges:
    """Give the edges of all memories: (memory, kind, target), each with its number of rows."""
    with imported[0].read() as reader:
        owner = find_namespace(reader, DEFAULT_NAMESPACE)
        assert owner is not None
        found = read_relations(reader, owner.namespace_id, rows)
    return Counter((one["memory_id"], one["kind"], one["target_id"]) for one in found)


def test_every_memory_arrives(imported: tuple[Store, ImportReport]) -> None:
    report = imported[1]
    assert (report.format, *counts(report)) == ("forgetful", MEMORIES, 0, 0, 0)
    assert report.rejects == []


def test_tables_of_odd_shape_are_named(imported: tuple[Store, ImportReport]) -> None:
    """C52."""
    said = {note.field: note.reason for note in imported[1].warnings}
    assert said["users"] == "is one object instead of a list; not imported"
    assert said["memory_code_artifact_association"] == "is null instead of a list; not imported"
    assert said["entities"] == "24 rows; not imported"


def test_superseded_memories_arrive_superseded(rows: dict[str, Json]) -> None:
    assert Counter(row["status"] for row in rows.values()) == {"active": 458, "superseded": 5}
    assert [name for name, row in rows.items() if row["status"] == "superseded"] == SUPERSEDED


def test_supersession_stands_on_both_ends(related: Edges) -> None:
    ends = sorted(edge for edge in related if edge[1] != "related_to")
    assert ends == sorted(
        [(old, "superseded_by", SUCCESSOR) for old in SUPERSEDED]
        + [(SUCCESSOR, "supersedes", old) for old in SUPERSEDED]
    )


def test_links_stand_on_both_ends(related: Edges) -> None:
    links = {(one, other) for one, kind, other in related if kind == "related_to"}
    assert len(links) == 2 * 1_385
    assert {(other, one) for one, other in links} == links
    assert set(related.values()) == {1}


def test_importance_is_scaled_and_nothing_is_clamped(rows: dict[str, Json]) -> None:
    wanted = {round_to_f32(value): count for value, count in IMPORTANCES.items()}
    assert Counter(row["importance"] for row in rows.values()) == wanted


def test_naive_stamps_are_utc(rows: dict[str, Json]) -> None:
    created = [row["created_at"] for row in rows.values()]
    assert rows["1"]["created_at"] == datetime(2026, 1, 1, 19, 0, 47, 674173, tzinfo=UTC)
    assert min(created) >= datetime(2026, 1, 1, tzinfo=UTC)
    assert max(created) < datetime(2026, 1, 20, tzinfo=UTC)
    assert all(row["content_at"] == row["created_at"] for row in rows.values())


def test_lists_inside_text_are_read(rows: dict[str, Json]) -> None:
    assert all(row["tags"] and isinstance(row["tags"], list) for row in rows.values())
    assert not any("null" in row["metadata"].values() for row in rows.values())
    assert {row["kind"] for row in rows.values()} == {"episodic"}


def test_imported_store_is_sound(imported: tuple[Store, ImportReport]) -> None:
    with imported[0].read() as reader:
        assert [check for check in check_invariants(reader) if check.broken] == []


def test_second_import_changes_nothing(imported: tuple[Store, ImportReport], backup: Path) -> None:
    before = dump_tables(imported[0])
    assert counts(import_file(imported[0], backup, clock=NOW)) == (0, MEMORIES, 0, 0)
    assert dump_tables(imported[0]) == before


class Journey:
    """What a person types, one command after the other; after each the counters add up."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self.said: dict[str, Answer] = {}
        self.counted: dict[str, Mapping[str, int]] = {}

    def type(self, step: str, *words: object) -> Json:
        answer = run_process("--json", "--store", self._store, *words)
        status = show_status(open_store(self._store), now=NOW)
        self.said[step], self.counted[step] = answer, status["memories"]
        return answer.value


@pytest.fixture(scope="module")
def journey(backup: Path, tmp_path_factory: pytest.TempPathFactory) -> Journey:
    journey = Journey(tmp_path_factory.mktemp("journey") / "store")
    journey.type("init", "init")
    journey.type("import", "import", backup)
    journey.type("plan", "plan", "sweep", *AT)
    journey.type("prune", *PRUNE)
    journey.type("again", *PRUNE)
    refused = journey.type("refused", "run", "sweep", *AT)
    journey.type("confirmed", "run", "sweep", "--confirm", refused["runs"][0]["plan_id"])
    journey.type("status", "status", *AT)
    return journey


def only_run(answer: Answer) -> Json:
    (run,) = answer.value["runs"]
    assert run["found"] == run["applied"] + sum(run["skipped"].values()) + run["failed"]
    return dict(run)


def test_plan_names_every_cold_memory_with_its_reason(journey: Journey) -> None:
    (plan,) = journey.said["plan"].value["plans"]
    assert (plan["found"], plan["reasons"], plan["visible"]) == (458, {"cold": 458}, 458)
    assert len({decision["id"] for decision in plan["decisions"]}) == 458
    for decision in plan["decisions"]:
        assert (decision["reason"], decision["action"]) == ("cold", "tombstone")
        assert decision["time_term"] + decision["access_term"] == decision["score"]
        assert decision["score"] < decision["threshold"] == 0.2


def test_plan_changes_no_memory(journey: Journey) -> None:
    assert journey.counted["plan"] == journey.counted["import"]


def test_prune_applies_exactly_the_unimportant(journey: Journey) -> None:
    run = only_run(journey.said["prune"])
    assert (run["outcome"], run["found"], run["applied"]) == ("applied", 21, 21)
    assert journey.counted["prune"]["tombstoned"] == 21


def test_second_prune_has_nothing_to_do(journey: Journey) -> None:
    run = only_run(journey.said["again"])
    assert (run["outcome"], run["found"], run["plan_id"]) == ("unchanged", 0, None)
    assert journey.counted["again"] == journey.counted["prune"]


def test_sweep_over_the_limit_is_refused(journey: Journey) -> None:
    answer = journey.said["refused"]
    run = only_run(answer)
    assert (answer.exit_code, run["outcome"], run["skipped"]) == (1, "refused", {"refused": 437})
    assert answer.error["limit"] == "max_fraction"
    assert (answer.error["planned"], answer.error["visible"], answer.error["allowed"]) == (
        437,
        437,
        131,
    )
    assert journey.counted["refused"] == journey.counted["prune"]


def test_confirmed_sweep_applies_the_refused_plan(journey: Journey) -> None:
    answer = journey.said["confirmed"]
    run = only_run(answer)
    assert (answer.exit_code, run["outcome"], run["applied"]) == (0, "applied", 437)
    assert run["plan_id"] == only_run(journey.said["refused"])["plan_id"]
    assert journey.counted["confirmed"]["tombstoned"] == 458
    assert journey.counted["confirmed"]["superseded"] == 5


def test_status_counts_what_the_store_holds(journey: Journey) -> None:
    assert journey.said["status"].value["memories"] == journey.counted["confirmed"]


def test_counters_add_up_after_every_step(journey: Journey) -> None:
    for step, counters in journey.counted.items():
        parts = [count for name, count in counters.items() if name != "total"]
        assert sum(parts) == counters["total"] == (0 if step == "init" else MEMORIES), step
