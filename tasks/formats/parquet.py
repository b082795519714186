"""memtend's own format as Parquet: one memory a row, typed columns, instants in UTC microseconds.

Lists and maps (tags, metadata, evidence, relations, history, ledger) are JSON text, like the tags
in the tables of a store; the namespace is three columns. A row gives the same values as the line of
the same memory, so both forms are the same source to an import.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storage.encoding import format_f32
from storage.errors import AdmissionError
from storage.instants import format_instant, parse_instant
from storage.models import Namespace
from tasks.formats.entries import Entry, refuse

MAGIC = b"PAR1"
FORMAT_KEY = b"memtend.format"
_INSTANT = pa.timestamp("us", tz="UTC")
_TEXTS = ("id", *Namespace.model_fields, "revision_kind", "kind", "status", "content", "origin")
_NUMBERS = ("confidence", "importance", "salience")
_COUNTS = ("revision", "access_count")
_INSTANTS = (
    "created_at",
    "updated_at",
    "content_at",
    "expires_at",
    "restored_at",
    "tombstoned_at",
    "last_accessed_at",
)
_NESTED = ("tags", "metadata", "evidence", "relations", "history", "ledger")
_ROWS = 500

Values = dict[str, Any]


def parquet_schema(said: str) -> pa.Schema:
    """Give the columns; `said` names format and version in the file."""
    types = [
        *((name, pa.string()) for name in _TEXTS),
        *((name, pa.float32()) for name in _NUMBERS),
        *((name, pa.int64()) for name in _COUNTS),
        ("pinned", pa.bool_()),
        *((name, _INSTANT) for name in _INSTANTS),
        *((name, pa.string()) for name in _NESTED),
    ]
    return pa.schema(types, metadata={FORMAT_KEY: said.encode()})


def to_row(values: Values) -> Values:
    """Make the row of a record's values."""
    row = {**values, **values["namespace"]}
    del row["namespace"]
    for name in _INSTANTS:
        if name in row:
            row[name] = parse_instant(row[name])
    for name in _NESTED:
        if name in row:
            row[name] = json.dumps(row[name], ensure_ascii=False, separators=(",", ":"))
    return row


def is_parquet(path: Path) -> bool:
    """Tell whether a file begins as Parquet does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_parquet(path: Path, said: str) -> Iterator[tuple[Entry, int]]:
    """Yield the rows of a file as records, each with how many of the file's bytes that is about.

    Raises:
        AdmissionError: It is no Parquet file, or one of another format or version.
    """
    size = path.stat().st_size
    try:
        with pq.ParquetFile(path) as file:
            _check(file.schema_arrow, said)
            rows = 0
            for batch in file.iter_batches(batch_size=_ROWS):
                for row in batch.to_pylist():
                    rows += 1
                    yield _read_row(rows, row), size * rows // file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        name = type(error).__name__
        raise AdmissionError("file", f"cannot be read as Parquet ({name})") from None


def _check(schema: pa.Schema, said: str) -> None:
    found = (schema.metadata or {}).get(FORMAT_KEY, said.encode())
    if found != said.encode():
        raise AdmissionError("format", f"must be {said}")
    for field in schema:
        is_instant = field.name in _INSTANTS
        if is_instant and not (pa.types.is_timestamp(field.type) or _is_text(field.type)):
            raise AdmissionError(field.name, "must be a timestamp or text")
    if "id" not in schema.names:
        raise AdmissionError("id", "is required")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _read_row(number: int, row: Values) -> Entry:
    """Give the values of a row; what is NULL was not said."""
    values = {name: value for name, value in row.items() if value is not None}
    if "id" not in values:
        return refuse(number, "id", "is required")
    parts = {name: values.pop(name) for name in Namespace.model_fields if name in values}
    for name in values.keys() & set(_NESTED):
        if isinstance(values[name], str):
            try:
                values[name] = json.loads(values[name])
            except (ValueError, RecursionError):
                return refuse(number, name, "not JSON")
    for name in values.keys() & set(_INSTANTS):
        if not isinstance(values[name], str):
            values[name] = format_instant(values[name])
    for name in values.keys() & set(_NUMBERS):
        values[name] = _shorten(values[name])
    return Entry(number, {**values, "namespace": parts} if parts else values)


def _shorten(number: object) -> object:
    try:
        return float(format_f32(number)) if isinstance(number, float) else number
    except (ValueError, OverflowError):
        return number
