"""A transaction is all or nothing, its handle says what it may do, and errors hold no values."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from helpers.children import start_child

from storage import Store, StoreReader, StoreWriter
from storage.errors import StorageError, StoreBusyError

CANARY = "canary-4711"
INSERT = "INSERT INTO store_meta (name, value) VALUES ($name, $value)"
INSERT_INCOMING = "INSERT INTO store_meta SELECT name, value FROM incoming"
COUNT = "SELECT count(*) FROM store_meta"
SWAP = "UPDATE store_meta SET value = $new WHERE name = 'row' AND value = $expected"
READ_ROW = "SELECT value FROM store_meta WHERE name = 'row'"
MIDNIGHT_US = 1_790_726_400_000_000  # 2026-09-30T00:00Z


def insert_row(store: Store, name: str = "row", value: str = "0") -> None:
    with store.write() as writer:
        writer.execute(INSERT, {"name": name, "value": value})


def count_rows(store: Store) -> int:
    with store.read() as reader:
        return int(reader.rows(COUNT)[0][0])


def test_write_commits_all_of_its_statements(store: Store) -> None:
    before = count_rows(store)
    with store.write() as writer:
        assert writer.execute(INSERT, {"name": "a", "value": "1"}) == 1
        assert writer.execute(INSERT, {"name": "b", "value": "2"}) == 1
    assert count_rows(store) == before + 2


def test_update_counts_one_row_when_the_expectation_holds_and_none_otherwise(store: Store) -> None:
    insert_row(store)
    with store.write() as writer:
        assert writer.execute(SWAP, {"new": "1", "expected": "0"}) == 1
        assert writer.execute(SWAP, {"new": "2", "expected": "0"}) == 0
    with store.read() as reader:
        assert reader.records(READ_ROW) == [{"value": "1"}]


def test_arrow_rows_go_in_and_come_out(store: Store) -> None:
    incoming = pa.table({"name": ["b", "a"], "value": ["2", "é"]})
    with store.write() as writer:
        assert writer.insert(INSERT_INCOMING, incoming) == 2
    with store.read() as reader:
        names = "SELECT name, value FROM store_meta WHERE name IN ('a', 'b') ORDER BY name"
        assert reader.table(names).to_pydict() == {"name": ["a", "b"], "value": ["é", "2"]}


def insert_then(store: Store, fail: Callable[[StoreWriter], object]) -> None:
    with store.write() as writer:
        writer.execute(INSERT, {"name": "a", "value": "1"})
        fail(writer)


def divide_by_zero(_: StoreWriter) -> float:
    return 1 / 0


def interrupt(_: StoreWriter) -> None:
    raise KeyboardInterrupt


def insert_again(writer: StoreWriter) -> int:
    return writer.execute(INSERT, {"name": "a", "value": "2"})


def insert_again_from_arrow(writer: StoreWriter) -> int:
    rows = pa.table({"name": ["b", "a"], "value": ["1", "2"]})
    return writer.insert(INSERT_INCOMING, rows)


def read_nowhere(writer: StoreWriter) -> pa.Table:
    return writer.table("SELECT * FROM nowhere")


@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (divide_by_zero, ZeroDivisionError),
        (interrupt, KeyboardInterrupt),
        (insert_again, StorageError),
        (insert_again_from_arrow, StorageError),
        (read_nowhere, StorageError),
    ],
)
def test_error_in_a_write_rolls_all_of_it_back_and_reaches_the_caller(
    store: Store, fail: Callable[[StoreWriter], object], error: type[BaseException]
) -> None:
    before = count_rows(store)
    with pytest.raises(error):
        insert_then(store, fail)
    assert count_rows(store) == before
    insert_row(store, "a", "3")


def test_failed_statement_keeps_its_own_error(store: Store) -> None:
    with pytest.raises(StorageError, match="ConstraintException"):
        insert_then(store, insert_again_from_arrow)
    with pytest.raises(StorageError, match="CatalogException"):
        insert_then(store, read_nowhere)


@pytest.mark.parametrize("inner", ["read", "write", "session"])
@pytest.mark.parametrize("outer", ["read", "write"])
def test_nested_doors_are_refused_at_once(store: Store, outer: str, inner: str) -> None:
    refused = pytest.raises(RuntimeError, match="nested")
    with getattr(store, outer)(), refused, getattr(store, inner)():
        pytest.fail("it would wait for itself")
    insert_row(store)


def test_session_in_a_session_is_refused_at_once(store: Store) -> None:
    refused = pytest.raises(RuntimeError, match="session already")
    with store.session(), refused, store.session():
        pytest.fail("it would wait for itself")
    insert_row(store)


def test_nested_doors_are_refused_in_a_session_too(store: Store) -> None:
    refused = pytest.raises(RuntimeError, match="nested")
    with store.session(), store.write(), refused, store.read():
        pytest.fail("a read inside an open write")
    insert_row(store)


def test_session_keeps_one_connection(store: Store) -> None:
    with store.session():
        with store.write() as writer:
            writer.run_script("CREATE TEMP TABLE of_this_connection (a INTEGER)")
        with store.read() as reader:
            assert reader.rows("SELECT * FROM of_this_connection") == []
    with pytest.raises(StorageError), store.read() as reader:
        reader.rows("SELECT * FROM of_this_connection")


def test_failed_write_in_a_session_takes_back_only_itself(store: Store) -> None:
    before = count_rows(store)
    with store.session():
        insert_row(store, "a")
        with pytest.raises(StorageError):
            insert_row(store, "a")
        insert_row(store, "b")
    assert count_rows(store) == before + 2


def test_session_that_ends_in_an_error_keeps_what_was_committed(store: Store) -> None:
    before = count_rows(store)

    def insert_and_divide() -> None:
        with store.session():
            insert_row(store)
            insert_then(store, divide_by_zero)

    with pytest.raises(ZeroDivisionError):
        insert_and_divide()
    assert count_rows(store) == before + 1


def test_session_keeps_other_threads_waiting(store: Store) -> None:
    impatient = Store(store.path, lock_wait_s=0.1)
    with ThreadPoolExecutor(1) as pool, impatient.session():
        assert isinstance(pool.submit(count_rows, impatient).exception(), StoreBusyError)
        assert count_rows(impatient) > 0
    assert count_rows(impatient) > 0


def test_threads_that_read_and_write_in_turns_lose_nothing(store: Store) -> None:
    insert_row(store)

    def increment(_: int) -> int:
        with store.read() as reader:
            seen = int(reader.rows(READ_ROW)[0][0])
        with store.write() as writer:
            return writer.execute(SWAP, {"new": str(seen + 1), "expected": str(seen)})

    with ThreadPoolExecutor(4) as pool:
        won = sum(pool.map(increment, range(16)))
    with store.read() as reader:
        assert reader.rows(READ_ROW) == [(str(won),)]
    assert won >= 4


def test_time_zone_is_utc_whatever_the_machine_says(store: Store) -> None:
    with start_child("show_time_zone", store.path, TZ="America/New_York") as child:
        assert child.hear_all() == [f"UTC {MIDNIGHT_US}"] * 4


def insert_twice(writer: StoreWriter) -> None:
    for _ in range(2):
        writer.execute(INSERT, {"name": CANARY, "value": CANARY})


def insert_text_for_a_number(writer: StoreWriter) -> None:
    statement = "INSERT INTO schema_migrations SELECT $text::INTEGER, 'a', 'b', now()"
    writer.execute(statement, {"text": CANARY})


def insert_past_a_check(writer: StoreWriter) -> None:
    statement = "INSERT INTO leases SELECT $text, 1, $text, NULL, NULL, NULL, NULL, NULL"
    writer.execute(statement, {"text": CANARY})


def insert_literal(writer: StoreWriter) -> None:
    writer.execute(f"INSERT INTO nowhere VALUES ('{CANARY}')")  # noqa: S608 - a canary


def insert_lone_surrogate(writer: StoreWriter) -> None:
    writer.execute(INSERT, {"name": f"{CANARY}\ud800", "value": ""})


@pytest.mark.parametrize(
    "fail",
    [
        insert_twice,
        insert_text_for_a_number,
        insert_past_a_check,
        insert_literal,
        insert_lone_surrogate,
    ],
)
def test_error_text_names_the_class_and_no_value(
    store: Store, fail: Callable[[StoreWriter], None]
) -> None:
    with pytest.raises(StorageError, match=r"\(\w+(Exception|Error)\)") as caught:
        insert_then(store, fail)
    assert CANARY not in f"{caught.value} {caught.value!r} {caught.value.facts}"


def test_reader_has_no_method_that_writes(store: Store) -> None:
    writing = {"execute", "insert", "run_script"}
    with store.read() as reader:
        assert isinstance(reader, StoreReader)
        assert not writing & set(dir(reader))
    with store.write() as writer:
        assert writing <= set(dir(writer))


@pytest.mark.parametrize("method", ["rows", "records"])
@pytest.mark.parametrize(
    "statement", ["INSERT INTO store_meta VALUES ('a', 'b')", "DELETE FROM store_meta"]
)
def test_write_statement_through_a_reader_fails(store: Store, method: str, statement: str) -> None:
    before = count_rows(store)
    with pytest.raises(StorageError), store.read() as reader:
        getattr(reader, method)(statement)
    assert count_rows(store) == before


def test_database_file_that_is_none_is_a_storage_error(store: Store) -> None:
    (store.path / "memory.duckdb").write_bytes(b"no database at all" * 1000)
    with pytest.raises(StorageError, match="cannot be opened"), store.read():
        pytest.fail("that is no database")
