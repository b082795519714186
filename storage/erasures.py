"""What an erasure takes, and how far it has come.

Selecting only reads. What was erased is kept as keyed fingerprints; an erasure that is not proved
yet has its row in phase `rows`, and the next one goes on with it. Source: DESIGN 6, 10.11;
spec/consolidate.md R96.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from storage.digests import encode_json
from storage.erasure_keys import Keyer
from storage.errors import ConflictError
from storage.gateway import StoreReader, StoreWriter
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "erasures")
_IDS = pa.schema([("memory_id", pa.string())])
_MARKS = pa.schema([("subject", pa.string()), ("fingerprint", pa.string())])

# named: by the selector; merged, refined: its lineage; trace: rows name it, no memory has the id.
Reason = Literal["named", "merged", "refined", "trace"]


class Taken(NamedTuple):
    """One memory that an erasure takes; without a revision there is no memory, only traces."""

    memory_id: str
    reason: Reason
    revision: int | None
    status: str | None


class Text(NamedTuple):
    """A content that a memory has, or had."""

    memory_id: str
    revision: int
    content: str


@dataclass(frozen=True, slots=True)
class Unproved:
    """An erasure whose rows are gone and whose bytes may not be.

    `doubt` names the files in which an earlier run found its texts, each with its SHA-256.
    """

    erasure_id: str
    namespace_id: int
    namespace_key: str
    memories: int
    erased_at: datetime
    doubt: Mapping[str, str]


def table_ids(ids: Iterable[str]) -> pa.Table:
    """Make a table of ids that statements read."""
    return pa.table({"memory_id": pa.array(sorted(set(ids)), pa.string())}, schema=_IDS)


def find_tagged(reader: StoreReader, namespace_id: int, tag: str) -> list[str]:
    """Find the memories that have a tag, whatever their status."""
    params = {"namespace_id": namespace_id, "tag": tag}
    return [name for (name,) in reader.rows(_SQL["find_tagged"], params)]


def find_all(reader: StoreReader, namespace_id: int) -> list[str]:
    """Find every id that some row of a namespace names."""
    return [name for (name,) in reader.rows(_SQL["find_all"], {"namespace_id": namespace_id})]


def take_lineage(reader: StoreReader, namespace_id: int, ids: Iterable[str]) -> list[Taken]:
    """Take memories with the whole lineage of each, in the order of their ids.

    Merges go both ways; what a refiner made of a memory goes with it, not the other way round.
    Ids that nothing names are left out.
    """
    reasons: dict[str, Reason] = dict.fromkeys(ids, "named")
    fresh: Collection[str] = list(reasons)
    while fresh:
        found: dict[str, Reason] = {}
        for statement, reason in _STEPS:
            for name in _list_ids(reader, statement, namespace_id, fresh):
                if name not in reasons:
                    found.setdefault(name, reason)
        reasons |= found
        fresh = list(found)
    return _describe(reader, namespace_id, reasons)


_STEPS: tuple[tuple[str, Reason], ...] = (("find_merged", "merged"), ("find_refined", "refined"))


def take_all(reader: StoreReader, namespace_id: int, ids: Iterable[str]) -> list[Taken]:
    """Take these ids, each with what is known of it, in their order."""
    return _describe(reader, namespace_id, dict.fromkeys(ids, "named"), is_known=True)


def _describe(
    reader: StoreReader,
    namespace_id: int,
    reasons: Mapping[str, Reason],
    *,
    is_known: bool = False,
) -> list[Taken]:
    params, incoming = {"namespace_id": namespace_id}, table_ids(reasons)
    rows = reader.table(_SQL["find_memories"], params, incoming=incoming).to_pylist()
    known = {row["memory_id"]: row for row in rows}
    absent = reasons.keys() - known.keys()
    traces = absent if is_known else set(_list_ids(reader, "find_traces", namespace_id, absent))
    taken = [
        Taken(name, reasons[name], row["revision"], row["status"]) for name, row in known.items()
    ]
    taken += [Taken(name, "trace", None, None) for name in traces]
    return sorted(taken)


def _list_ids(
    reader: StoreReader, statement: str, namespace_id: int, ids: Collection[str]
) -> list[str]:
    if not ids:
        return []
    params = {"namespace_id": namespace_id}
    found = reader.table(_SQL[statement], params, incoming=table_ids(ids))
    return [name for name in found.column("memory_id").to_pylist() if name is not None]


def count_active(reader: StoreReader, namespace_id: int) -> int:
    """Count the active memories of a namespace."""
    return int(reader.rows(_SQL["count_active"], {"namespace_id": namespace_id})[0][0])


def read_contents(reader: StoreReader, namespace_id: int, ids: Iterable[str]) -> list[Text]:
    """Read every text that these memories have, or had."""
    params, incoming = {"namespace_id": namespace_id}, table_ids(ids)
    found = reader.table(_SQL["read_contents"], params, incoming=incoming)
    return [Text(**row) for row in found.to_pylist()]


def make_marks(keyer: Keyer, ids: Iterable[str], texts: Iterable[Text]) -> pa.Table:
    """Fingerprint ids and texts, each once."""
    marks = {("id", keyer.sign_id(name)) for name in ids}
    marks |= {
        ("content", keyer.sign_content(content)) for content in {one.content for one in texts}
    }
    rows = [{"subject": subject, "fingerprint": mark} for subject, mark in sorted(marks)]
    return pa.Table.from_pylist(rows, schema=_MARKS)


def begin_erasure(  # noqa: PLR0913 - what its row holds
    writer: StoreWriter,
    namespace_id: int,
    erasure_id: str,
    *,
    marks: pa.Table,
    memories: int,
    removed: Mapping[str, int],
    clock: datetime,
) -> None:
    """Keep the fingerprints and the state of an erasure, in the transaction that takes its rows."""
    owner: dict[str, object] = {"namespace_id": namespace_id}
    writer.insert(_SQL["forget_marks"], marks, owner)
    owner["erasure_id"] = erasure_id
    writer.insert(_SQL["insert_marks"], marks, owner)
    said = {"memories": memories, "removed": encode_json(dict(removed)), "clock": clock}
    writer.execute(_SQL["insert_erasure"], {**owner, **said})


def find_marked(
    reader: StoreReader, namespace_id: int, keyer: Keyer, ids: Iterable[str]
) -> list[str]:
    """Find those of these ids that were erased."""
    rows = [{"memory_id": name, "fingerprint": keyer.sign_id(name)} for name in sorted(set(ids))]
    schema = pa.schema([("memory_id", pa.string()), ("fingerprint", pa.string())])
    incoming = pa.Table.from_pylist(rows, schema=schema)
    found = reader.table(_SQL["find_marked_ids"], {"namespace_id": namespace_id}, incoming=incoming)
    names: list[str] = found.column("memory_id").to_pylist()
    return names


def count_erasures(reader: StoreReader) -> int:
    """Count the erasures that were ever begun; each takes its rows in the same transaction."""
    return int(reader.rows(_SQL["count_erasures"])[0][0])


def list_unproved(reader: StoreReader) -> list[Unproved]:
    """List the erasures of the store that are not proved yet, the oldest first."""
    records = reader.records(_SQL["list_unproved"])
    doubts = [json.loads(record.pop("proof") or "{}").get("found_in", {}) for record in records]
    return [Unproved(**record, doubt=doubt) for record, doubt in zip(records, doubts, strict=True)]


def list_unproved_marks(reader: StoreReader, namespace_id: int) -> frozenset[str]:
    """List the fingerprints of the ids that unproved erasures of a namespace took."""
    rows = reader.rows(_SQL["list_unproved_marks"], {"namespace_id": namespace_id})
    return frozenset(mark for (mark,) in rows)


def list_named(reader: StoreReader, namespace_id: int) -> list[tuple[str, list[str]]]:
    """List every id that a row of a namespace names, with the tables that do."""
    rows = reader.rows(_SQL["list_named"], {"namespace_id": namespace_id})
    return [(name, places) for name, places in rows]


def is_said_elsewhere(reader: StoreReader, text: str) -> bool:
    """Tell whether a memory that stays says the same text, or has it as a part of its own."""
    return bool(reader.rows(_SQL["is_said_elsewhere"], {"text": text})[0][0])


def list_partitions(reader: StoreReader) -> dict[str, tuple[int, str]]:
    """List by partition of the index whose it is: the number and the key of its namespace."""
    rows = reader.rows(_SQL["list_partitions"])
    return {partition: (number, key) for partition, number, key in rows}


def digest_marks(reader: StoreReader, erasure_id: str) -> tuple[int, str]:
    """Count the fingerprints of an erasure and digest them."""
    count, digest = reader.rows(_SQL["digest_marks"], {"erasure_id": erasure_id})[0]
    return int(count), str(digest)


def end_erasure(
    writer: StoreWriter, erasure_id: str, proof: Mapping[str, Any], *, clock: datetime
) -> None:
    """Keep the proof of an erasure; nothing goes on with it any more."""
    params = {"erasure_id": erasure_id, "proof": encode_json(dict(proof)), "clock": clock}
    if writer.execute(_SQL["set_proved"], params) != 1:
        message = "an erasure was proved twice"
        raise ConflictError(message)


def note_doubt(writer: StoreWriter, erasure_id: str, proof: Mapping[str, Any]) -> None:
    """Keep what a verification found that was not gone; the next erasure tries again."""
    params = {"erasure_id": erasure_id, "proof": encode_json(dict(proof))}
    writer.execute(_SQL["note_failed_proof"], params)


def list_proofs(reader: StoreReader, run_ids: Iterable[str]) -> list[dict[str, Any]]:
    """List the erasures that runs made, or verified for others, each with its proof."""
    records = reader.records(_SQL["list_proofs"], {"run_ids": list(run_ids)})
    for record in records:
        for name in ("removed", "proof"):
            record[name] = json.loads(record[name]) if record[name] else {}
    return records
