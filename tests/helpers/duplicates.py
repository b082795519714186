"""Stores of texts for consolidation, tokenised simply, and the pairs that a plain look finds."""

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from helpers.rows import memory_table

from storage import Store, StoreWriter
from storage.candidates import FEWEST_TOKENS
from storage.duplicate_texts import KeyedValue, TokenisedText, index_missing_tokens
from storage.memories import insert_memories
from storage.terms import insert_terms, term_rows

PROFILE = "test.profile.v1"
_WORD = re.compile(r"\w+")


def tokenise(content: str) -> TokenisedText:
    """Tokenise by words; the further key is the first word."""
    words = _WORD.findall(content.casefold())
    keys = {"first": KeyedValue(_digest(words[0]), _digest(content))} if words else {}
    return TokenisedText(frozenset(words), _digest(" ".join(words)), _digest(content), keys)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def add_memories(writer: StoreWriter, namespace_id: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert memories whose texts have numbers, and no tokens yet."""
    memories = [{"namespace_id": namespace_id, **row} for row in rows]
    insert_memories(writer, memory_table(*memories))
    texts = [(str(row["id"]), str(row["content"])) for row in memories]
    insert_terms(writer, term_rows(texts, namespace_id))


def fill(store: Store, namespace_id: int, *rows: Mapping[str, Any]) -> int:
    """Insert memories with their tokens; give how many texts were tokenised."""
    with store.write() as writer:
        add_memories(writer, namespace_id, rows)
    return index_missing_tokens(store, namespace_id, tokenise, profile=PROFILE)


def pair_plainly(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[int, int]]:
    """Compare every memory with every later one: pairs of ids, and shared and all tokens."""
    found = {}
    tokens = [(row["id"], row["kind"], tokenise(row["content"]).tokens) for row in rows]
    for (one, kind, left), (other, other_kind, right) in combinations(tokens, 2):
        shared, union = len(left & right), len(left | right)
        is_long = min(len(left), len(right)) >= FEWEST_TOKENS
        if kind == other_kind and is_long and 50 * shared >= 43 * union:
            found[one, other] = (shared, union)
    return found


def make_texts(rng: random.Random, count: int) -> Iterator[str]:
    """Make texts of Zipf words; of every 20, one is another with one word more, one with one else.

    A third one has another's words in another order, and a fourth is a copy.
    """
    vocabulary = [f"w{int(8_000 ** (rank / 4_096))}" for rank in range(4_096)]
    made: list[list[str]] = []
    while len(made) < count:
        words = rng.choices(vocabulary, k=rng.randint(5, 25))
        turn = rng.randrange(20)
        if made and turn < 4:
            words = [*rng.choice(made)]
            _vary(words, turn, rng, rng.choice(vocabulary))
        made.append(words)
        yield " ".join(words)


def _vary(words: list[str], turn: int, rng: random.Random, word: str) -> None:
    if turn == 0:
        words.append(word)
    elif turn == 1:
        words[rng.randrange(len(words))] = word
    elif turn == 2:
        rng.shuffle(words)
