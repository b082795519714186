"""Search over the term index gives what reading every text would give, on real stores."""

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from helpers.rows import NOW, memory_table

from storage import Store, StoreReader, StoreWriter, terms
from storage.errors import ConflictError
from storage.lexical import WORD_CJK_BIGRAM_V1, WORD_V1, coverage, hash_term, tokenize
from storage.memories import EVIDENCE_SCHEMA, insert_evidence, insert_memories
from storage.models import Kind, Namespace, Status, round_to_f32
from storage.namespaces import ensure_namespace
from storage.removal import remove_memories
from storage.terms import compact_terms, index_missing, insert_terms, search_terms, term_rows

Row = dict[str, Any]
Hits = list[tuple[str, float]]

_WORDS = ["rust", "port", "beta", "deploy", "a_b", "Straße", "हिन्दी", "数据库", "冷库・盘点", "数"]
_KINDS = [kind.value for kind in Kind]
_STATUSES = [status.value for status in Status]
_COUNT_POSTINGS = "SELECT count(*) FROM memory_terms"
_READ_POSTINGS = "SELECT namespace_id, term_hash, text_number FROM memory_terms"
_CHANGE_CONTENT = """
UPDATE memories SET content = $content, revision = revision + 1
WHERE namespace_id = $owner AND id = $name
"""
_FORGET_NUMBERS = "UPDATE memories SET text_number = NULL"


@pytest.fixture
def owner(namespace_id: int) -> int:
    """Give the number of the namespace that is searched."""
    return namespace_id


def add(writer: StoreWriter, owner: int, *rows: Mapping[str, Any]) -> None:
    """Insert memories with their terms; `decided` gives one a manual evidence since revision 1."""
    memories = [
        {"namespace_id": owner, **{name: row[name] for name in row if name != "decided"}}
        for row in rows
    ]
    proofs = [
        {
            "namespace_id": owner,
            "memory_id": row["id"],
            "uri": f"e://{row['id']}",
            "digest": "d",
            "kind": row["decided"],
            "occurred_at": NOW,
            "since_revision": 1,
        }
        for row in rows
        if row.get("decided")
    ]
    insert_memories(writer, memory_table(*memories))
    insert_evidence(writer, pa.Table.from_pylist(proofs, schema=EVIDENCE_SCHEMA))
    insert_terms(writer, term_rows([(row["id"], row["content"]) for row in rows], owner))


def add_texts(store: Store, owner: int, **contents: str) -> None:
    """Insert active memories in a transaction of their own."""
    with store.write() as writer:
        add(writer, owner, *({"id": name, "content": text} for name, text in contents.items()))


def ask(reader: StoreReader, owner: int, text: str | None, **parts: object) -> Hits:
    """Search with the defaults of a query; give ids and scores."""
    asked: Row = {
        "kinds": [],
        "statuses": ["active"],
        "limit": 20,
        "live_at": None,
        "decided_only": False,
        **parts,
    }
    return [(hit["id"], hit["score"]) for hit in search_terms(reader, owner, text, **asked)]


def find(store: Store, owner: int, text: str | None, **parts: object) -> Hits:
    """Search in a transaction of its own."""
    with store.read() as reader:
        return ask(reader, owner, text, **parts)


def scan(rows: Iterable[Row], text: str | None, parts: Row) -> Hits:
    """Answer a query by reading every row."""
    query = None if text is None else tokenize(text, parts["profile"])
    found = []
    for row in rows:
        expires_at, live_at = row["expires_at"], parts["live_at"]
        if (
            row["status"] not in parts["statuses"]
            or (parts["kinds"] and row["kind"] not in parts["kinds"])
            or (live_at and expires_at and expires_at <= live_at)
            or (parts["decided_only"] and row["decided"] not in {"manual", "verification"})
        ):
            continue
        score = coverage(query, tokenize(row["content"], parts["profile"])) if query else 0.0
        if score or query is None:
            found.append((-score, NOW - row["updated_at"], row["id"], score))
    return [(name, score) for _, _, name, score in sorted(found)][: parts["limit"]]


def make_rows(rng: random.Random, count: int) -> list[Row]:
    """Make memories with few words, statuses, kinds and times, so that much is equal."""
    return [
        {
            "id": f"{rng.choice('ZzéЖ数')}{number}",
            "content": " ".join(rng.choices(_WORDS, k=rng.randint(1, 6))),
            "status": rng.choice(_STATUSES[:3]),
            "kind": rng.choice(_KINDS),
            "updated_at": NOW - timedelta(days=rng.randint(0, 5)),
            "created_at": NOW - timedelta(days=9),
            "expires_at": NOW + timedelta(days=rng.randint(-2, 2)) if rng.random() < 0.3 else None,
            "decided": rng.choice([None, "manual", "verification", "session_turn"]),
        }
        for number in range(count)
    ]


def make_query(rng: random.Random) -> tuple[str | None, Row]:
    """Make a query and its filter."""
    text = None if rng.random() < 0.1 else " ".join(rng.choices(_WORDS, k=rng.randint(1, 4)))
    return text, {
        "kinds": rng.sample(_KINDS, rng.randint(0, 2)),
        "statuses": rng.sample(_STATUSES[:3], rng.randint(1, 3)),
        "limit": rng.choice([1, 3, 20, 100]),
        "live_at": rng.choice([None, NOW]),
        "decided_only": rng.random() < 0.3,
        "profile": rng.choice([WORD_V1, WORD_CJK_BIGRAM_V1]),
    }


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bits", [62, 2], ids=["", "with-collisions"])
def test_search_equals_a_full_scan(
    seed: int, bits: int, store: Store, owner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "hash_term", lambda term: hash_term(term) % 2**bits)
    monkeypatch.setattr(terms, "_FEW", 40)
    monkeypatch.setattr(terms, "_SPARE", 10)
    rng = random.Random(seed)  # noqa: S311 - test data
    rows = make_rows(rng, 300)
    with store.session():
        with store.write() as writer:
            other = ensure_namespace(writer, Namespace(tenant="t", principal="p", scope="s"))
            for part in (rows[:250], rows[250:253], rows[253:]):
                add(writer, owner, *part)
            add(writer, other.namespace_id, *({**row, "status": "active"} for row in rows[:50]))
        with store.read() as reader:
            for _ in range(60):
                text, parts = make_query(rng)
                assert ask(reader, owner, text, **parts) == scan(rows, text, parts), (text, parts)


def number_rows(count: int, **fields: object) -> list[Row]:
    """Make memories that all have the word `common`, the newest first in order of ids."""
    return [
        {
            "id": f"m{number:05}",
            "content": f"common word{number % 7}",
            "created_at": NOW - timedelta(minutes=number),
            **fields,
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("fields", [{}, {"created_at": NOW}], ids=["distinct-times", "one-time"])
def test_many_equal_matches_are_cut_in_order(fields: Row, store: Store, owner: int) -> None:
    with store.session():
        with store.write() as writer:
            add(writer, owner, *reversed(number_rows(2_000, **fields)))
        found = find(store, owner, "common", limit=100)
    assert found == [(f"m{number:05}", 1.0) for number in range(100)]


def test_better_matches_that_are_filtered_make_room_for_weaker_ones(
    store: Store, owner: int
) -> None:
    rows = number_rows(1_500)
    best = [{**row, "id": f"x{row['id']}", "content": "common rare"} for row in rows[:200]]
    with store.session():
        with store.write() as writer:
            add(writer, owner, *rows, *({**row, "status": "tombstoned"} for row in best))
        assert find(store, owner, "common rare", limit=2) == [("m00000", 0.5), ("m00001", 0.5)]


def test_filters_come_before_the_limit(store: Store, owner: int) -> None:
    expired = [{**row, "expires_at": NOW} for row in number_rows(100)]
    live = [{"id": f"l{number}", "content": "common only"} for number in range(5)]
    with store.write() as writer:
        add(writer, owner, *expired, *live)
    found = find(store, owner, "common text", limit=5, live_at=NOW)
    assert found == [(f"l{number}", 0.5) for number in range(5)]


def test_postings_of_an_earlier_content_match_nothing(store: Store, owner: int) -> None:
    add_texts(store, owner, a="alpha shared", b="beta")
    with store.write() as writer:
        writer.execute(_CHANGE_CONTENT, {"owner": owner, "name": "a", "content": "gamma shared"})
        insert_terms(writer, term_rows([("a", "gamma shared")], owner))
        assert writer.rows(_COUNT_POSTINGS) == [(5,)]
    assert find(store, owner, "alpha") == []
    assert find(store, owner, "alpha shared gamma") == [("a", round_to_f32(2 / 3))]
    with store.write() as writer:
        assert compact_terms(writer) == 2
    assert find(store, owner, "gamma") == [("a", 1.0)]


def test_compaction_sorts_and_changes_no_answer(store: Store, owner: int) -> None:
    for name in "abc":
        add_texts(store, owner, **{name: f"{name} one two"})
    before = find(store, owner, "two a")
    with store.write() as writer:
        assert compact_terms(writer) == 0
        postings = writer.rows(_READ_POSTINGS)
    assert postings == sorted(postings)
    assert find(store, owner, "two a") == before == [("a", 1.0), ("b", 0.5), ("c", 0.5)]


def test_removed_memories_leave_no_postings(store: Store, owner: int) -> None:
    add_texts(store, owner, a="alpha beta", b="beta gamma delta")
    with store.write() as writer:
        assert remove_memories(writer, owner, ["b"], now=NOW) == 1
        assert writer.rows(_COUNT_POSTINGS) == [(2,)]
    assert find(store, owner, "beta") == [("a", 1.0)]


def test_removal_leaves_another_namespace_alone(store: Store, owner: int) -> None:
    add_texts(store, owner, a="alpha")
    with store.write() as writer:
        other = ensure_namespace(writer, Namespace(tenant="t", principal="p", scope="s"))
        add(writer, other.namespace_id, {"id": "a", "content": "alpha"})
        remove_memories(writer, owner, ["a"], now=NOW)
    assert find(store, owner, "alpha") == []
    assert find(store, other.namespace_id, "alpha") == [("a", 1.0)]


def test_memories_of_an_older_schema_are_indexed_once(store: Store, owner: int) -> None:
    rows = [{"namespace_id": owner, "id": name, "content": f"{name} word"} for name in "abc"]
    with store.write() as writer:
        insert_memories(writer, memory_table(*rows))
        assert ask(writer, owner, "word") == []
        assert index_missing(writer) == 3
        assert index_missing(writer) == 0
    assert find(store, owner, "b word") == [("b", 1.0), ("a", 0.5), ("c", 0.5)]


def test_a_text_without_terms_is_indexed_and_never_found(store: Store, owner: int) -> None:
    add_texts(store, owner, a="!!! ...", b="・")
    with store.write() as writer:
        assert index_missing(writer) == 0
    assert find(store, owner, "!!!") == find(store, owner, "・") == []
    assert find(store, owner, None) == [("a", 0.0), ("b", 0.0)]


@pytest.mark.parametrize("count", [1, 9], ids=["singly", "together"])
def test_terms_of_a_missing_memory_are_refused(count: int, store: Store, owner: int) -> None:
    rows = term_rows([(f"m{number}", "word") for number in range(count)], owner)
    with pytest.raises(ConflictError, match="that exist"), store.write() as writer:
        insert_terms(writer, rows)
    with store.read() as reader:
        assert reader.rows(_COUNT_POSTINGS) == [(0,)]


def test_one_memory_with_two_contents_is_refused() -> None:
    with pytest.raises(ValueError, match="an id occurs twice"):
        term_rows([("a", "one"), ("a", "two")], 1)


def test_one_by_one_gives_the_postings_of_all_at_once(store: Store, owner: int) -> None:
    texts = {f"m{number}": f"common w{number % 3} 数据库" for number in range(8)}
    add_texts(store, owner, **texts)
    with store.write() as writer:
        together = term_lists(writer.rows(_READ_POSTINGS))
        writer.execute(_FORGET_NUMBERS)
        assert compact_terms(writer) == 8 * 5
        for name, text in texts.items():
            insert_terms(writer, term_rows([(name, text)], owner))
        assert term_lists(writer.rows(_READ_POSTINGS)) == together


def term_lists(postings: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """Give the sorted hashes of each text, in order of text numbers."""
    lists: dict[int, list[int]] = {}
    for _, term_hash, number in sorted(postings, key=lambda row: (row[2], row[1])):
        lists.setdefault(number, []).append(term_hash)
    return [lists[number] for number in sorted(lists)]


@pytest.mark.parametrize(
    "text",
    ["'; DROP TABLE memories; --", '" OR 1=1', "$hashes {x: 1}", "a\\' %_ *", "x\0y", "' 数' --"],
)
def test_hostile_text_stays_a_value(text: str, store: Store, owner: int) -> None:
    add_texts(store, owner, a="plain words", b=text.replace("\0", " "))
    for profile in (WORD_V1, WORD_CJK_BIGRAM_V1):
        assert find(store, owner, text, profile=profile) == [("b", 1.0)]
    assert len(find(store, owner, None, kinds=[text.replace("\0", " ")])) == 0


def test_a_query_of_ten_thousand_terms_is_answered(store: Store, owner: int) -> None:
    add_texts(store, owner, a="w17 w9999", b="none")
    found = find(store, owner, " ".join(f"w{number}" for number in range(10_000)))
    assert found == [("a", round_to_f32(2 / 10_000))]


def test_a_stale_index_that_shows_is_not_trusted(store: Store, owner: int) -> None:
    add_texts(store, owner, a="alpha beta", b="alpha", c="zeta")
    with store.write() as writer:
        for name in "ac":
            change = {"owner": owner, "name": name, "content": "gamma"}
            writer.execute(_CHANGE_CONTENT, change)
    third = round_to_f32(1 / 3)
    assert find(store, owner, "alpha beta gamma") == [("a", third), ("b", third), ("c", third)]


def test_a_hit_carries_what_is_shown(store: Store, owner: int) -> None:
    add_texts(store, owner, a="alpha")
    with store.read() as reader:
        (hit,) = search_terms(
            reader,
            owner,
            "alpha beta",
            kinds=["episodic"],
            statuses=["active"],
            limit=1,
            live_at=NOW,
            decided_only=False,
        )
    assert hit == {
        "id": "a",
        "revision": 1,
        "kind": "episodic",
        "status": "active",
        "content": "alpha",
        "updated_at": NOW - timedelta(days=1),
        "expires_at": None,
        "score": 0.5,
    }
