"""A compaction that is killed leaves a store that opens, holds all rows and keeps its history."""

import time
from pathlib import Path
from random import Random

import pytest
from helpers.children import start_child
from helpers.runs import Rows, dump_tables

from storage import Store, open_store
from storage.compaction import find_leftovers, remove_leftovers
from storage.gateway import DATABASE_FILE
from storage.history import read_history_of_store, settle_history
from storage.instants import EPOCH

pytestmark = pytest.mark.slow

STEPS = ["closed", "attached", "copied", "detached", "synced", "replaced"]
# What is left beside a whole store: nothing before the copy begins and after the swap.
LEFT = {"attached": 1, "copied": 2, "detached": 1, "synced": 1}
FILL = """
INSERT INTO memory_terms
SELECT 1, i * 7919 % 1000003, nextval('text_numbers') FROM range(300000) AS r(i)
"""
KILLS = 8
LONGEST_S = 0.5


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as writer:
        writer.execute(FILL)
        writer.execute("DELETE FROM memory_terms WHERE text_number % 3 > 0")
        settle_history(writer, store.path, clock=EPOCH)
    return store


def dump_all(store: Store) -> Rows:
    """Read every row; the inode is that of the file, the lease is the child's."""
    tables = dump_tables(store)
    tables["store_meta"] = [row for row in tables["store_meta"] if row[0] != "database_inode"]
    del tables["leases"]
    return tables


def assert_whole(store: Store, before: Rows) -> None:
    opened = open_store(store.path)
    assert dump_all(opened) == before
    with opened.read() as reader:
        assert read_history_of_store(reader, store.path).is_current
        ((number,),) = reader.rows("SELECT last_value FROM duckdb_sequences()")
    assert number == 300_000


@pytest.mark.parametrize("step", STEPS)
def test_store_is_whole_after_a_kill(filled: Store, step: str) -> None:
    before, inode = dump_all(filled), (filled.path / DATABASE_FILE).stat().st_ino
    with start_child("compact_store", filled.path, step) as child:
        child.signal()
        assert child.hear_all() == ["ready", *STEPS[: STEPS.index(step) + 1]]
    assert len(find_leftovers(filled.path)) == LEFT.get(step, 0)
    is_swapped = (filled.path / DATABASE_FILE).stat().st_ino != inode
    assert is_swapped == (step == "replaced")
    assert_whole(filled, before)
    assert remove_leftovers(filled) == LEFT.get(step, 0)
    assert find_leftovers(filled.path) == []


@pytest.mark.parametrize("step", ["copied", "synced"])
def test_next_compaction_begins_anew(filled: Store, step: str) -> None:
    before = dump_all(filled)
    for kill_at in (step, ""):
        with start_child("compact_store", filled.path, kill_at) as child:
            with filled.write() as writer:
                writer.execute("UPDATE leases SET holder = NULL")
            child.signal()
            said = child.hear_all()
    assert said == ["ready", *STEPS]
    assert find_leftovers(filled.path) == []
    assert_whole(filled, before)


def test_kills_at_any_moment(filled: Store) -> None:
    before, moments = dump_all(filled), Random(4711)  # noqa: S311 - a seed
    for _ in range(KILLS):
        with filled.write() as writer:
            writer.execute("UPDATE leases SET holder = NULL")
        with start_child("compact_store", filled.path, "") as child:
            assert child.hear() == "ready"
            child.signal()
            time.sleep(moments.uniform(0, LONGEST_S))
            child.process.kill()
            child.hear_all()
        assert_whole(filled, before)
    remove_leftovers(filled)
    assert sorted(entry.name for entry in Path(filled.path).iterdir()) == [
        DATABASE_FILE,
        "memory.lock",
        "turnstile.lock",
    ]
