"""The term index: which memories have a term of a query, and the search that it serves.

A posting is (namespace, term hash, text number) under the default profile. Each content that is
written gets a new text number, so a change only appends: postings of an earlier content belong to
no memory, match nothing, and go with `compact_terms`. The index only narrows: hits are counted
again on their texts, and what a hash collision changed is answered by reading all texts.
Source: spec/repository.md R32, spec/recall.md R6, R8.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storage.errors import ConflictError
from storage.fingerprints import key_of
from storage.gateway import StoreReader, StoreWriter
from storage.lexical import (
    WORD_CJK_BIGRAM_V1,
    WORD_V1,
    find_sure_terms,
    hash_term,
    is_searchable,
    tokenize,
)
from storage.models import round_to_f32
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "terms")

TERM_SCHEMA = pa.schema(
    [
        ("namespace_id", pa.int32()),
        ("memory_id", pa.string()),
        ("fingerprint_key", pa.int64()),
        ("terms", pa.list_(pa.int64())),
    ]
)
_MATCH_SCHEMA = pa.schema([("text_number", pa.int64()), ("matched", pa.int32())])
_BATCH = 20_000
# Up to this many texts are numbered and inserted one by one.
_SINGLY = 4
# Matches to rank at once; beyond, reading their ids costs more than narrowing them first.
_FEW = 1_000
# How many matches with equal score and time narrowing takes along; with more it is left out.
_SPARE = 30
# How many times the limit must match at least as well before the weaker matches are left out.
_ENOUGH = 4


def term_rows(rows: Iterable[tuple[str, str]], namespace_id: int) -> pa.Table:
    """Tokenise contents; needs no store, so that it can be done before the lock is taken.

    Args:
        rows: (memory id, content), each memory once.
        namespace_id: Whose memories they are.

    Returns:
        TERM_SCHEMA, one row a memory, with the key of its fingerprint; a content without any term
        has an empty list.

    Raises:
        ValueError: A memory occurs twice.
    """
    ids: list[str] = []
    keys: list[int] = []
    terms: list[str] = []
    offsets = [0]
    for memory_id, content in rows:
        ids.append(memory_id)
        keys.append(key_of(content))
        terms.extend(tokenize(content))
        offsets.append(len(terms))
    if len(set(ids)) != len(ids):
        message = "a memory has one content: an id occurs twice"
        raise ValueError(message)
    coded = pa.array(terms, pa.string()).dictionary_encode()
    hashes = pa.array(map(hash_term, coded.dictionary.to_pylist()), pa.int64())
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), hashes.take(coded.indices))
    owners = pa.repeat(pa.scalar(namespace_id, pa.int32()), len(ids))
    columns = [owners, pa.array(ids, pa.string()), pa.array(keys, pa.int64()), lists]
    return pa.table(columns, schema=TERM_SCHEMA)


def insert_terms(writer: StoreWriter, incoming: pa.Table) -> None:
    """Number the current texts of memories anew and insert their postings (TERM_SCHEMA).

    In the transaction that inserted the memories or changed their content, after that write.

    Raises:
        ConflictError: A memory does not exist.
    """
    insert = _insert_singly if incoming.num_rows <= _SINGLY else _insert_together
    numbered = insert(writer, incoming)
    if numbered != incoming.num_rows:
        message = f"terms of {incoming.num_rows} memories for {numbered} that exist"
        raise ConflictError(message, expected=incoming.num_rows, found=numbered)


def _insert_together(writer: StoreWriter, incoming: pa.Table) -> int:
    numbered = writer.insert(_SQL["number_texts"], incoming)
    writer.insert(_SQL["insert_terms"], incoming)
    return numbered


def _insert_singly(writer: StoreWriter, incoming: pa.Table) -> int:
    """Insert by key: a join would read the ids of all memories for a handful of texts."""
    numbered = 0
    for row in incoming.to_pylist():
        terms = row.pop("terms")
        if writer.execute(_SQL["number_text"], row) == 1:
            owner = {"namespace_id": row["namespace_id"], "terms": terms}
            writer.execute(_SQL["insert_terms_of_text"], owner)
            numbered += 1
    return numbered


def delete_terms(writer: StoreWriter, namespace_id: int) -> int:
    """Delete the postings of the memories in the temporary table `removed`; before those go."""
    return writer.execute(_SQL["delete_terms"], {"namespace_id": namespace_id})


def compact_terms(writer: StoreWriter) -> int:
    """Sort all postings anew and drop those that belong to no memory; give how many these were."""
    writer.run_script(_SQL["gather_terms"])
    held = writer.execute(_SQL["clear_terms"])
    kept = writer.execute(_SQL["refill_terms"])
    writer.run_script(_SQL["drop_gathered"])
    return held - kept


def index_missing(writer: StoreWriter) -> int:
    """Index the memories that never were, such as those of an older schema; give how many."""
    count = 0
    while rows := writer.rows(_SQL["read_unindexed"], {"limit": _BATCH}):
        for owner in {row[0] for row in rows}:
            mine = [(memory_id, content) for owned, memory_id, content in rows if owned == owner]
            insert_terms(writer, term_rows(mine, owner))
        count += len(rows)
    return count


def search_terms(  # noqa: PLR0913 - a query has this many parts
    reader: StoreReader,
    namespace_id: int,
    text: str | None,
    *,
    kinds: Sequence[str],
    statuses: Sequence[str],
    limit: int,
    live_at: datetime | None,
    decided_only: bool,
    profile: str = WORD_CJK_BIGRAM_V1,
) -> list[dict[str, Any]]:
    """Find the memories of a namespace that fit a text best.

    Filters come before the limit; order: score descending, updated_at descending, id ascending.

    Args:
        reader: An open handle; nothing is written.
        namespace_id: The only namespace that is read.
        text: None lists everything in the filter with score 0; a text without an alphanumeric
            character finds nothing.
        kinds: None of them means all.
        statuses: At least one.
        limit: The most hits to give.
        live_at: Memories that expire at or before this instant are left out.
        decided_only: Leave out memories without manual or verification evidence.
        profile: How texts are split into terms.

    Returns:
        Hits with id, revision, kind, status, content, updated_at, expires_at and score, a 32-bit
        float.

    Raises:
        ValueError: There is no such profile.
    """
    params: dict[str, object] = {
        "namespace_id": namespace_id,
        "kinds": list(kinds),
        "all_kinds": not kinds,
        "statuses": list(statuses),
        "live_at": live_at,
    }
    search = _Search(reader, params, limit, decided_only=decided_only)
    if text is None:
        return search.list_newest()
    terms = tokenize(text, profile)
    return search.find(terms, profile) if is_searchable(text) else []


@dataclass(frozen=True, slots=True)
class _Search:
    """One search: where, in which filter, how many hits."""

    reader: StoreReader
    params: Mapping[str, object]
    limit: int
    decided_only: bool

    @property
    def owner(self) -> dict[str, object]:
        return {"namespace_id": self.params["namespace_id"]}

    def list_newest(self) -> list[dict[str, Any]]:
        name = "list_newest_decided" if self.decided_only else "list_newest"
        hits = self.reader.records(_SQL[name], {**self.params, "limit": self.limit})
        return [{**hit, "score": 0.0} for hit in hits]

    def find(self, terms: frozenset[str], profile: str) -> list[dict[str, Any]]:
        if profile == WORD_CJK_BIGRAM_V1:
            hits = self._rank(_count_postings(self._find_postings(terms)))
            if all(hit["matched"] == len(terms & tokenize(hit["content"])) for hit in hits):
                return _score(hits, terms)
        return _score(self._rank(self._count_in_texts(terms, profile)), terms)

    def _find_postings(self, terms: Iterable[str]) -> pa.Array:
        hashes = {"hashes": [hash_term(term) for term in terms]}
        return self.reader.table(_SQL["find_postings"], self.owner | hashes)["text_number"]

    def _count_in_texts(self, terms: frozenset[str], profile: str) -> pa.Table:
        """Count matched terms by reading texts: those that the index says may match, or all."""
        sure = find_sure_terms(terms) if profile == WORD_V1 else None
        if sure is None:
            texts = self.reader.table(_SQL["read_texts"], self.owner)
        else:
            found = pa.table({"text_number": self._find_postings(sure).unique()})
            texts = self.reader.table(_SQL["read_found_texts"], self.owner, incoming=found)
        contents = texts["content"].to_pylist()
        matched = pa.array([len(terms & tokenize(text, profile)) for text in contents], pa.int32())
        matches = pa.table([texts["text_number"], matched], schema=_MATCH_SCHEMA)
        return matches.filter(pc.greater(matched, 0))

    def _rank(self, matches: pa.Table) -> list[dict[str, Any]]:
        """Give the hits among the matches: first of the best ones, of all if those are too few."""
        if self.decided_only:
            matches = self.reader.table(_SQL["keep_decided"], self.owner, incoming=matches)
        least = _find_least(matches["matched"], enough=_ENOUGH * self.limit)
        best = matches.filter(pc.greater_equal(matches["matched"], least))
        hits = self._read_hits(best)
        if len(hits) < self.limit and best.num_rows < matches.num_rows:
            hits = self._read_hits(matches)
        return hits

    def _read_hits(self, matches: pa.Table) -> list[dict[str, Any]]:
        if matches.num_rows > _FEW:
            matches = self._narrow(matches)
        params = {**self.params, "limit": self.limit}
        hits: list[dict[str, Any]] = self.reader.table(
            _SQL["rank_matches"], params, incoming=matches
        ).to_pylist()
        return hits

    def _narrow(self, matches: pa.Table) -> pa.Table:
        """Drop matches that cannot be hits; keep all where too many are equal at the limit."""
        size = self.limit + _SPARE
        params = {**self.params, "limit": size}
        best = self.reader.table(_SQL["narrow_matches"], params, incoming=matches)
        if best.num_rows == size:
            last, worst = best.slice(self.limit - 1, 1), best.slice(size - 1, 1)
            names = ["matched", "updated_at"]
            if last.select(names).equals(worst.select(names)):
                return matches
        return best.select(_MATCH_SCHEMA.names)


def _count_postings(numbers: pa.ChunkedArray) -> pa.Table:
    """Count how often each text number occurs; sorting beats a hash table here."""
    runs = pc.run_end_encode(numbers.combine_chunks().sort(), run_end_type=pa.int64())
    ends = runs.run_ends
    starts = pa.concat_arrays([pa.array([0], pa.int64()), ends]).slice(0, len(ends))
    matched = pc.subtract(ends, starts).cast(pa.int32())
    return pa.table([runs.values, matched], schema=_MATCH_SCHEMA)


def _find_least(matched: pa.ChunkedArray, *, enough: int) -> int:
    """Find the largest number of terms that at least `enough` texts match; 1 if there is none."""
    counts = {row["values"]: row["counts"] for row in pc.value_counts(matched).to_pylist()}
    order = sorted(counts, reverse=True)
    upto = accumulate(counts[terms] for terms in order)
    return next((terms for terms, texts in zip(order, upto, strict=True) if texts >= enough), 1)


def _score(hits: list[dict[str, Any]], terms: frozenset[str]) -> list[dict[str, Any]]:
    for hit in hits:
        hit["score"] = round_to_f32(hit.pop("matched") / len(terms))
    return hits
