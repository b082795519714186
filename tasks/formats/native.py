"""memtend's own format: JSON Lines, one memory a line, ids required; what export writes.

An optional first line ``{"format": "memtend.memories", "version": 1}`` names the version. Each
other line holds the fields of `storage.models.MemoryRecord`: id and content are required,
namespace is ``{tenant, principal, scope}``, instants are RFC 3339 text, history lists the earlier
revisions oldest first. What a store knows of a memory beside that is its ledger, which comes out
of the values. The same as Parquet is in `tasks.formats.parquet`.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from storage.errors import AdmissionError
from tasks.formats.entries import Entry, refuse
from tasks.formats.parquet import is_parquet, read_parquet
from tasks.formats.parts import PartCollector

FORMAT = "memtend.memories"
VERSION = 1
HEADER = {"format": FORMAT, "version": VERSION}
SAID = f"{FORMAT} version {VERSION}"
MAX_LINE_BYTES = 8 * 1024 * 1024


def read_native(path: Path) -> Iterator[tuple[Entry, int]]:
    """Yield the records of a file, each with the number of bytes read so far.

    Raises:
        AdmissionError: The header names a version that is not known, or the file is no Parquet
            although it begins so.
    """
    read = read_parquet(path, SAID) if is_parquet(path) else _read_lines(path)
    for entry, done in read:
        yield _set_ledger_aside(entry), done


def _read_lines(path: Path) -> Iterator[tuple[Entry, int]]:
    done = 0
    collector = PartCollector()
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            done += len(line)
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                    done += len(line)
                yield refuse(number, "line", f"longer than {MAX_LINE_BYTES} bytes"), done
                continue
            if line.strip():
                entry = _read_line(number, line, collector)
                if entry is not None:
                    yield entry, done
    left = collector.end()
    if left is not None:
        yield left, done


def _read_line(number: int, line: bytes, collector: PartCollector) -> Entry | None:
    try:
        values = json.loads(line, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        return refuse(number, "line", "not UTF-8")
    except (ValueError, RecursionError):
        return refuse(number, "line", "not JSON")
    if not isinstance(values, dict):
        return refuse(number, "line", "not a JSON object")
    if number == 1 and "format" in values:
        _check_header(values)
        return None
    if "id" not in values and "part_of" not in values:
        return refuse(number, "id", "is required")
    return collector.add(number, values)


def _set_ledger_aside(entry: Entry) -> Entry:
    if entry.values is None or "ledger" not in entry.values:
        return entry
    values = dict(entry.values)
    return replace(entry, values=values, ledger=values.pop("ledger"))


def _check_header(values: dict[str, Any]) -> None:
    if values.get("format") != FORMAT or values.get("version") != VERSION:
        raise AdmissionError("format", f"must be {SAID}", record=1)


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not a JSON number"
    raise ValueError(message)
