"""refresh and janitor as jobs: the command line, outcomes, leases, and what readers get of them."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.cli import run_here

from storage import open_store
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.vectors import VectorStore

TEXTS = {
    "deploy": "deploys happen in the tuesday window",
    "keys": "rotate the signing keys each quarter",
    "lunch": "lunch is at noon on the terrace",
}
HASH = {"MEMTEND_EMBEDDER": "hash"}


@pytest.fixture(autouse=True)
def _embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    run_here("init", "--store", path)
    for name, text in TEXTS.items():
        run_here("add", text, "--id", name, "--store", path)
    return path


def refresh(path: Path, *words: object) -> dict[str, object]:
    run = run_here("run", "refresh", *words, "--store", path, "--json").run
    return {name: run[name] for name in ("outcome", "found", "applied", "skipped", "failed")}


def count_versions(path: Path) -> int:
    vectors = VectorStore(path)
    return sum(vectors.figures(table).versions for table in vectors.tables())


def test_first_run_serves_all_and_the_second_does_nothing(path: Path) -> None:
    assert refresh(path) == {
        "outcome": "applied",
        "found": 3,
        "applied": 3,
        "skipped": {},
        "failed": 0,
    }
    versions = count_versions(path)
    again = refresh(path)
    assert again["outcome"] == "unchanged"
    assert again["skipped"] == {"unchanged": 3}
    assert count_versions(path) == versions


def test_status_tells_coverage_and_staleness(path: Path) -> None:
    nothing = {"active": 3, "embedded": 0, "stale": 0, "failed": 0, "coverage": 0.0}

    def read() -> object:
        index = run_here("status", "--store", path, "--json").value["index"]
        return {name: index[name] for name in nothing}

    assert read() == nothing
    refresh(path)
    assert read() == {**nothing, "embedded": 3, "coverage": 1.0}
    with open_store(path).write() as writer:
        writer.execute("UPDATE memories SET content = 'other words' WHERE id = 'keys'")
    assert read() == {**nothing, "embedded": 2, "stale": 1, "coverage": 0.666667}


def test_only_what_changed_is_embedded_again(path: Path) -> None:
    refresh(path)
    run_here("add", "a fourth memory about backups", "--id", "backup", "--store", path)
    refresh(path)
    figures = run_here("runs", "--store", path, "--json").value["runs"][0]["figures"]
    assert (figures["embed_inputs"], figures["reuse_hits"]) == (1, 3)


def test_plan_tells_what_would_be_done_and_writes_nothing(path: Path) -> None:
    refresh(path)
    run_here("add", "a fourth memory about backups", "--id", "backup", "--store", path)
    runs = run_here("runs", "--store", path, "--json").value["runs"]
    plan = run_here("plan", "refresh", "--store", path, "--json").plan
    assert (plan["found"], plan["reasons"]) == (4, {"embed": 1, "reuse": 3})
    told = {one["id"]: one["action"] for one in plan["decisions"]}
    assert told == {"backup": "embed", "deploy": "reuse", "keys": "reuse", "lunch": "reuse"}
    assert run_here("runs", "--store", path, "--json").value["runs"] == runs


def test_index_is_made_anew_from_the_memories_alone(path: Path) -> None:
    refresh(path)
    assert refresh(path, "--set", "recreate_index=true")["applied"] == 3
    figures = run_here("runs", "--store", path, "--json").value["runs"][0]["figures"]
    assert (figures["embed_inputs"], figures["reuse_hits"]) == (3, 0)
    assert refresh(path)["outcome"] == "unchanged"
    answer = run_here("recall", "tuesday deploys", "--store", path, "--json").value
    assert answer["semantic"] == "used"


def test_vectors_that_are_gone_are_made_again(path: Path) -> None:
    refresh(path)
    shutil.rmtree(path / "vectors")
    assert run_here("recall", "tuesday deploys", "--store", path, "--json").value["hits"]
    assert refresh(path)["applied"] == 3


def test_table_that_cannot_be_read_twice_in_a_row_is_given_up(path: Path) -> None:
    refresh(path)
    (table,) = (path / "vectors").glob("*.lance")
    for file in table.rglob("*"):
        if file.is_file():
            file.write_bytes(b"spoiled")
    first = run_here("run", "refresh", "--store", path, "--json")
    assert first.exit_code == 1
    assert first.error["type"] == "index_unreadable"
    assert refresh(path)["outcome"] == "applied"
    assert refresh(path)["outcome"] == "unchanged"


def test_unknown_embedder_refuses_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "there is none")
    answer = run_here("run", "refresh", "--store", path, "--json")
    assert answer.exit_code == 1
    assert answer.run["outcome"] == "refused"


def test_other_embedder_serves_once_it_is_complete(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh(path)
    monkeypatch.setenv("MEMTEND_EMBEDDER", "helpers.embedders:ScriptedEmbedder")
    assert refresh(path)["applied"] == 3
    with open_store(path).read() as reader:
        rows = reader.rows(
            "SELECT p.binding ->> '$.embedding.provider' FROM serving JOIN partitions AS p "
            "USING (partition)"
        )
    assert rows == [("fixture",)]


def test_janitor_and_refresh_keep_out_of_each_others_way(path: Path) -> None:
    store = open_store(path)
    clock = datetime.now(UTC)
    with store.write() as writer:
        target = ensure_namespace(writer, DEFAULT_NAMESPACE)
        acquire_lease(writer, target, "janitor", holder="somebody", clock=clock)
    answer = run_here("run", "refresh", "--store", path, "--json")
    assert answer.exit_code == 3
    assert answer.run["outcome"] == "skipped_busy"


def test_rebuild_waits_for_the_refreshes_of_others(path: Path) -> None:
    store = open_store(path)
    clock = datetime.now(UTC)
    with store.write() as writer:
        other = DEFAULT_NAMESPACE.model_copy(update={"scope": "other"})
        target = ensure_namespace(writer, other)
        acquire_lease(writer, target, "refresh", holder="somebody", clock=clock)
    words = ("--set", "recreate_index=true", "--namespace", "default/default/default")
    answer = run_here("run", "refresh", *words, "--store", path, "--json")
    assert answer.run["outcome"] == "skipped_busy"
    assert refresh(path, "--namespace", "default/default/default")["outcome"] == "applied"


def test_janitor_works_on_the_whole_store_and_twice_does_nothing(path: Path) -> None:
    refresh(path)
    assert run_here("plan", "janitor", "--store", path, "--json").plan["found"] == 0
    run = run_here("run", "janitor", "--store", path, "--json").run
    assert (run["outcome"], run["found"]) == ("unchanged", 0)
    words = ("run", "janitor", "--namespace", "default/default/default", "--store", path)
    assert run_here(*words, "--json").error["field"] == "namespace"


def test_janitor_collects_what_failed_runs_left(path: Path) -> None:
    refresh(path)
    long_ago = datetime.now(UTC) - timedelta(days=1)
    run_here("add", "a fourth memory about backups", "--id", "backup", "--store", path)
    refresh(path)
    run_here("add", "a fifth memory about builds", "--id", "build", "--store", path)
    refresh(path)
    with open_store(path).write() as writer:
        params = {"at": long_ago}
        writer.execute("UPDATE publications SET ended_at = $at WHERE ended_at IS NOT NULL", params)
    run = run_here("run", "janitor", "--store", path, "--json").run
    assert (run["outcome"], run["failed"]) == ("applied", 0)
    assert refresh(path)["outcome"] == "unchanged"


def test_rebuild_of_many_namespaces_makes_one_table(path: Path) -> None:
    for scope in ("a", "b"):
        run_here("add", f"memory of {scope}", "--namespace", f"t/p/{scope}", "--store", path)
    runs = run_here("run", "refresh", "--store", path, "--json").value["runs"]
    assert [run["outcome"] for run in runs] == ["applied"] * 3
    words = ("run", "refresh", "--set", "recreate_index=true", "--store", path, "--json")
    for count in (2, 3):
        runs = run_here(*words).value["runs"]
        assert [run["outcome"] for run in runs] == ["applied"] * 3
        assert len(VectorStore(path).tables()) == count
    runs = run_here("run", "refresh", "--store", path, "--json").value["runs"]
    assert [run["outcome"] for run in runs] == ["unchanged"] * 3
