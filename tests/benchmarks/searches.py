"""The queries of the benchmark, and their answers by reading every text.

The words of a query lie in one band of frequency: what a query costs depends on how many memories
have any of its words, which grows with the store and differs by a factor of hundreds between bands.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from random import Random

import pyarrow as pa
from benchmarks.data import make_memories
from benchmarks.measure import digest_pairs

from storage.lexical import coverage, tokenize

LIMIT = 20
# Of which ranks of frequency the words of a query are: first rank, last rank, how many words.
BANDS = {
    "rare words": ((500, 2_000, 3),),
    "medium words": ((50, 200, 3),),
    "common words": ((0, 20, 3),),
    "mixed words": ((0, 20, 1), (50, 200, 2), (500, 2_000, 2)),
}
_QUERIES = 10
_SAMPLED_ROWS = 10_000
_CHUNK_ROWS = 10_000
_Rank = tuple[float, int, str]


@dataclass(frozen=True, slots=True)
class Query:
    """One query; of each band one is also answered by reading every text, measured."""

    band: str
    number: int
    text: str

    @property
    def case(self) -> str:
        """Give the name of the query: its band and its number there."""
        return f"{self.band}/{self.number}"

    @property
    def is_scanned(self) -> bool:
        """Tell whether the slow way is measured, too."""
        return self.number == 0


@dataclass(slots=True)
class Answer:
    """The hits of a query, best first, and how many memories match at all."""

    best: list[_Rank] = field(default_factory=list)
    matching: int = 0

    @property
    def hits(self) -> list[tuple[str, float]]:
        """Give ids and scores."""
        return [(memory_id, -score) for score, _, memory_id in self.best]


def choose_queries() -> list[Query]:
    """Choose the queries, the same ones for every size of the store."""
    counts: Counter[str] = Counter()
    for text in make_memories(_SAMPLED_ROWS)["content"].to_pylist():
        counts.update(tokenize(text))
    ranked = sorted(counts, key=lambda term: (-counts[term], term))
    return [
        Query(band, number, " ".join(_draw(ranked, parts, Random(f"{band} {number}"))))  # noqa: S311
        for band, parts in BANDS.items()
        for number in range(_QUERIES)
    ]


def _draw(
    ranked: Sequence[str], parts: Iterable[tuple[int, int, int]], chance: Random
) -> list[str]:
    return [word for first, last, size in parts for word in chance.sample(ranked[first:last], size)]


def find_in_texts(texts: pa.Table, queries: Sequence[Query]) -> list[Answer]:
    """Answer queries by tokenising every text once: best score, newest change, smallest id."""
    asked = [tokenize(query.text) for query in queries]
    answers = [Answer() for _ in queries]
    for batch in texts.to_batches(max_chunksize=_CHUNK_ROWS):
        columns = (batch.column(name).to_pylist() for name in ("id", "updated_us", "content"))
        rows = [(id_, -at, tokenize(text)) for id_, at, text in zip(*columns, strict=True)]
        for terms, answer in zip(asked, answers, strict=True):
            found = [
                (-coverage(terms, held), at, id_)
                for id_, at, held in rows
                if not terms.isdisjoint(held)
            ]
            answer.matching += len(found)
            answer.best = nsmallest(LIMIT, answer.best + found)
    return answers


def digest_hits(hits: Iterable[tuple[str, float]]) -> str:
    """Give one text for hits, their scores and their order."""
    return str(digest_pairs((f"{place} {score!r}", id_) for place, (id_, score) in enumerate(hits)))
