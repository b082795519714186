"""Where the vector index and its bookkeeping have drifted apart; vectors are compared elsewhere."""

from datetime import datetime
from typing import NamedTuple

from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "index_drift")


class ServedPointer(NamedTuple):
    """What a partition says that it serves; without a table its publication has no row."""

    partition: str
    publication_id: str
    vector_table: str | None
    record_count: int


def list_pointers(reader: StoreReader) -> list[ServedPointer]:
    """List the partitions that serve a publication."""
    return [ServedPointer(*row) for row in reader.rows(_SQL["list_pointers"])]


def list_orphan_stagings(reader: StoreReader, *, clock: datetime) -> list[str]:
    """List the publications that a run was making whose lease is no longer the one it had."""
    return [name for (name,) in reader.rows(_SQL["list_orphan_stagings"], {"clock": clock})]


def give_up_staging(writer: StoreWriter, publication_id: str, *, clock: datetime) -> bool:
    """Give such a publication up, so that its vectors are collected; False: it is none."""
    params = {"publication_id": publication_id, "clock": clock}
    return writer.execute(_SQL["give_up_staging"], params) == 1


def count_uncovered(reader: StoreReader) -> int:
    """Count the active memories that namespaces with an index lack in it, or hold outdated."""
    return int(reader.rows(_SQL["count_uncovered"])[0][0])
