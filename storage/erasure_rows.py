"""Take every row about memories out of the database, in one transaction of the caller.

Where a row has to stay, so that a plan still adds up or a change set is still replayed, a keyed
token stands in the place of the id. Neighbours lose their edges with one revision step each.
Source: DESIGN 6; spec/consolidate.md R96, spec/repository.md R13, R42.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, get_args

import pyarrow as pa

from storage.digests import encode_json
from storage.erasure_keys import Keyer
from storage.erasures import Text
from storage.gateway import StoreWriter
from storage.identities import RecordProfile, digest_content, name_record
from storage.namespaces import step_sequence
from storage.queries import read_statements
from storage.removal import remove_marked
from storage.terms import compact_terms

_SQL = read_statements("storage.sql", "erasure_rows")
_ERASED = pa.schema([("memory_id", pa.string()), ("token", pa.string())])
_RECEIPTS = pa.schema(
    [
        ("receipt_key", pa.string()),
        ("memory_id", pa.string()),
        ("carried", pa.string()),
        ("ancestors_kept", pa.string()),
        ("figures", pa.string()),
    ]
)
_WARNINGS = pa.schema([("plan_id", pa.string()), ("warnings", pa.string())])
_RESULTS = pa.schema(
    [(name, pa.string()) for name in ("idempotency_key", "new_key", "digest", "results")]
)
_ATTEMPTS = pa.schema([("partition", pa.string()), ("record_id", pa.string())])
# What `remove_marked` leaves: rows of ids without a memory, and of other memories that name one.
_DELETED = (
    "revisions",
    "merged_revisions",
    "evidence",
    "relations",
    "access_events",
    "merge_sources",
    "merge_receipts",
    "kept_apart",
    "refiner_attempts",
    "publication_rows",
)
_HASHES = ("tokens", "keys", "verdicts", "searches", "pairs")
_OF_ALL = ("delete_decisions", "delete_pairs", "delete_plans", "delete_receipts", "clear_runs")


def erase_rows(  # noqa: PLR0913 - whose rows, and what they are known by
    writer: StoreWriter,
    namespace_id: int,
    keyer: Keyer,
    ids: Iterable[str],
    texts: Iterable[Text],
    *,
    is_whole: bool,
    now: datetime,
) -> dict[str, int]:
    """Take every row about memories; give how many rows named them, by table.

    Args:
        writer: The open transaction; its lease has been checked.
        namespace_id: Whose memories.
        keyer: Names what stands in the place of an id where a row stays.
        ids: The memories, and what is no memory any more.
        texts: Every text that they have, or had.
        is_whole: They are all that the namespace has; its plans go, too.
        now: When their neighbours change.
    """
    owner = {"namespace_id": namespace_id}
    tokens = {name: keyer.name_token(name) for name in ids}
    rows = [{"memory_id": name, "token": token} for name, token in sorted(tokens.items())]
    writer.insert(_SQL["name_erased"], pa.Table.from_pylist(rows, schema=_ERASED))
    named = {place: int(count) for place, count in writer.rows(_SQL["count_named"], owner)}
    named["embedding_attempts"] = _delete_attempts(writer, namespace_id, texts, is_whole=is_whole)
    writer.execute(_SQL["mark_removed"], owner)
    remove_marked(writer, namespace_id, now=now)
    for table in _DELETED:
        writer.execute(_SQL[f"delete_{table}"], owner)
    writer.execute(_SQL["settle_pointers"], owner)
    for table in _HASHES:
        writer.execute(_SQL[f"delete_{table}"], owner)
    _rename_results(writer, namespace_id, tokens, keyer, is_whole=is_whole)
    if is_whole:
        for statement in _OF_ALL:
            writer.execute(_SQL[f"{statement}_of_all"], owner)
    else:
        _rename_plans(writer, namespace_id, tokens)
    compact_terms(writer)
    step_sequence(writer, namespace_id)
    return {place: count for place, count in named.items() if count}


def _rename_plans(writer: StoreWriter, namespace_id: int, tokens: Mapping[str, str]) -> None:
    owner = {"namespace_id": namespace_id}
    receipts = writer.records(_SQL["list_receipts"], owner)
    incoming = pa.Table.from_pylist(
        [_rename_receipt(one, tokens) for one in receipts], schema=_RECEIPTS
    )
    writer.insert(_SQL["rename_receipts"], incoming)
    _rename_warnings(writer, owner, tokens)
    for statement in ("delete_plan_pairs", "rename_heads", "rename_decisions", "clear_errors"):
        writer.execute(_SQL[statement], owner)


def _rename_receipt(row: Mapping[str, str], tokens: Mapping[str, str]) -> dict[str, str | None]:
    names = ("carried", "ancestors_kept", "figures")
    return {
        "receipt_key": row["receipt_key"],
        "memory_id": tokens.get(row["memory_id"], row["memory_id"]),
        **{name: _rename_json(row[name], tokens) for name in names},
    }


def _rename_json(text: str | None, tokens: Mapping[str, str]) -> str | None:
    return None if text is None else encode_json(_rename_all(json.loads(text), tokens))


def _rename_all(value: Any, tokens: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _rename_all(one, tokens) for name, one in value.items()}
    if isinstance(value, list):
        return [_rename_all(one, tokens) for one in value]
    return tokens.get(value, value) if isinstance(value, str) else value


def _rename_warnings(
    writer: StoreWriter, owner: Mapping[str, int], tokens: Mapping[str, str]
) -> None:
    """Rename what plans warn of, as `word:id`."""
    rows = []
    for plan_id, said in writer.rows(_SQL["list_warnings"], owner):
        parts = [warning.partition(":") for warning in json.loads(said)]
        renamed = [f"{word}{sign}{tokens.get(name, name)}" for word, sign, name in parts]
        rows.append({"plan_id": plan_id, "warnings": encode_json(renamed)})
    if rows:
        writer.insert(_SQL["rename_warnings"], pa.Table.from_pylist(rows, schema=_WARNINGS))


def _rename_results(
    writer: StoreWriter,
    namespace_id: int,
    tokens: Mapping[str, str],
    keyer: Keyer,
    *,
    is_whole: bool,
) -> None:
    """Keep that a change set was applied, and at which revisions, without saying to what.

    A key that names an erased id is replaced: whoever sends that set again is refused, since what
    it creates was erased.
    """
    owner = {"namespace_id": namespace_id}
    rows = []
    for key, digest, results in writer.rows(_SQL["list_change_sets"], owner):
        said = [(tokens.get(name, name), revision) for name, revision in json.loads(results)]
        is_named = is_whole or any(name in key for name, _ in json.loads(results) if name in tokens)
        rows.append(
            {
                "idempotency_key": key,
                "new_key": keyer.name_token(key) if is_named else key,
                "digest": "" if is_named else digest,
                "results": encode_json(said),
            }
        )
    if rows:
        incoming = pa.Table.from_pylist(rows, schema=_RESULTS)
        writer.insert(_SQL["rename_results"], incoming, owner)


def _delete_attempts(
    writer: StoreWriter, namespace_id: int, texts: Iterable[Text], *, is_whole: bool
) -> int:
    """Delete what is known of failed embeddings; a record's id is a digest of id and text."""
    owner = {"namespace_id": namespace_id}
    if is_whole:
        return writer.execute(_SQL["delete_attempts_of_all"], owner)
    known = writer.rows(_SQL["list_attempts"], owner)
    partitions = {partition for partition, _ in known}
    made = {
        (partition, name_record(profile, partition, one.memory_id, one.revision, digest))
        for one in (texts if partitions else ())
        for digest in (digest_content(one.content),)
        for partition in partitions
        for profile in get_args(RecordProfile)
    }
    rows = [{"partition": p, "record_id": r} for p, r in known if (p, r) in made]
    if not rows:
        return 0
    return writer.insert(_SQL["delete_attempts"], pa.Table.from_pylist(rows, schema=_ATTEMPTS))
