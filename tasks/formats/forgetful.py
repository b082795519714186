"""The backup of the agent memory tool Forgetful: one JSON object of tables.

Mapping: the integer importance 1..10 is divided by 10; kind is episodic; naive stamps are UTC and
content_at is created_at; tags, keywords and source_files are JSON inside text; title, context and
keywords become metadata, other fields metadata under ``source.<field>``; an obsolete row with a
successor arrives superseded with both edges, without one tombstoned; links become related_to.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from storage.admission import Reject
from storage.errors import AdmissionError
from tasks.formats.entries import Entry, refuse

# One object whose first key is one of its two; lines of memtend's format begin otherwise.
BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:export_metadata|data)"\s*:')
_SCALE = 10
_NAMED = ("title", "context", "keywords")
_MAPPED = {
    *_NAMED,
    "id",
    "content",
    "tags",
    "importance",
    "confidence",
    "created_at",
    "updated_at",
    "superseded_by",
    "is_obsolete",
}
_USED_TABLES = {"memories", "memory_links", "projects", "memory_project_association"}


def read_forgetful(path: Path) -> tuple[list[Entry], list[Reject]]:
    """Read all memories of a backup, and name the tables that are not imported or oddly shaped.

    Raises:
        AdmissionError: The file is no such backup.
    """
    tables = _read_tables(path)
    notes = _describe_tables(tables)
    edges = _read_edges(tables, notes)
    projects = _read_projects(tables)
    entries = [
        _read_memory(f"memories[{index}]", row, edges, projects)
        for index, row in enumerate(_rows(tables, "memories"))
    ]
    return entries, notes


def _read_tables(path: Path) -> Mapping[str, Any]:
    try:
        backup = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise AdmissionError("file", "not JSON") from None
    tables = backup.get("data") if isinstance(backup, dict) else None
    if not isinstance(tables, dict) or not isinstance(tables.get("memories"), list):
        raise AdmissionError("data.memories", "must be a list")
    return tables


def _describe_tables(tables: Mapping[str, Any]) -> list[Reject]:
    notes = []
    for name, table in sorted(tables.items()):
        shape = "null" if table is None else "one object" if isinstance(table, dict) else "a value"
        if not isinstance(table, list):
            notes.append(
                Reject(f"data.{name}", name, f"is {shape} instead of a list; not imported")
            )
        elif name not in _USED_TABLES and table:
            notes.append(Reject(f"data.{name}", name, f"{len(table)} rows; not imported"))
    return notes


def _rows(tables: Mapping[str, Any], name: str) -> Iterator[Any]:
    table = tables.get(name)
    yield from table if isinstance(table, list) else []


def _read_edges(tables: Mapping[str, Any], notes: list[Reject]) -> dict[str, list[dict[str, str]]]:
    """Collect the edges that each memory lists itself; import adds the other ends."""
    edges: dict[str, list[dict[str, str]]] = defaultdict(list)
    rows = [row for row in _rows(tables, "memories") if isinstance(row, dict)]
    known = {str(row.get("id")) for row in rows}
    for index, link in enumerate(_rows(tables, "memory_links")):
        ends = link if isinstance(link, dict) else {}
        source, target = str(ends.get("source_id")), str(ends.get("target_id"))
        if source in known and source != target:
            edges[source].append({"kind": "related_to", "target_id": target})
        else:
            reason = "links no memory, or one to itself; not imported"
            notes.append(Reject(f"data.memory_links[{index}]", "source_id", reason))
    for row in rows:
        source, target = str(row.get("id")), str(row.get("superseded_by"))
        if row.get("superseded_by") is not None and source != target:
            edges[source].append({"kind": "superseded_by", "target_id": target})
    return edges


def _read_projects(tables: Mapping[str, Any]) -> dict[str, str]:
    names = {
        str(row.get("id")): row.get("name")
        for row in _rows(tables, "projects")
        if isinstance(row, dict)
    }
    pairs = [row for row in _rows(tables, "memory_project_association") if isinstance(row, dict)]
    found = {str(row.get("memory_id")): names.get(str(row.get("project_id"))) for row in pairs}
    return {memory_id: name for memory_id, name in found.items() if isinstance(name, str) and name}


def _read_memory(
    ref: str, row: object, edges: Mapping[str, list[dict[str, str]]], projects: Mapping[str, str]
) -> Entry:
    if not isinstance(row, dict):
        return refuse(ref, "memory", "not a JSON object")
    if not isinstance(row.get("id"), int | str) or isinstance(row.get("id"), bool):
        return refuse(ref, "id", "is required")
    importance = row.get("importance")
    if not isinstance(importance, int) or importance is True or not 1 <= importance <= _SCALE:
        return refuse(ref, "importance", f"must be an integer from 1 to {_SCALE}")
    memory_id = str(row["id"])
    try:
        tags = _read_list(row.get("tags"))
        metadata = _read_metadata(row, projects.get(memory_id))
    except ValueError as error:
        return refuse(ref, str(error), "not a JSON list inside text")
    values = {
        "id": memory_id,
        "kind": "episodic",
        "content": row.get("content"),
        "importance": importance / _SCALE,
        "tags": tags,
        "metadata": metadata,
        "created_at": row.get("created_at"),
        "content_at": row.get("created_at"),
        "updated_at": row.get("updated_at"),
        "relations": edges.get(memory_id, []),
        **_read_status(row),
    }
    if row.get("confidence") is not None:
        values["confidence"] = row["confidence"]
    return Entry(ref, values)


def _read_status(row: Mapping[str, Any]) -> dict[str, Any]:
    if not row.get("is_obsolete"):
        return {"status": "active"}
    if row.get("superseded_by") is not None:
        return {"status": "superseded"}
    return {
        "status": "tombstoned",
        "tombstoned_at": row.get("obsoleted_at") or row.get("updated_at"),
    }


def _read_list(value: object, field: str = "tags") -> list[str]:
    """Read a list, or a JSON list inside text: trimmed, blanks dropped."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(field) from None
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(field)
    return [item.strip() for item in value if item.strip()]


def _read_metadata(row: Mapping[str, Any], project: str | None) -> dict[str, str]:
    metadata: dict[str, str] = {}
    for name in _NAMED:
        value = row.get(name)
        if name == "keywords":
            words = _read_list(value, name)
            value = json.dumps(words, ensure_ascii=False) if words else None
        if value is not None and value != "":
            metadata[name] = _as_text(value)
    if project is not None:
        metadata["project"] = project
    for name, value in row.items():
        if name not in _MAPPED and value not in (None, "", "null"):
            metadata[f"source.{name}"] = _as_text(value)
    return metadata


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
