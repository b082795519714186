"""A backup is a whole store of its own: the same memories, and an index that is made anew."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.imports import Importer, edges, record
from helpers.rows import NOW
from helpers.runs import dump_tables

from storage import Store, create_store, open_store
from storage.erasure_keys import KEY_FILE
from storage.errors import AdmissionError, LeaseHeldError, StorageError
from storage.gateway import DATABASE_FILE
from storage.history import read_history_of_store
from storage.invariants import check_invariants
from storage.leases import acquire_lease, list_held
from storage.models import DEFAULT_NAMESPACE, Status
from storage.namespaces import ensure_namespace
from storage.snapshots import take_snapshot
from tasks.backup import BackupReport, back_up

CLOCK = NOW + timedelta(hours=1)
QUERY = "tuesday deploy window"
TEXTS = {
    "window": "deploys happen in the tuesday window",
    "windows": "deploying on tuesdays in our windows",
    "lunch": "lunch is at noon",
}


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Store:
    """Give a store with memories, history and edges."""
    Importer(store, tmp_path / "lines", NOW)(
        record("new", **edges(("supersedes", "old"))),
        record("old", status="superseded", revision=2, history=[{"content": "older"}]),
        record("gone", status="tombstoned"),
    )
    return store


def copy(store: Store, target: Path, holder: str = "backup") -> BackupReport:
    return back_up(store, target, holder=holder, clock=lambda: CLOCK, ttl_s=300)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_backup_holds_the_same_rows(filled: Store, tmp_path: Path) -> None:
    before = dump_tables(filled, without=["leases"])
    report = copy(filled, tmp_path / "copy")
    assert (report.namespaces, report.memories, report.broken) == (1, 3, {})
    assert report.byte_count >= (tmp_path / "copy" / DATABASE_FILE).stat().st_size
    backup = open_store(tmp_path / "copy")
    assert dump_tables(backup, without=["leases"]) == before
    assert dump_tables(filled, without=["leases"]) == before
    with backup.read() as reader, filled.read() as other:
        assert [check for check in check_invariants(reader) if check.broken] == []
        shots = [
            take_snapshot(one, DEFAULT_NAMESPACE, statuses=list(Status)) for one in (reader, other)
        ]
        assert shots[0] == shots[1]


def test_backup_leaves_no_lease_on_either_side(filled: Store, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    for path in (filled.path, tmp_path / "copy"):
        with open_store(path).read() as reader:
            assert list_held(reader) == []


def test_backup_is_of_another_history(filled: Store, tmp_path: Path) -> None:
    copy(filled, tmp_path / "copy")
    with open_store(tmp_path / "copy").read() as reader:
        assert not read_history_of_store(reader, tmp_path / "copy").is_current


def test_backup_is_for_its_owner_only(filled: Store, tmp_path: Path) -> None:
    (filled.path / KEY_FILE).write_bytes(b"secret")
    (filled.path / KEY_FILE).chmod(0o600)
    copy(filled, tmp_path / "copy")
    assert (tmp_path / "copy" / KEY_FILE).read_bytes() == b"secret"
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700
    for name in (DATABASE_FILE, KEY_FILE):
        assert (tmp_path / "copy" / name).stat().st_mode & 0o777 == 0o600


def test_only_the_files_of_the_store_are_copied(filled: Store, tmp_path: Path) -> None:
    (filled.path / "exports").mkdir()
    (filled.path / "exports" / "health.parquet").write_text("derived")
    (filled.path / "prefect").mkdir()
    copy(filled, tmp_path / "copy")
    assert set(names_in(tmp_path / "copy")) == {DATABASE_FILE, "memory.lock", "turnstile.lock"}


def test_empty_directory_is_taken_and_a_used_one_refused(filled: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert copy(filled, tmp_path / "empty").memories == 3
    with pytest.raises(AdmissionError, match="not empty"):
        copy(filled, tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(AdmissionError, match="no directory"):
        copy(filled, tmp_path / "file")
    with pytest.raises(AdmissionError, match="outside of the store"):
        copy(filled, filled.path / "copy")
    assert names_in(tmp_path) == ["empty", "file", "lines", "store"]


@pytest.mark.parametrize("job", ["refresh", "janitor", "erase"])
def test_backup_waits_for_nobody_who_writes_vectors(
    filled: Store, tmp_path: Path, job: str
) -> None:
    with filled.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        acquire_lease(writer, owner, job, holder="other", clock=CLOCK)
    with pytest.raises(LeaseHeldError):
        copy(filled, tmp_path / "copy")
    assert names_in(tmp_path) == ["lines", "store"]


def test_memories_may_change_while_files_are_copied(filled: Store, tmp_path: Path) -> None:
    (filled.path / KEY_FILE).write_bytes(b"secret")

    def write(done: int, _total: int) -> None:
        Importer(filled, tmp_path / "more", NOW)(record(f"more{done}"))

    report = back_up(
        filled,
        tmp_path / "copy",
        holder="b",
        clock=lambda: CLOCK,
        ttl_s=300,
        on_progress=write,
    )
    assert report.memories == 3
    with filled.read() as reader:
        assert reader.rows("SELECT count(*) FROM memories") == [(4,)]


def test_lost_lease_makes_no_backup(filled: Store, tmp_path: Path) -> None:
    """A janitor that took the lease over may have rewritten the vectors."""
    (filled.path / KEY_FILE).write_bytes(b"secret")

    def take_over(_done: int, _total: int) -> None:
        with filled.write() as writer:
            owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
            later = CLOCK + timedelta(hours=1)
            acquire_lease(writer, owner, "janitor", holder="other", clock=later)

    with pytest.raises(StorageError, match="no longer ours"):
        back_up(
            filled,
            tmp_path / "copy",
            holder="b",
            clock=lambda: CLOCK,
            ttl_s=300,
            on_progress=take_over,
        )
    assert names_in(tmp_path) == ["lines", "store"]


def test_copy_that_differs_is_removed(filled: Store, tmp_path: Path) -> None:
    """Bytes that change on the way to the disk are found when the copy is read back."""
    (filled.path / KEY_FILE).write_bytes(b"secret")

    def damage(_done: int, _total: int) -> None:
        (file,) = tmp_path.glob(f".copy.staged/store/{DATABASE_FILE}")
        with file.open("r+b") as opened:
            opened.truncate(file.stat().st_size // 2)

    with pytest.raises(StorageError):
        back_up(
            filled,
            tmp_path / "copy",
            holder="b",
            clock=lambda: CLOCK,
            ttl_s=300,
            on_progress=damage,
        )
    assert names_in(tmp_path) == ["lines", "store"]


def test_broken_store_is_copied_and_its_faults_are_told(filled: Store, tmp_path: Path) -> None:
    with filled.write() as writer:
        writer.execute("DELETE FROM relations WHERE memory_id = 'old'")
    assert copy(filled, tmp_path / "copy").broken == {"edge_without_inverse": 1}


def test_backup_with_an_index_serves_every_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    path, target = tmp_path / "store", tmp_path / "copy"
    create_store(path, clock=NOW)
    for name, text in TEXTS.items():
        assert run_here("add", text, "--id", name, "--store", path).exit_code == 0
    assert run_here("run", "refresh", "--store", path).exit_code == 0
    report = run_here("backup", target, "--store", path, "--json").value["backup"]
    assert (report["memories"], report["namespaces"]) == (3, 1)
    assert report["file_count"] > 3
    status = run_here("status", "--store", target, "--json").value
    assert status["memories"]["active"] == 3
    lexical = run_here("recall", QUERY, "--store", target, "--json")
    assert json.loads(lexical.out)["hits"][0]["id"] == "window"
    assert run_here("run", "refresh", "--store", target, "--json").run["outcome"] == "applied"
    for store in (target, path):
        assert run_here("recall", QUERY, "--store", store, "--json").value["semantic"] == "used"
        again = run_here("run", "refresh", "--store", store, "--json").run
        assert again["outcome"] == "unchanged"
        assert run_here("doctor", "--store", store).exit_code == 0
