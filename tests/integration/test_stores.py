"""Stores are created once, privately, and opened only by code that knows their schema."""

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from os import umask
from pathlib import Path

import pytest

from storage import Store, create_store, open_store
from storage.errors import AdmissionError, SchemaVersionError, StorageError, StoreNotFoundError
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import list_namespaces
from storage.stores import read_store_id

NEWER = "INSERT INTO schema_migrations VALUES (9999, 'from_the_future', 'x', $now)"
CONTENTS = ("store_meta", "namespaces", "schema_migrations")


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = umask(0o022)
    yield
    umask(before)


def read_contents(store: Store) -> list[object]:
    with store.read() as reader:
        return [reader.rows(f"SELECT * FROM {table} ORDER BY 1") for table in CONTENTS]  # noqa: S608


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_store_has_an_id_and_the_default_namespace(tmp_path: Path, now: datetime) -> None:
    store, applied = create_store(tmp_path / "deep" / "store", clock=now)
    with open_store(store.path).read() as reader:
        assert len(read_store_id(reader)) == 36
        assert [stored.namespace for stored in list_namespaces(reader)] == [DEFAULT_NAMESPACE]
    assert applied


def test_creating_a_store_again_changes_nothing(store: Store, now: datetime) -> None:
    before = read_contents(store)
    again, applied = create_store(store.path, clock=now.replace(year=2027))
    assert applied == []
    assert read_contents(again) == before


def test_two_at_once_create_one_store(tmp_path: Path, now: datetime) -> None:
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: create_store(tmp_path / "store", clock=now), range(2)))
    assert sorted(len(applied) > 0 for _, applied in made) == [False, True]
    assert read_contents(made[0][0]) == read_contents(made[1][0])


@pytest.mark.usefixtures("_open_umask")
def test_store_is_private_under_an_open_umask(tmp_path: Path, now: datetime) -> None:
    store, _ = create_store(tmp_path / "store", clock=now)
    read_contents(store)
    files = list(store.path.iterdir())
    assert rights(store.path) == 0o700
    assert {rights(file) for file in files} == {0o600}
    assert {file.name for file in files} == {"memory.duckdb", "memory.lock", "turnstile.lock"}


@pytest.mark.usefixtures("_open_umask")
def test_empty_directory_becomes_private(tmp_path: Path, now: datetime) -> None:
    directory = tmp_path / "store"
    directory.mkdir(mode=0o755)
    assert rights(create_store(directory, clock=now)[0].path) == 0o700


def test_store_is_absolute_whatever_the_working_directory(
    tmp_path: Path, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    create_store("store", clock=now)
    store = open_store("store")
    monkeypatch.chdir("/")
    assert store.path == tmp_path / "store"
    assert read_contents(store)


@pytest.mark.parametrize("present", [True, False], ids=["empty-directory", "no-directory"])
def test_missing_store_is_named_and_not_created(tmp_path: Path, present: bool) -> None:
    directory = tmp_path / "store"
    if present:
        directory.mkdir()
    with pytest.raises(StoreNotFoundError, match=str(directory)):
        open_store(directory)
    assert directory.exists() == present
    assert not present or list(directory.iterdir()) == []


def test_directory_with_foreign_files_is_refused_and_left_alone(
    tmp_path: Path, now: datetime
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    before = rights(tmp_path)
    with pytest.raises(AdmissionError, match="not empty"):
        create_store(tmp_path, clock=now)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
    assert rights(tmp_path) == before


def test_newer_schema_is_refused_and_left_alone(store: Store, now: datetime) -> None:
    with store.write() as writer:
        writer.execute(NEWER, {"now": now})
    before = read_contents(store)
    with pytest.raises(SchemaVersionError, match=r"9999.*upgrade"):
        open_store(store.path)
    with pytest.raises(SchemaVersionError, match=r"9999.*upgrade"):
        create_store(store.path, clock=now)
    assert read_contents(store) == before


def test_half_made_store_is_refused_until_it_is_created_again(
    tmp_path: Path, now: datetime
) -> None:
    with Store(tmp_path).write():
        pass
    with pytest.raises(SchemaVersionError, match="memtend init"):
        open_store(tmp_path)
    assert create_store(tmp_path, clock=now)[1]
    assert read_contents(open_store(tmp_path))


def test_errors_of_stores_are_one_family() -> None:
    assert issubclass(StoreNotFoundError, StorageError)
    assert issubclass(SchemaVersionError, StorageError)
    assert issubclass(AdmissionError, ValueError)
