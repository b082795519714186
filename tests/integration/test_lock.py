"""Processes that share a store wait for one another, for a bounded time, and lose nothing."""

import time
from contextlib import ExitStack
from threading import Event, Thread, Timer

import pytest
from helpers.children import Child, start_child

from storage import Store
from storage.errors import StoreBusyError

INCREMENTS = 100
HOLD_S = 0.5
WRITE_S = 0.1
COUNTER = "INSERT INTO store_meta (name, value) VALUES ('counter', '0')"
READ_COUNTER = "SELECT value::INTEGER FROM store_meta WHERE name = 'counter'"
TOUCH = "UPDATE store_meta SET value = 'touched' WHERE name = 'store_uuid'"


def impatient(store: Store, *, wait_s: float = 0.3) -> Store:
    """Open the same directory with a short wait."""
    return Store(store.path, lock_wait_s=wait_s)


def release_later(child: Child) -> None:
    Timer(HOLD_S, child.signal).start()


def test_two_processes_lose_no_increment(store: Store) -> None:
    with store.write() as writer:
        writer.execute(COUNTER)
    with ExitStack() as stack:
        run = ("increment_row", store.path, INCREMENTS)
        children = [stack.enter_context(start_child(*run)) for _ in range(2)]
        assert [child.hear() for child in children] == ["ready", "ready"]
        for child in children:
            child.signal()
        stale = [int(child.hear()) for child in children]
    with store.read() as reader:
        assert reader.rows(READ_COUNTER) == [(2 * INCREMENTS,)]
    assert sum(stale) > 0, "they never met"


def test_overlapping_readers_never_starve_a_writer(store: Store) -> None:
    patient = impatient(store, wait_s=15)
    with ExitStack() as stack:
        run = ("read_in_turns", store.path)
        readers = [stack.enter_context(start_child(*run)) for _ in range(4)]
        assert {reader.hear() for reader in readers} == {"reading"}
        for _ in range(3):
            with patient.write() as writer:
                assert writer.execute(TOUCH) == 1
        assert [reader.process.poll() for reader in readers] == [None] * 4


def test_writer_without_a_pause_never_starves_a_reader(store: Store) -> None:
    is_over = Event()

    def write_on() -> None:
        while not is_over.is_set():
            with impatient(store, wait_s=15).write() as writer:
                writer.execute(TOUCH)
                time.sleep(WRITE_S)

    writing = Thread(target=write_on)
    writing.start()
    try:
        for _ in range(20):
            with impatient(store, wait_s=20 * WRITE_S).read():
                assert writing.is_alive()
    finally:
        is_over.set()
        writing.join()


def test_reader_blocks_a_writer_no_longer_than_its_read_lasts(store: Store) -> None:
    with start_child("hold_store", store.path, "read") as reader:
        assert reader.hear() == "held"
        release_later(reader)
        with store.write() as writer:
            entered = time.monotonic()
            assert writer.execute(TOUCH) == 1
        released = float(reader.hear())
    assert 0 < entered - released < 2


def test_readers_of_two_processes_do_not_wait_for_one_another(store: Store) -> None:
    with start_child("hold_store", store.path, "read") as other:
        assert other.hear() == "held"
        with impatient(store).read() as reader:
            assert reader.rows("SELECT 1") == [(1,)]
        assert other.process.poll() is None


@pytest.mark.parametrize(
    ("held", "wanted"), [("read", ["write"]), ("write", ["read", "write", "session"])]
)
def test_waiting_too_long_ends_with_the_time_waited(
    store: Store, held: str, wanted: list[str]
) -> None:
    with start_child("hold_store", store.path, held) as other:
        assert other.hear() == "held"
        for door in wanted:
            assert_busy(impatient(store), door)


def assert_busy(store: Store, door: str) -> None:
    """Check that the door stays shut for the wait of the store, and that the error says so."""
    started = time.monotonic()
    shut = pytest.raises(StoreBusyError, match=r"gave up after \d+\.\d s")
    with shut as caught, getattr(store, door)():
        pytest.fail("the lock is not free")
    elapsed, waited = time.monotonic() - started, caught.value.facts["waited_s"]
    assert isinstance(waited, float)
    assert store.lock_wait_s <= waited <= elapsed + 0.05
    assert elapsed < store.lock_wait_s + 5
    assert caught.value.retryable


def test_reader_queues_behind_a_writer_that_waits(store: Store) -> None:
    with start_child("hold_store", store.path, "read") as reader:
        assert reader.hear() == "held"
        with start_child("hold_store", store.path, "write") as writer:
            while is_free(store):
                time.sleep(0.02)
            reader.signal()
            assert writer.hear() == "held"


def is_free(store: Store) -> bool:
    """Tell whether a reader gets in at once: it does until a writer waits."""
    try:
        with impatient(store, wait_s=0.01).read():
            return True
    except StoreBusyError:
        return False


def test_busy_writer_succeeds_when_the_lock_comes_free_in_time(store: Store) -> None:
    with start_child("hold_store", store.path, "write") as other:
        assert other.hear() == "held"
        release_later(other)
        with store.write() as writer:
            assert writer.execute(TOUCH) == 1


def test_killed_holder_leaves_no_lock_behind(store: Store) -> None:
    with start_child("hold_store", store.path, "write") as other:
        assert other.hear() == "held"
        other.process.kill()
        other.process.wait()
        with impatient(store).write() as writer:
            assert writer.execute(TOUCH) == 1


def test_session_keeps_other_processes_waiting(store: Store) -> None:
    with start_child("hold_store", store.path, "session") as other:
        assert other.hear() == "held"
        with pytest.raises(StoreBusyError), impatient(store).read():
            pytest.fail("the session has the store")
        other.signal()
        with store.read() as reader:
            assert reader.rows("SELECT 1") == [(1,)]


def test_process_that_opened_the_file_past_the_lock_makes_the_store_busy(store: Store) -> None:
    with start_child("hold_file", store.path) as notebook:
        assert notebook.hear() == "held"
        with store.read() as reader:
            assert reader.rows("SELECT 1") == [(1,)]
        hasty = Store(store.path, lock_wait_s=0.3)
        with pytest.raises(StoreBusyError, match=r"after 0\.\d s"), hasty.write():
            pytest.fail("DuckDB does not share the file with a writer")
