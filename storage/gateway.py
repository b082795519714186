"""The only door to DuckDB: lock, connect, one short transaction, close, unlock.

Nobody keeps the file open: DuckDB lets one process own it, so every unit of work opens it anew
under the sidecar lock. Writes are serialised by the exclusive lock, which is what makes a plain
``UPDATE ... WHERE <expected>`` a compare-and-swap (DuckDB's own conflict detection has holes).
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from storage import engine
from storage.errors import StorageError, StoreBusyError, StoreNotFoundError
from storage.lock import hold_lock
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "gateway")

DATABASE_FILE = "memory.duckdb"
_POLL_S = 0.05
Opened = TypeVar("Opened")

Params = Mapping[str, object]


class StoreReader:
    """An open read transaction; it has no method that writes, and DuckDB refuses to."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Wrap a connection that the store opened and will close."""
        self._connection = connection
        self.first_error: StorageError | None = None

    def rows(self, statement: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Run a SELECT and return all its rows."""
        with self._translated():
            return self._connection.execute(statement, dict(params or {})).fetchall()

    def records(self, statement: str, params: Params | None = None) -> list[dict[str, Any]]:
        """Run a SELECT and return its rows as mappings from column name to value."""
        with self._translated():
            result = self._connection.execute(statement, dict(params or {}))
            names = [column[0] for column in result.description or []]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def table(
        self, statement: str, params: Params | None = None, *, incoming: pa.Table | None = None
    ) -> pa.Table:
        """Run a SELECT and return its result as an Arrow table.

        The statement may read the Arrow table `incoming` under that name.
        """
        with self._translated(), self._registered(incoming):
            return self._connection.sql(statement, params=dict(params or {})).to_arrow_table()

    def define(self, macros: str) -> None:
        """Define temporary macros for this connection; nothing is stored."""
        with self._translated():
            self._connection.execute(macros)

    @contextmanager
    def _registered(self, incoming: pa.Table | None) -> Iterator[None]:
        if incoming is None:
            yield
            return
        self._connection.register("incoming", incoming)
        yield
        # Not in a `finally`: it fails, too, once a statement has aborted the transaction, and would
        # hide that first error; the rollback then takes the table away.
        self._connection.unregister("incoming")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn DuckDB's errors into ours: they quote values, so only their class leaves."""
        try:
            yield
        except duckdb.Error as error:
            translated = _translate(error)
            self.first_error = self.first_error or translated
            raise translated from None


class StoreWriter(StoreReader):
    """An open write transaction under the exclusive lock."""

    def execute(self, statement: str, params: Params | None = None) -> int:
        """Run one INSERT, UPDATE or DELETE and return the number of rows that it changed."""
        with self._translated():
            row = self._connection.execute(statement, dict(params or {})).fetchone()
            return int(row[0]) if row else 0

    def run_script(self, script: str) -> None:
        """Run statements without parameters, such as a migration."""
        with self._translated():
            self._connection.execute(script)

    def insert(self, statement: str, incoming: pa.Table, params: Params | None = None) -> int:
        """Run one statement that reads the Arrow table `incoming` under that name."""
        with self._translated(), self._registered(incoming):
            return self.execute(statement, params)


class Store:
    """One store directory; `read` and `write` open it for one transaction each."""

    def __init__(self, path: Path, *, lock_wait_s: float = 30.0) -> None:
        """Remember where the store is; nothing is opened."""
        self.path = path
        self.lock_wait_s = lock_wait_s
        self._local = threading.local()

    @contextmanager
    def read(self) -> Iterator[StoreReader]:
        """Open the store shared, for one consistent read.

        Raises:
            StoreBusyError: A writer held the lock for longer than `lock_wait_s`.
        """
        with self._connected(exclusive=False) as connection:
            connection.execute(_SQL["begin_reading"])
            try:
                yield StoreReader(connection)
            finally:
                _roll_back(connection)

    @contextmanager
    def write(self) -> Iterator[StoreWriter]:
        """Open the store exclusively, for one transaction; any error rolls all of it back.

        Raises:
            StoreBusyError: Others held the lock for longer than `lock_wait_s`.
            StorageError: DuckDB refused a statement or the commit; also one whose error the
                caller swallowed, since a commit on an aborted transaction is silent (D21).
        """
        with self._connected(exclusive=True) as connection:
            connection.begin()
            writer = StoreWriter(connection)
            try:
                yield writer
                _commit(connection, writer.first_error)
            except BaseException:
                _roll_back(connection)
                raise

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the exclusive lock and the connection for a burst of transactions of this thread."""
        if hasattr(self._local, "burst"):
            message = "this thread has a session already"
            raise RuntimeError(message)
        with self._connected(exclusive=True) as connection:
            self._local.burst = connection
            self._local.busy = False
            try:
                yield
            finally:
                del self._local.burst

    @contextmanager
    def closed(self) -> Iterator[Callable[[str], AbstractContextManager[StoreWriter]]]:
        """Keep everybody out while no file is open, so that another file can take its place.

        Gives what opens a file, or ":memory:", outside of any transaction until its block ends.

        Raises:
            StoreBusyError: Others held the lock for longer than `lock_wait_s`.
            RuntimeError: This thread has a session, which keeps the file open.
        """
        if hasattr(self._local, "burst"):
            message = "closed() in a session: the session keeps the file open"
            raise RuntimeError(message)
        with self._locked(exclusive=True) as started:

            @contextmanager
            def open_file(file: str) -> Iterator[StoreWriter]:
                connection = self._wait(lambda: engine.connect(file), started)
                try:
                    yield StoreWriter(connection)
                finally:
                    connection.close()

            yield open_file

    @contextmanager
    def _connected(self, *, exclusive: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        burst: duckdb.DuckDBPyConnection | None = getattr(self._local, "burst", None)
        if burst is not None:
            with self._at_work():
                yield burst
            return
        file = str(self.path / DATABASE_FILE)
        with self._locked(exclusive=exclusive) as started:
            attached = self._wait(lambda: engine.attach(file, read_only=not exclusive), started)
            try:
                yield attached.connection
            finally:
                engine.detach(attached)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if getattr(self._local, "busy", False):
            message = "read(), write() and session() cannot be nested: pass the open handle down"
            raise RuntimeError(message)
        self._local.busy = True
        try:
            yield
        finally:
            self._local.busy = False

    @contextmanager
    def _locked(self, *, exclusive: bool) -> Iterator[float]:
        with self._at_work():
            if not self.path.is_dir():
                raise StoreNotFoundError(str(self.path))
            started = time.monotonic()
            with hold_lock(self.path, exclusive=exclusive, wait_s=self.lock_wait_s):
                yield started

    def _wait(self, open_file: Callable[[], Opened], started: float) -> Opened:
        """Open a file; a process that opened it without our lock is waited for, too."""
        while True:
            try:
                return open_file()
            except duckdb.Error as error:
                waited_s = time.monotonic() - started
                if "Could not set lock" not in str(error):
                    message = f"the store's database cannot be opened ({type(error).__name__})"
                    raise StorageError(message, cause=type(error).__name__) from None
                if waited_s >= self.lock_wait_s:
                    raise StoreBusyError(waited_s=waited_s) from None
                time.sleep(_POLL_S)


def _commit(connection: duckdb.DuckDBPyConnection, first_error: StorageError | None) -> None:
    if first_error is not None:
        raise first_error
    try:
        connection.commit()
    except duckdb.Error as error:
        raise _translate(error) from None


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.rollback()
    except duckdb.Error:
        # The transaction is gone already; the first error is the one that counts.
        return


def _translate(error: duckdb.Error) -> StorageError:
    name = type(error).__name__
    return StorageError(f"DuckDB refused a statement ({name})", cause=name)
