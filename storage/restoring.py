"""What can be given back: tombstones by id, by the run that made them, or by when."""

from collections.abc import Collection
from datetime import datetime

from storage.gateway import StoreReader
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "restoring")


def find_tombstones(
    reader: StoreReader,
    namespace_id: int,
    *,
    ids: Collection[str] = (),
    run_id: str | None = None,
    since: datetime | None = None,
) -> list[str]:
    """Find tombstones by id: those named, those that a run made, or made since (wall time)."""
    params: dict[str, object] = {"namespace_id": namespace_id, "ids": list(ids)}
    params |= {"run_id": run_id, "since": since}
    return [name for (name,) in reader.rows(_SQL["find_tombstones"], params)]


def sha256_contents(reader: StoreReader, namespace_id: int, ids: Collection[str]) -> dict[str, str]:
    """Digest the contents of memories, by id."""
    params = {"namespace_id": namespace_id, "ids": list(ids)}
    return dict(reader.rows(_SQL["sha256_contents"], params))


def has_run(reader: StoreReader, run_id: str) -> bool:
    """Tell whether there was such a run, or such a merge by hand."""
    return bool(reader.rows(_SQL["has_run"], {"run_id": run_id})[0][0])
