"""Exports as tables for notebooks: all of one run, and without the live store."""

from pathlib import Path
from threading import Timer

import pyarrow as pa
import pytest
from helpers.children import start_child
from helpers.health import run_health
from helpers.rows import NOW, memory_table

from storage import Store
from storage import frames as frames_module
from storage.exports import read_export, write_exports
from storage.frames import EXPORTS, ExportsMixedError, ExportsNotFoundError, open_exports
from storage.memories import insert_memories


@pytest.fixture
def exported(store: Store, namespace_id: int) -> Store:
    rows = [{"id": f"m{number}", "namespace_id": namespace_id} for number in range(3)]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
    run_health(store)
    return store


def replace_export(store_path: Path, name: str, run_id: str) -> None:
    """Replace one export by itself, as a run that goes on after it would."""
    table = read_export(store_path, name)
    assert table is not None
    marked = table.replace_schema_metadata({"run_id": run_id})
    write_exports(store_path, [(name, marked)], run_id=run_id)


def test_every_export_is_a_table(exported: Store) -> None:
    frames = open_exports(exported.path)
    for name in EXPORTS:
        table = read_export(exported.path, name)
        assert isinstance(table, pa.Table)
        assert len(frames.sql(f"FROM {name}").fetchall()) == table.num_rows
    assert {file.stem for file in (exported.path / "exports").iterdir()} == set(EXPORTS)
    assert frames.sql("SELECT count(*) FROM memories").fetchall() == [(3,)]


def test_instants_are_utc(exported: Store) -> None:
    ((now,),) = open_exports(exported.path).sql("SELECT now FROM status").fetchall()
    assert now == NOW
    assert now.utcoffset().total_seconds() == 0


def test_policy_is_that_of_the_run(store: Store, namespace_id: int) -> None:
    assert namespace_id
    run_health(store, sweep={"cold_threshold": 0.31})
    policy = open_exports(store.path).sql("SELECT policy ->> '$.sweep.cold_threshold' FROM status")
    assert policy.fetchall() == [("0.31",)]


def test_exports_are_read_while_a_writer_holds_the_store(exported: Store) -> None:
    with start_child("hold_store", exported.path, "write") as writer:
        assert writer.hear() == "held"
        assert open_exports(exported.path).sql("SELECT count(*) FROM health").fetchall()[0][0] > 0


def test_what_was_never_exported_says_how_to_make_it(store: Store) -> None:
    with pytest.raises(ExportsNotFoundError, match="memtend run health") as caught:
        open_exports(store.path)
    assert caught.value.facts == {"store": str(store.path), "export": "memories"}


def test_exports_of_two_runs_are_refused(exported: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames_module, "_PAUSE_S", 0)
    replace_export(exported.path, "runs", "another")
    with pytest.raises(ExportsMixedError):
        open_exports(exported.path)


def test_run_that_replaces_the_exports_is_waited_for(exported: Store) -> None:
    for name in EXPORTS[1:]:
        replace_export(exported.path, name, "another")
    last = Timer(0.5, replace_export, (exported.path, EXPORTS[0], "another"))
    last.start()
    assert open_exports(exported.path).sql("SELECT count(*) FROM memories").fetchall() == [(3,)]
    last.join()
