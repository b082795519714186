"""The exports of a store as tables that can be queried together, for notebooks.

Nothing of the live store is opened, so a query waits for no writer and holds none up. All tables
are those of one health run, also while the next one replaces the files.
"""

import time
from pathlib import Path

import duckdb
import pyarrow as pa

from storage.engine import connect
from storage.errors import StorageError
from storage.exports import read_export

EXPORTS = (
    *("memories", "runs", "decisions", "pairs", "index_coverage", "forecast", "health", "status"),
)
_RUN = b"run_id"
_ATTEMPTS = 20
_PAUSE_S = 0.1


class ExportsNotFoundError(StorageError):
    """A store has no exports, or not all of them."""

    code = "exports_not_found"

    def __init__(self, path: Path, name: str) -> None:
        """Name the store and the export that it lacks."""
        reason = f"{path} has no export {name!r}; make it with: memtend run health"
        super().__init__(reason, store=str(path), export=name)


class ExportsMixedError(StorageError):
    """The exports are those of several runs: one is at work, or was killed."""

    code = "exports_mixed"
    retryable = True

    def __init__(self, path: Path) -> None:
        """Name the store."""
        reason = f"the exports of {path} are not of one run; make them with: memtend run health"
        super().__init__(reason, store=str(path))


def open_exports(store_path: Path) -> duckdb.DuckDBPyConnection:
    """Read all exports of a store into an engine of their own; each is a table there.

    Raises:
        ExportsNotFoundError: No health run has exported this store.
        ExportsMixedError: They stay those of several runs, although they were read again.
    """
    for _ in range(_ATTEMPTS):
        tables = {name: _read(store_path, name) for name in EXPORTS}
        if len({table.schema.metadata[_RUN] for table in tables.values()}) == 1:
            break
        time.sleep(_PAUSE_S)
    else:
        raise ExportsMixedError(store_path)
    connection = connect(":memory:")
    for name, table in tables.items():
        connection.register(name, table)
    return connection


def _read(store_path: Path, name: str) -> pa.Table:
    table = read_export(store_path, name)
    if table is None:
        raise ExportsNotFoundError(store_path, name)
    return table
