"""Imports in tests: files of memtend's format, backups of Forgetful, and what became of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from helpers.vectors import Json

from storage import Store
from tasks.importing import ImportReport, import_file

OLD = "2025-01-01T00:00:00Z"

_FORGETFUL_ROW: Mapping[str, object] = {
    "id": 1,
    "user_id": "u1",
    "title": "Deploys",
    "content": "Deploys happen on Mondays.",
    "context": "from the handbook",
    "keywords": '["deploy", "monday"]',
    "tags": '["ops"]',
    "importance": 7,
    "is_obsolete": 0,
    "obsolete_reason": None,
    "superseded_by": None,
    "obsoleted_at": None,
    "created_at": "2026-01-01 19:00:47.674173",
    "updated_at": "2026-01-01 19:00:47.674180",
    "source_files": "null",
    "confidence": 0.9,
}


def write_lines(path: Path, *lines: object) -> Path:
    """Write a file of memtend's format; texts and bytes are lines as they are, values are JSON."""
    path.write_bytes(b"".join(_encode(line) + b"\n" for line in lines))
    return path


def _encode(line: object) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()


def forgetful_row(**changes: object) -> dict[str, object]:
    """Give a row of Forgetful's table of memories."""
    return {**_FORGETFUL_ROW, **changes}


def write_backup(path: Path, *rows: object, **tables: object) -> Path:
    """Write a backup of Forgetful with these rows of memories and these other tables."""
    backup = {"export_metadata": {"tool": "test"}, "data": {"memories": list(rows), **tables}}
    path.write_text(json.dumps(backup), encoding="utf-8")
    return path


def record(memory_id: str = "m1", **changes: Any) -> Json:  # noqa: ANN401 - fields of a record
    """Give a record of memtend's format, old and with default fields."""
    return {"id": memory_id, "content": f"memory {memory_id}", "created_at": OLD, **changes}


def edges(*pairs: tuple[str, str]) -> Json:
    """Give the field `relations` of a record from pairs (kind, target)."""
    return {"relations": [{"kind": kind, "target_id": target} for kind, target in pairs]}


def related_to(*target_ids: str) -> Json:
    """Give the field `relations` of a record that is related to others."""
    return edges(*(("related_to", target_id) for target_id in target_ids))


def counts(report: ImportReport) -> tuple[int, ...]:
    """Give what was imported, unchanged, suppressed and rejected; it adds up to what was read."""
    assert report.read == report.imported + report.unchanged + report.suppressed + report.rejected
    return report.imported, report.unchanged, report.suppressed, report.rejected


@dataclass(frozen=True, slots=True)
class Importer:
    """Imports lines of memtend's format into a store."""

    store: Store
    path: Path
    clock: datetime

    def __call__(self, *lines: object, **options: Any) -> ImportReport:  # noqa: ANN401 - of import_file
        """Write the lines to a file and import it."""
        return import_file(self.store, write_lines(self.path, *lines), clock=self.clock, **options)
