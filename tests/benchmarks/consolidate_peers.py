"""The peers of consolidation's searches: each finds the same pairs in its best one-process form.

Exact groups: all start from stored rows on disk, that is from a file with the fingerprint keys that
the store has. Near pairs: peers get the texts in memory, without exact copies, and tokenise them;
what MinHash proposes is verified by the exact test, so that a peer may miss pairs, but invent none.
"""

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from benchmarks.consolidate_data import KEYS, PLANNED
from benchmarks.data import NOW_US, Seed
from benchmarks.work import Read, Work

from storage import open_store
from storage.candidates import FEWEST_TOKENS
from storage.queries import read_statements
from tasks.rules.normal_form import normal_form
from tasks.rules.tokens import find_tokens, split_runs

_SQL = read_statements("benchmarks", "consolidate")
# 16 bands of 8 rows propose 99.7 % of the pairs that just reach the threshold.
_THRESHOLD, _HASHES, _BANDS = 0.86, 128, 16
_SEED = 1
_BATCH = 10_000
Pairs = Iterable[tuple[str, str]]


class Tokens(NamedTuple):
    """A text as peers compare it."""

    memory_id: str
    kind: str
    tokens: frozenset[str]


@contextmanager
def twins_python(seed: Seed) -> Iterator[Work]:
    """Fetch all keys from the file and group them in one pass."""

    def run() -> Read:
        first: dict[int, tuple[int, str, int]] = {}
        later: list[tuple[int, str, int]] = []
        with _open_keys(seed.directory) as connection:
            for row in connection.execute(_SQL["sqlite_keys"], (NOW_US,)):
                known = first.setdefault(row[2], row)
                if row < known:
                    first[row[2]] = row
                    later.append(known)
                elif row is not known:
                    later.append(row)
        found = [(first[key][1], memory_id) for _, memory_id, key in later]
        return lambda: found

    yield run


@contextmanager
def twins_sqlite(seed: Seed) -> Iterator[Work]:
    """Group by one statement over an index that covers it."""

    def run() -> Read:
        with _open_keys(seed.directory) as connection:
            found = connection.execute(_SQL["sqlite_twins"], (NOW_US,)).fetchall()
        return lambda: found

    yield run


@contextmanager
def _open_keys(directory: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(directory / KEYS)) as connection:
        yield connection


@contextmanager
def near_naive(seed: Seed) -> Iterator[Work]:
    """Compare every text with every longer one that is not too long: an exact join."""
    texts = _read_texts(seed.directory)
    order = {memory_id: place for place, (memory_id, *_) in enumerate(texts)}

    def run() -> Read:
        found = list(_join(sorted(_tokenise(texts), key=lambda one: len(one.tokens))))
        return lambda: (pair if order[pair[0]] < order[pair[1]] else pair[::-1] for pair in found)

    yield run


def _join(texts: list[Tokens]) -> Pairs:
    sizes = [len(one.tokens) for one in texts]
    for place, (memory_id, kind, tokens) in enumerate(texts):
        size = sizes[place]
        end = bisect_right(sizes, 50 * size // 43)
        for other_id, other_kind, others in texts[place + 1 : end]:
            # The call of a function would take as long as the comparison.
            if 93 * len(tokens & others) >= 43 * (size + len(others)) and kind == other_kind:
                yield memory_id, other_id


@contextmanager
def near_datasketch(seed: Seed) -> Iterator[Work]:
    """Ask an LSH index of MinHash signatures for partners before each text goes into it."""
    peer: Any = import_module("datasketch")
    texts = _read_texts(seed.directory)

    def run() -> Read:
        rows = _BANDS, _HASHES // _BANDS
        index = peer.MinHashLSH(threshold=_THRESHOLD, num_perm=_HASHES, params=rows)
        known = list(_tokenise(texts))
        found = []
        for place, signature in enumerate(_sign(peer, known)):
            one = known[place]
            others = (known[other] for other in index.query(signature))
            found += [(other.memory_id, one.memory_id) for other in others if _is_near(other, one)]
            index.insert(place, signature, check_duplication=False)
        return lambda: found

    yield run


def _sign(peer: Any, texts: list[Tokens]) -> Iterator[Any]:  # noqa: ANN401 - ships no types
    """Sign texts in bulk: all signatures share their permutations."""
    for start in range(0, len(texts), _BATCH):
        batch = [[word.encode() for word in one.tokens] for one in texts[start : start + _BATCH]]
        yield from peer.MinHash.bulk(batch, num_perm=_HASHES, seed=_SEED, hashfunc=crc32)


@contextmanager
def near_rensa(seed: Seed) -> Iterator[Work]:
    """Put all signatures into an LSH index at once, and ask for those that share a band."""
    peer: Any = import_module("rensa")
    texts = _read_texts(seed.directory)

    def run() -> Read:
        known = list(_tokenise(texts))
        index = peer.RMinHashLSH(_THRESHOLD, _HASHES, _BANDS)
        matrix = peer.RMinHash.digest_matrix_from_token_sets(
            [one.tokens for one in known], _HASHES, _SEED
        )
        flags = index.insert_matrix_and_query_duplicate_flags(matrix)
        places = [place for place, is_flagged in enumerate(flags) if is_flagged]
        asking = peer.RMinHash.from_token_sets([known[at].tokens for at in places], _HASHES, _SEED)
        found = [
            (known[other].memory_id, known[place].memory_id)
            for place, others in zip(places, index.query_all(asking), strict=True)
            for other in others
            if other < place and _is_near(known[other], known[place])
        ]
        return lambda: found

    yield run


def _read_texts(directory: Path) -> list[tuple[str, str, str]]:
    """Read memory id, kind and content of the first memory with each text, the oldest first."""
    with open_store(directory / PLANNED).read() as reader:
        rows = reader.rows(_SQL["read_texts"])
    first: dict[tuple[str, str], tuple[str, str, str]] = {}
    for row in rows:
        first.setdefault(row[1:], row)
    return list(first.values())


def _tokenise(texts: Iterable[tuple[str, str, str]]) -> Iterator[Tokens]:
    for memory_id, kind, content in texts:
        tokens = find_tokens(split_runs(normal_form(content)))
        if len(tokens) >= FEWEST_TOKENS:
            yield Tokens(memory_id, kind, tokens)


def _is_near(one: Tokens, other: Tokens) -> bool:
    """Tell whether two texts reach a Jaccard of 43/50, in integers (spec/consolidate.md R32)."""
    shared = len(one.tokens & other.tokens)
    is_alike = 93 * shared >= 43 * (len(one.tokens) + len(other.tokens))
    return is_alike and one.kind == other.kind
