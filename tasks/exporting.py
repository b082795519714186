"""Export memories into a file that the native import reads back: JSON Lines, or Parquet.

Everything about a memory goes out: all statuses, earlier revisions, evidence, edges, accesses,
merges. The store is locked only while its database file is copied; the export reads the copy, so it
is of one moment and keeps nobody waiting. The file appears whole or not at all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from storage import Store, StoreReader
from storage.admission import Reject
from storage.errors import AdmissionError
from storage.exporting import count_memories, has_odd_salience, read_values
from storage.exporting_copy import copy_database, publish, refuse_inside, stage_beside
from storage.models import MAX_EVIDENCE, Namespace, format_namespace
from storage.namespaces import StoredNamespace, find_namespace, list_namespaces
from tasks.formats.native import HEADER, MAX_LINE_BYTES, SAID
from tasks.formats.parquet import parquet_schema, to_row
from tasks.formats.parts import encode_values, split_record

FileForm = Literal["jsonl", "parquet"]
OnProgress = Callable[[int, int], None]
Write = Callable[[dict[str, Any]], None]
_GROUP_ROWS = 5_000
_GROUP_BYTES = 32 * 1024 * 1024
_STEP = 500
_OWNER_ONLY = 0o600


@dataclass(slots=True)
class ExportReport:
    """What went into a file.

    `warnings` name memories (by namespace and id) that are not exactly as they were.
    """

    path: Path
    form: FileForm
    namespaces: int = 0
    memories: int = 0
    byte_count: int = 0
    warnings: list[Reject] = field(default_factory=list)


def export_file(
    store: Store,
    path: Path,
    *,
    namespace: Namespace | None = None,
    is_forced: bool = False,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Export a store, or one namespace of it.

    Args:
        store: The store; no lock may be held.
        path: The file; one that ends in ``.parquet`` becomes Parquet, any other JSON Lines.
        namespace: The only one to export; None: all.
        is_forced: An existing file is replaced.
        on_progress: Told how many of how many memories are written.

    Raises:
        AdmissionError: The file exists, lies inside of the store, or the namespace is unknown.
        StorageError: The file could not be written.
        StoreBusyError: The store's lock was not free in time, or another export writes this file.
    """
    path = path.absolute()
    form: FileForm = "parquet" if path.suffix.lower() == ".parquet" else "jsonl"
    refuse_inside(store, path)
    _refuse_existing(path, is_forced=is_forced)
    report = ExportReport(path, form)
    with stage_beside(path) as folder:
        with copy_database(store, folder).read() as reader:
            owners = _choose(reader, namespace)
            file = folder / f"export.{form}"
            file.touch(_OWNER_ONLY)
            with _open_writer(form, file) as write:
                _export(reader, owners, write, report, on_progress)
        report.byte_count = file.stat().st_size
        _refuse_existing(path, is_forced=is_forced)
        publish(file, path)
    return report


def _refuse_existing(path: Path, *, is_forced: bool) -> None:
    if path.exists() and not path.is_file():
        raise AdmissionError("file", "is there already, and is no file")
    if not is_forced and (path.exists() or path.is_symlink()):
        raise AdmissionError("file", "exists; --force replaces it")


def _choose(reader: StoreReader, namespace: Namespace | None) -> list[StoredNamespace]:
    if namespace is None:
        return sorted(
            list_namespaces(reader), key=lambda one: [*one.namespace.model_dump().values()]
        )
    owner = find_namespace(reader, namespace)
    if owner is None:
        raise AdmissionError("--namespace", "the store has no such namespace")
    return [owner]


def _export(
    reader: StoreReader,
    owners: list[StoredNamespace],
    write: Write,
    report: ExportReport,
    on_progress: OnProgress | None,
) -> None:
    counts = {one.namespace_id: count_memories(reader, one.namespace_id) for one in owners}
    total = sum(counts.values())
    report.namespaces = sum(1 for count in counts.values() if count)
    for owner in owners:
        for values in read_values(reader, owner):
            write(_mend(values, owner, report))
            report.memories += 1
            if on_progress and (report.memories % _STEP == 0 or report.memories == total):
                on_progress(report.memories, total)


def _mend(values: dict[str, Any], owner: StoredNamespace, report: ExportReport) -> dict[str, Any]:
    """Leave a salience out that no import takes, and tell what else an import would refuse."""
    states = [values, *values["history"]]
    ref = f"{format_namespace(owner.namespace)} {values['id']}"
    odd = [state for state in states if has_odd_salience(state)]
    for state in odd:
        del state["salience"]
    if odd:
        report.warnings.append(Reject(ref, "salience", "outside of 0.25..2; left out"))
    if any(len(state["evidence"]) > MAX_EVIDENCE for state in states):
        reason = f"more than {MAX_EVIDENCE}: an import refuses this memory"
        report.warnings.append(Reject(ref, "evidence", reason))
    return values


@contextmanager
def _open_writer(form: FileForm, file: Path) -> Iterator[Write]:
    if form == "parquet":
        with pq.ParquetWriter(file, parquet_schema(SAID), compression="zstd") as writer:
            groups = _RowGroups(writer)
            yield groups.add
            groups.flush()
        return
    with file.open("wb") as lines:
        lines.write(encode_values(HEADER))
        yield lambda values: lines.writelines(split_record(values, max_bytes=MAX_LINE_BYTES))


class _RowGroups:
    """Gathers rows into groups that are bounded in rows and in text."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, values: dict[str, Any]) -> None:
        row = to_row(values)
        self._rows.append(row)
        self._bytes += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(self._rows) >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            table = pa.Table.from_pylist(self._rows, schema=self._writer.schema)
            self._writer.write_table(table)
        self._rows, self._bytes = [], 0
