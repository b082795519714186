"""memtend's own format: JSON Lines, one memory a line, ids required; what export writes.

An optional first line ``{"format": "memtend.memories", "version": 1}`` names the version. Each
other line holds the fields of `storage.models.MemoryRecord`: id and content are required,
namespace is ``{tenant, principal, scope}``, instants are RFC 3339 text, history lists the earlier
revisions oldest first.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from storage.errors import AdmissionError
from tasks.formats.entries import Entry, refuse

FORMAT = "memtend.memories"
VERSION = 1
MAX_LINE_BYTES = 8 * 1024 * 1024


def read_native(path: Path) -> Iterator[tuple[Entry, int]]:
    """Yield the records of a file, each with the number of bytes read so far.

    Raises:
        AdmissionError: The header names a version that is not known.
    """
    done = 0
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
                entry = _read_line(number, line)
                if entry is not None:
                    yield entry, done


def _read_line(number: int, line: bytes) -> Entry | None:
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
    if "id" not in values:
        return refuse(number, "id", "is required")
    return Entry(number, values)


def _check_header(values: dict[str, Any]) -> None:
    if values.get("format") != FORMAT or values.get("version") != VERSION:
        raise AdmissionError("format", f"must be {FORMAT} version {VERSION}", record=1)


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not a JSON number"
    raise ValueError(message)
