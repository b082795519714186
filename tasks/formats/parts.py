"""Records that are too long for one line: their long lists stand in lines before them.

A part is ``{"part_of": id, "list": name, "items": [...]}``; the record follows its parts at once
and says how many there are.
"""

import json
from collections.abc import Iterator
from typing import Any

from tasks.formats.entries import Entry, refuse

# A part is that long at most, or has one item: a state of a memory, which stays below some MiB.
_PART_BYTES = 1024 * 1024
_LEDGER = ("access_events", "merge_sources", "merge_receipts", "kept_apart")
# Where the lists are that have no limit.
_PATHS = (("history",), *(("ledger", name) for name in _LEDGER))

Values = dict[str, Any]


def encode_values(values: object) -> bytes:
    """Encode JSON values as one line; equal values are equal bytes."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def split_record(values: Values, *, max_bytes: int) -> Iterator[bytes]:
    """Encode a record as one line, or as its parts and what is left of it."""
    line = encode_values(values)
    if len(line) <= max_bytes:
        yield line
        return
    rest = {**values, "ledger": dict(values.get("ledger", {}))}
    count = 0
    for path in _PATHS:
        for items in _cut(_take(rest, path), min(_PART_BYTES, max_bytes // 2)):
            yield encode_values({"part_of": values["id"], "list": ".".join(path), "items": items})
            count += 1
    if not rest["ledger"]:
        del rest["ledger"]
    yield encode_values({**rest, "parts": count})


def _take(values: Values, path: tuple[str, ...]) -> list[object]:
    *folders, name = path
    for folder in folders:
        values = values[folder]
    items: list[object] = values.pop(name, [])
    return items


def _cut(items: list[object], most_bytes: int) -> Iterator[list[object]]:
    chunk: list[object] = []
    size = 0
    for item in items:
        length = len(encode_values(item))
        if chunk and size + length > most_bytes:
            yield chunk
            chunk, size = [], 0
        chunk.append(item)
        size += length
    if chunk:
        yield chunk


class PartCollector:
    """Puts records together again; parts that no record claims are refused by their line."""

    def __init__(self) -> None:
        """Begin with nothing waiting."""
        self._waiting: list[tuple[int, Values]] = []

    def add(self, number: int, values: Values) -> Entry | None:
        """Take the values of a line: None while they are a part, else the record."""
        if "part_of" in values:
            self._waiting.append((number, values))
            return None
        return self._complete(number, values)

    def end(self) -> Entry | None:
        """Say what is left at the end of the file."""
        if not self._waiting:
            return None
        number, _ = self._waiting[0]
        return refuse(number, "part_of", "no record follows this part")

    def _complete(self, number: int, values: Values) -> Entry:
        parts, self._waiting = self._waiting, []
        if not parts and "parts" not in values:
            return Entry(number, values)
        count = values.pop("parts", 0)
        is_whole = count == len(parts) and all(
            part.get("part_of") == values.get("id") and _put(values, part) for _, part in parts
        )
        if not is_whole:
            return refuse(number, "parts", "does not follow its parts")
        return Entry(number, values)


def _put(values: Values, part: Values) -> bool:
    name, items = part.get("list"), part.get("items")
    path = next((path for path in _PATHS if ".".join(path) == name), None)
    if path is None or not isinstance(items, list):
        return False
    *folders, last = path
    for folder in folders:
        values = values.setdefault(folder, {})
        if not isinstance(values, dict):
            return False
    found = values.setdefault(last, [])
    if not isinstance(found, list):
        return False
    found.extend(items)
    return True
