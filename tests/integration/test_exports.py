"""Exports are replaced whole: no reader sees a part, and a killed one leaves nothing for long."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from helpers.children import start_child

from storage import Store
from storage.exports import name_export, read_export, remove_unfinished, write_exports

ROUNDS = 4


def table_of(number: int) -> pa.Table:
    return pa.table({"number": [number]})


def list_files(store: Store) -> set[str]:
    return {file.name for file in (store.path / "exports").iterdir()}


def test_export_replaces_the_one_before(store: Store) -> None:
    for number in (1, 2):
        write_exports(store.path, [("figures", table_of(number))], run_id="run-1")
        assert read_export(store.path, "figures") == table_of(number)
    assert list_files(store) == {"figures.parquet"}


def test_files_are_the_owners_only(store: Store) -> None:
    write_exports(store.path, [("figures", table_of(1))], run_id="run-1")
    file = name_export(store.path, "figures")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_was_never_exported_is_none(store: Store) -> None:
    assert read_export(store.path, "figures") is None
    assert remove_unfinished(store.path) == 0


def test_left_over_part_goes_with_the_next_export(store: Store) -> None:
    write_exports(store.path, [("figures", table_of(1))], run_id="run-1")
    left = store.path / "exports" / ".figures.parquet.run-2.unfinished"
    left.write_bytes(b"PAR1 and no more")
    assert read_export(store.path, "figures") == table_of(1)
    write_exports(store.path, [("others", table_of(3))], run_id="run-3")
    assert list_files(store) == {"figures.parquet", "others.parquet"}


def fail_on_the_second() -> Iterator[tuple[str, pa.Table]]:
    yield "figures", table_of(2)
    raise RuntimeError


def test_export_that_fails_leaves_whole_files_only(store: Store) -> None:
    tables = [("figures", table_of(1)), ("others", table_of(1))]
    write_exports(store.path, tables, run_id="run-1")
    with pytest.raises(RuntimeError):
        write_exports(store.path, fail_on_the_second(), run_id="run-2")
    assert read_export(store.path, "figures") == table_of(2)
    assert read_export(store.path, "others") == table_of(1)
    assert list_files(store) == {"figures.parquet", "others.parquet"}


def test_writer_that_was_overtaken_replaces_nothing(store: Store) -> None:
    def overtaken() -> Iterator[tuple[str, pa.Table]]:
        yield "figures", table_of(1)
        write_exports(store.path, [("figures", table_of(2))], run_id="run-2")

    write_exports(store.path, overtaken(), run_id="run-1")
    assert read_export(store.path, "figures") == table_of(2)
    assert list_files(store) == {"figures.parquet"}


def read_rounds(store_path: Path) -> set[int]:
    found = read_export(store_path, "rounds")
    assert found is not None
    return set(found.column("round").unique().to_pylist())


@pytest.mark.parametrize("pause_s", [0.0, 0.05, 0.11])
def test_reader_beside_a_writer_sees_whole_tables_and_a_kill_leaves_one(
    store: Store, pause_s: float
) -> None:
    with start_child("export_rounds", store.path) as child:
        assert child.hear() == "exporting"
        seen: set[int] = set()
        while len(seen) < ROUNDS:
            rounds = read_rounds(store.path)
            assert len(rounds) == 1
            assert child.process.poll() is None
            seen |= rounds
        time.sleep(pause_s)
        child.process.kill()
        child.process.wait()
    assert len(read_rounds(store.path)) == 1
    write_exports(store.path, [("figures", table_of(1))], run_id="run-after")
    assert list_files(store) == {"rounds.parquet", "figures.parquet"}
