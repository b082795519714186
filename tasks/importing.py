"""Import memories from a file: validate every record, admit them in one transaction, report.

Kill it at any point and nothing of the file is in the store; run it again and it goes in once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from storage import Store
from storage.admission import Admitted, Candidate, Reject, admit_records
from storage.digests import digest_values
from storage.errors import AdmissionError
from storage.exporting_ledger import Ledger
from storage.models import DEFAULT_NAMESPACE, MemoryRecord, Namespace
from storage.namespaces import ensure_namespace
from tasks.formats.entries import MAX_TEXT_FIELD, Entry
from tasks.formats.forgetful import BEGINNING, read_forgetful
from tasks.formats.native import read_native

Format = Literal["auto", "memtend", "forgetful"]
FORMATS: tuple[Format, ...] = get_args(Format)
OnProgress = Callable[[int, int], None]
_HEAD_BYTES = 4_096
_STEP = 500


@dataclass(slots=True)
class ImportReport:
    """What became of a file: read = imported + unchanged + suppressed + rejected.

    `rejects` names every refused record and every dropped edge; `warnings` what was read with an
    assumption, and parts of the file that are not imported.
    """

    format: str
    read: int = 0
    imported: int = 0
    unchanged: int = 0
    suppressed: int = 0
    rejected: int = 0
    rejects: list[Reject] = field(default_factory=list)
    warnings: list[Reject] = field(default_factory=list)
    is_refused: bool = False


class _RefusedError(Exception):
    """Rolls a strict import back."""


def import_file(  # noqa: PLR0913 - what a person can choose
    store: Store,
    path: Path,
    *,
    file_format: Format = "auto",
    namespace: Namespace | None = None,
    is_strict: bool = False,
    clock: datetime,
    on_progress: OnProgress | None = None,
) -> ImportReport:
    """Import a file.

    Args:
        store: Where to; no lock may be held.
        path: The file.
        file_format: Its format; auto looks at its beginning.
        namespace: For records that name none; a record that names another one is refused.
        is_strict: Nothing goes in if anything is refused.
        clock: Wall time: created_at of records without one.
        on_progress: Told how much of how much has been read.

    Raises:
        AdmissionError: The file cannot be read as this format.
        StoreBusyError: The store's lock was not free in time.
    """
    if not path.is_file():
        raise AdmissionError("file", "there is no such file")
    chosen = _detect(path) if file_format == "auto" else file_format
    report = ImportReport(chosen)
    groups: dict[Namespace, list[Candidate]] = defaultdict(list)
    for entry in _read_entries(path, chosen, report, on_progress):
        report.read += 1
        candidate = _validate(entry, report, namespace, clock)
        if candidate is not None:
            where = candidate.record.namespace or namespace or DEFAULT_NAMESPACE
            groups[where].append(candidate)
    if is_strict and report.rejects:
        report.is_refused = True
        return report
    _admit(store, groups, report, is_strict=is_strict, clock=clock)
    return report


def _detect(path: Path) -> Format:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return "forgetful" if BEGINNING.match(head) else "memtend"


def _read_entries(
    path: Path, chosen: str, report: ImportReport, on_progress: OnProgress | None
) -> Iterator[Entry]:
    if chosen == "forgetful":
        entries, notes = read_forgetful(path)
        report.warnings += notes
        yield from _counted(
            ((entry, n) for n, entry in enumerate(entries, 1)), len(entries), on_progress
        )
    else:
        yield from _counted(read_native(path), path.stat().st_size, on_progress)


def _counted(
    entries: Iterator[tuple[Entry, int]], total: int, on_progress: OnProgress | None
) -> Iterator[Entry]:
    for number, (entry, done) in enumerate(entries):
        if on_progress is not None and (number % _STEP == 0 or done == total):
            on_progress(done, total)
        yield entry


def _validate(
    entry: Entry, report: ImportReport, namespace: Namespace | None, clock: datetime
) -> Candidate | None:
    report.rejects += entry.rejects
    try:
        if entry.values is None:
            report.rejected += 1
            return None
        record = MemoryRecord.model_validate(entry.values)
        ledger = None if entry.ledger is None else Ledger.model_validate(entry.ledger)
    except ValidationError as error:
        report.rejected += 1
        report.rejects += explain_invalid(entry.ref, error)
        return None
    if namespace is not None and record.namespace not in {None, namespace}:
        report.rejected += 1
        report.rejects.append(Reject(entry.ref, "namespace", "is not the namespace of this import"))
        return None
    if record.created_at is None:
        report.warnings.append(
            Reject(entry.ref, "created_at", "time_missing: the import time is used")
        )
    elif record.created_at > clock:
        report.warnings.append(Reject(entry.ref, "created_at", "time_future"))
    return Candidate(entry.ref, record, digest_values(entry.values), ledger)


def explain_invalid(ref: str | int, error: ValidationError) -> list[Reject]:
    """Name each field that a validation refused, without quoting any value or metadata key."""
    rejects = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        path = [str(part) for part in fault["loc"]]
        if "metadata" in path:
            del path[path.index("metadata") + 1 :]
        name = "".join(sign if sign.isprintable() else "?" for sign in ".".join(path))
        reason = fault["msg"].removeprefix("Value error, ")
        if not name and ": " in reason:
            name, reason = reason.split(": ", 1)
        rejects.append(Reject(ref, name[:MAX_TEXT_FIELD] or "record", reason))
    return rejects


def _admit(
    store: Store,
    groups: dict[Namespace, list[Candidate]],
    report: ImportReport,
    *,
    is_strict: bool,
    clock: datetime,
) -> None:
    try:
        with store.write() as writer:
            for namespace, candidates in groups.items():
                owner = ensure_namespace(writer, namespace)
                result = admit_records(writer, owner.namespace_id, candidates, clock=clock)
                _add(report, result)
            _refuse(is_strict=is_strict, report=report)
    except _RefusedError:
        report.imported = 0
        report.is_refused = True


def _refuse(*, is_strict: bool, report: ImportReport) -> None:
    if is_strict and report.rejects:
        raise _RefusedError


def _add(report: ImportReport, result: Admitted) -> None:
    report.imported += result.imported
    report.unchanged += result.unchanged
    report.suppressed += len(result.suppressed) + len(result.erased)
    report.rejected += result.rejected
    report.rejects += result.rejects
    report.warnings += [Reject(ref, "id", "suppressed: tombstoned") for ref in result.suppressed]
    report.warnings += [Reject(ref, "id", "suppressed: erased") for ref in result.erased]
