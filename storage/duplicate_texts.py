"""What consolidation compares of texts, stored as hashes: tokens, fingerprint, further keys.

A row belongs to a text number, so that a changed content simply has none; `index_missing_tokens`
computes what is missing outside of the lock, in bulk. The tokeniser and its profile are given:
another profile, such as one of another Unicode version, makes every row anew.
Source: spec/consolidate.md R21, R22, R60; DESIGN 10.15.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from storage.gateway import Store, StoreReader, StoreWriter
from storage.lexical import hash_term
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "duplicate_texts")
_BATCH = 20_000
_KEY_BYTES = 8

_TEXT_SCHEMA = pa.schema(
    [
        ("namespace_id", pa.int32()),
        ("text_number", pa.int64()),
        ("fingerprint_key", pa.int64()),
        ("text_key", pa.int64()),
        ("terms", pa.list_(pa.int64())),
    ]
)
_KEY_SCHEMA = pa.schema(
    [
        ("namespace_id", pa.int32()),
        ("text_number", pa.int64()),
        ("key_kind", pa.string()),
        ("key_hash", pa.int64()),
        ("value_hash", pa.int64()),
    ]
)


class KeyedValue(NamedTuple):
    """Digests of a key that texts may share, and of what they may differ in then."""

    key: bytes
    value: bytes


class TokenisedText(NamedTuple):
    """What is compared of one text; of each digest, the first 64 bits are stored.

    Attributes:
        tokens: The token set.
        fingerprint: Digest of what all exact duplicates have in common.
        text: Digest of the text after NFC and removal of format characters.
        keys: Further keys by kind; texts with an equal one are found by a join.
    """

    tokens: frozenset[str]
    fingerprint: bytes
    text: bytes
    keys: Mapping[str, KeyedValue] = {}


Tokenise = Callable[[str], TokenisedText]


class Untokenised(NamedTuple):
    """A memory whose current text has no row yet."""

    memory_id: str
    text_number: int
    content: str


def index_missing_tokens(
    store: Store, namespace_id: int, tokenise: Tokenise, *, profile: str
) -> int:
    """Store what is compared of the active memories of a namespace; give how many were missing.

    Texts are read, tokenised and written in batches, and no lock is held while one is tokenised.
    What another process has stored meanwhile stays. Rows of other profiles, and of texts that no
    active memory has, are dropped first.
    """
    owner: dict[str, object] = {"namespace_id": namespace_id, "profile": profile}
    with store.read() as reader:
        is_stale = reader.rows(_SQL["count_stale_texts"], owner)[0][0] > 0
    if is_stale:
        with store.write() as writer:
            drop_stale_tokens(writer, namespace_id, profile=profile)
    count = after = 0
    while batch := _read_missing(store, owner, after):
        texts = [(one.text_number, tokenise(one.content)) for one in batch]
        with store.write() as writer:
            count += insert_tokens(writer, namespace_id, texts, profile=profile)
        after = batch[-1].text_number
    return count


def _read_missing(store: Store, owner: Mapping[str, object], after: int) -> list[Untokenised]:
    with store.read() as reader:
        return read_untokenised(reader, {**owner, "after": after, "limit": _BATCH})


def read_untokenised(reader: StoreReader, params: Mapping[str, object]) -> list[Untokenised]:
    """Read memories without a row: up to `limit`, after the text number `after`."""
    return [Untokenised(*row) for row in reader.rows(_SQL["read_untokenised"], params)]


def insert_tokens(
    writer: StoreWriter,
    namespace_id: int,
    texts: Iterable[tuple[int, TokenisedText]],
    *,
    profile: str,
) -> int:
    """Insert (text number, what is compared) of texts that have no row; give how many these were.

    Rows of another profile have to be dropped before.
    """
    rows = list(texts)
    keys = [
        {
            "namespace_id": namespace_id,
            "text_number": number,
            "key_kind": kind,
            "key_hash": _shorten(keyed.key),
            "value_hash": _shorten(keyed.value),
        }
        for number, text in rows
        for kind, keyed in text.keys.items()
    ]
    if keys:
        writer.insert(_SQL["insert_keys"], pa.Table.from_pylist(keys, schema=_KEY_SCHEMA))
    return writer.insert(
        _SQL["insert_texts"], _make_table(namespace_id, rows), {"profile": profile}
    )


def _make_table(namespace_id: int, rows: list[tuple[int, TokenisedText]]) -> pa.Table:
    terms: list[str] = []
    offsets = [0]
    for _, text in rows:
        terms.extend(text.tokens)
        offsets.append(len(terms))
    coded = pa.array(terms, pa.string()).dictionary_encode()
    hashes = pa.array(map(hash_term, coded.dictionary.to_pylist()), pa.int64())
    columns = [
        pa.repeat(pa.scalar(namespace_id, pa.int32()), len(rows)),
        pa.array([number for number, _ in rows], pa.int64()),
        pa.array([_shorten(text.fingerprint) for _, text in rows], pa.int64()),
        pa.array([_shorten(text.text) for _, text in rows], pa.int64()),
        pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), hashes.take(coded.indices)),
    ]
    return pa.table(columns, schema=_TEXT_SCHEMA)


def _shorten(digest: bytes) -> int:
    return int.from_bytes(digest[:_KEY_BYTES], "big", signed=True)


def drop_stale_tokens(writer: StoreWriter, namespace_id: int, *, profile: str) -> int:
    """Drop rows of other profiles and of texts that no active memory has; give how many."""
    owner = {"namespace_id": namespace_id}
    dropped = writer.execute(_SQL["drop_stale_texts"], {**owner, "profile": profile})
    writer.execute(_SQL["drop_stale_keys"], owner)
    writer.execute(_SQL["drop_stale_verdicts"], owner)
    return dropped


def delete_tokens(writer: StoreWriter, namespace_id: int) -> None:
    """Delete the rows of the memories in the temporary table `removed`; before those go."""
    for statement in ("delete_verdicts", "delete_keys", "delete_texts"):
        writer.execute(_SQL[statement], {"namespace_id": namespace_id})
