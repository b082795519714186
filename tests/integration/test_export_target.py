"""An export becomes a file whole or not at all, where and when it may."""

import errno
import os
from pathlib import Path

import pytest
from helpers.imports import Importer, record
from helpers.rows import NOW

from storage import Store
from storage.errors import AdmissionError, StorageError, StoreBusyError
from storage.exporting_copy import stage_beside
from tasks.exporting import export_file


@pytest.fixture
def load(store: Store, tmp_path: Path) -> Importer:
    return Importer(store, tmp_path / "lines.jsonl", NOW)


def test_existing_file_stays_unless_forced(store: Store, load: Importer, tmp_path: Path) -> None:
    load(record("a"))
    file = tmp_path / "all.jsonl"
    file.write_text("mine")
    with pytest.raises(AdmissionError, match="--force"):
        export_file(store, file)
    assert file.read_text() == "mine"
    assert export_file(store, file, is_forced=True).memories == 1
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(AdmissionError, match="is no file"):
            export_file(store, tmp_path / name, is_forced=True)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("name", ["memory.duckdb", "new.jsonl", "vectors/new.jsonl"])
def test_nothing_is_written_into_the_store(store: Store, name: str) -> None:
    with pytest.raises(AdmissionError, match="outside of the store"):
        export_file(store, store.path / name, is_forced=True)


def test_folder_of_the_file_must_exist(store: Store, tmp_path: Path) -> None:
    with pytest.raises(AdmissionError, match="does not exist"):
        export_file(store, tmp_path / "none" / "all.jsonl")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no file")
def test_folder_that_takes_nothing_is_named(store: Store) -> None:
    file = Path("/proc/self/all.jsonl")
    with pytest.raises(StorageError, match=f"^{file} could not be made: "):
        export_file(store, file)


def test_full_disk_is_told_and_leaves_nothing(store: Store, load: Importer, tmp_path: Path) -> None:
    load(record("a"))

    def fail(_done: int, _total: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "all.jsonl"
    with pytest.raises(StorageError, match=f"^{file} could not be made: No space left"):
        export_file(store, file, on_progress=fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.jsonl", "store"]


def test_failed_export_leaves_the_old_file_and_nothing_else(
    store: Store, load: Importer, tmp_path: Path
) -> None:
    load(record("a"))
    file = tmp_path / "all.jsonl"
    file.write_text("old")

    def fail(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_file(store, file, is_forced=True, on_progress=fail)
    assert file.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.jsonl", "lines.jsonl", "store"]


def test_what_a_killed_export_left_is_removed(store: Store, load: Importer, tmp_path: Path) -> None:
    load(record("a"))
    left = tmp_path / ".all.jsonl.staged"
    (left / "vectors").mkdir(parents=True)
    (left / "memory.duckdb").write_text("half")
    assert export_file(store, tmp_path / "all.jsonl").memories == 1
    assert not left.exists()


def test_two_exports_of_one_file_exclude_each_other(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    with stage_beside(file), pytest.raises(StoreBusyError):
        export_file(store, file)
    assert export_file(store, file).memories == 0
