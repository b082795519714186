"""Create and open stores."""

from datetime import datetime
from pathlib import Path

from storage.errors import AdmissionError, StoreNotFoundError
from storage.fingerprints import key_missing
from storage.fresh import new_uuid
from storage.gateway import DATABASE_FILE, Store, StoreReader
from storage.lock import LOCK_FILE, TURNSTILE_FILE
from storage.migrate import Migration, apply_migrations, check_schema, read_migrations
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace
from storage.queries import read_statements
from storage.terms import index_missing

_SQL = read_statements("storage.sql", "stores")


def open_store(path: Path | str, *, lock_wait_s: float = 30.0) -> Store:
    """Open an existing store.

    Raises:
        StoreNotFoundError: The directory holds no store.
        SchemaVersionError: The store is newer than this code, or has to be migrated.
        StoreBusyError: The lock was not free within `lock_wait_s` seconds.
    """
    store = Store(Path(path).absolute(), lock_wait_s=lock_wait_s)
    if not (store.path / DATABASE_FILE).is_file():
        raise StoreNotFoundError(str(path))
    with store.read() as reader:
        check_schema(reader)
    return store


def create_store(
    path: Path | str, *, clock: datetime, lock_wait_s: float = 30.0
) -> tuple[Store, list[Migration]]:
    """Create a store, or migrate an existing one; give it and the migrations that were applied.

    The directory is made 0700 and its files 0600. Doing it again changes nothing.

    Raises:
        AdmissionError: The directory holds other files.
        SchemaVersionError: The store is newer than this code.
    """
    store = Store(Path(path).absolute(), lock_wait_s=lock_wait_s)
    _prepare_directory(store.path)
    with store.write() as writer:
        (store.path / DATABASE_FILE).chmod(0o600)
        applied = apply_migrations(writer, read_migrations(), clock=clock)
        if not writer.rows(_SQL["read_meta"], {"name": "store_id"}):
            for name in ("store_id", "store_uuid"):
                params = {"name": name, "value": new_uuid()}
                writer.execute(_SQL["insert_meta"], params)
            ensure_namespace(writer, DEFAULT_NAMESPACE)
        if applied:
            index_missing(writer)
            key_missing(writer)
    return store, applied


def _prepare_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise AdmissionError("store", f"no directory can be made there: {error.strerror}") from None
    own = {DATABASE_FILE, f"{DATABASE_FILE}.wal", LOCK_FILE, TURNSTILE_FILE}
    present = {entry.name for entry in path.iterdir()}
    if DATABASE_FILE not in present and present - own:
        raise AdmissionError("store", "the directory is not empty and holds no store")
    path.chmod(0o700)


def read_store_id(reader: StoreReader) -> str:
    """Read the id that the store was created with."""
    return str(reader.rows(_SQL["read_meta"], {"name": "store_id"})[0][0])
