"""The only door to DuckDB: lock, connect, one short transaction, close, unlock.

Nobody keeps the file open: DuckDB lets one process own it, so every unit of work opens it anew
under the sidecar lock. Writes are serialised by the exclusive lock, which is what makes a plain
``UPDATE ... WHERE <expected>`` a compare-and-swap (DuckDB's own conflict detection has holes).
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from storage.errors import StorageError, StoreBusyError
from storage.lock import hold_lock

DATABASE_FILE = "memory.duckdb"
# One configuration for every connection of a process (PLATFORM D4, D8).
_CONFIG = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}

Params = Mapping[str, object]


class StoreReader:
    """An open read transaction; it has no method that writes."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Wrap a connection that the store opened and will close."""
        self._connection = connection

    def rows(self, statement: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Run a SELECT and return all its rows."""
        return self._connection.execute(statement, dict(params or {})).fetchall()

    def records(self, statement: str, params: Params | None = None) -> list[dict[str, Any]]:
        """Run a SELECT and return its rows as mappings from column name to value."""
        result = self._connection.execute(statement, dict(params or {}))
        names = [column[0] for column in result.description or []]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    def table(
        self, statement: str, params: Params | None = None, *, incoming: pa.Table | None = None
    ) -> pa.Table:
        """Run a SELECT and return its result as an Arrow table.

        The statement may read the Arrow table `incoming` under that name.
        """
        with self._registered(incoming):
            return self._connection.sql(statement, params=dict(params or {})).to_arrow_table()

    def define(self, macros: str) -> None:
        """Define temporary macros for this connection; nothing is stored."""
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


class StoreWriter(StoreReader):
    """An open write transaction under the exclusive lock."""

    def execute(self, statement: str, params: Params | None = None) -> int:
        """Run one INSERT, UPDATE or DELETE and return the number of rows that it changed."""
        row = self._connection.execute(statement, dict(params or {})).fetchone()
        return int(row[0]) if row else 0

    def run_script(self, script: str) -> None:
        """Run statements without parameters, such as a migration."""
        self._connection.execute(script)

    def insert(self, statement: str, incoming: pa.Table, params: Params | None = None) -> int:
        """Run one statement that reads the Arrow table `incoming` under that name."""
        with self._registered(incoming):
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
        with self._connected(exclusive=False) as connection, _translated():
            yield StoreReader(connection)

    @contextmanager
    def write(self) -> Iterator[StoreWriter]:
        """Open the store exclusively, for one transaction; any error rolls all of it back.

        Raises:
            StoreBusyError: Others held the lock for longer than `lock_wait_s`.
            StorageError: DuckDB refused a statement or the commit.
        """
        with self._connected(exclusive=True) as connection, _translated():
            connection.begin()
            try:
                yield StoreWriter(connection)
                # A commit on an aborted transaction is silent (PLATFORM D21), so every error
                # has to leave the block above; then we never get here.
                connection.commit()
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
    def _connected(self, *, exclusive: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        if getattr(self._local, "busy", False):
            message = "read(), write() and session() cannot be nested: pass the open handle down"
            raise RuntimeError(message)
        self._local.busy = True
        try:
            burst: duckdb.DuckDBPyConnection | None = getattr(self._local, "burst", None)
            if burst is not None:
                yield burst
                return
            with hold_lock(self.path, exclusive=exclusive, wait_s=self.lock_wait_s):
                connection = _connect(self.path / DATABASE_FILE, read_only=not exclusive)
                try:
                    yield connection
                finally:
                    connection.close()
        finally:
            self._local.busy = False


def _connect(file: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(str(file), read_only=read_only, config=dict(_CONFIG))
    except duckdb.IOException as error:
        if "Could not set lock" in str(error):
            raise StoreBusyError(waited_s=0.0) from None
        message = f"the database of the store cannot be opened ({type(error).__name__})"
        raise StorageError(message) from error
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.rollback()
    except duckdb.Error:
        # The transaction is gone already; the first error is the one that counts.
        return


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        # DuckDB quotes values in its messages: only the class leaves the gateway.
        message = f"DuckDB refused a statement ({type(error).__name__})"
        raise StorageError(message, cause=type(error).__name__) from error
