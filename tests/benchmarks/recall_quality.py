"""Measure how well recall finds what answers a question: by words, by meaning, and by both.

    python -m tests.benchmarks.recall_quality locomo10.json --embedder use --items observations

Every conversation of LoCoMo is a namespace of one store, its turns or its observations are the
memories, and each question is recalled through the product's own calls with its own policies. A
BM25 for English over the same texts, which is no part of the product, is what the target is stated
against. recall@5 of a question is the share of its evidence that the first five hits come from;
questions that no memory has evidence for are left out. The file is not shipped; without a path this
says how to get it.
"""

import argparse
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Literal

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.bm25 import Ranking  # noqa: E402 - found through the two paths above
from benchmarks.locomo import (  # noqa: E402
    HOW_TO_GET,
    Conversation,
    Item,
    Question,
    read_locomo,
)

from storage import Store, create_store  # noqa: E402
from storage.admission import Candidate, admit_records  # noqa: E402
from storage.digests import digest_values  # noqa: E402
from storage.models import MemoryRecord, Namespace  # noqa: E402
from storage.namespaces import ensure_namespace  # noqa: E402
from tasks.fusion import CONVEX_45, RRF_K60  # noqa: E402
from tasks.inline import run_job  # noqa: E402
from tasks.policies import RefreshPolicy  # noqa: E402
from tasks.providers.embedder import Embedder  # noqa: E402
from tasks.providers.registry import load_embedder  # noqa: E402
from tasks.recall import RecallPolicy, SemanticSource, recall_memories  # noqa: E402
from tasks.requests import EmbedderChoice, JobRequest  # noqa: E402
from tasks.semantic import plan_search  # noqa: E402

BM25, WORDS, MEANING, RRF, CONVEX = "BM25", "words", "meaning", "hybrid RRF", "hybrid convex"
# The target is stated for observations.
TARGET = 1.07
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_HITS = 5
_USAGE = 2
ItemKind = Literal["observations", "turns"]
Ask = Callable[[Namespace, str], Sequence[str]]


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description="Measure the quality of recall on LoCoMo.")
    parser.add_argument("path", type=Path, nargs="?", help="locomo10.json")
    parser.add_argument("--embedder", default="use", help="use, hash or another one's name")
    parser.add_argument("--items", choices=["observations", "turns"], default="observations")
    parser.add_argument("--every", type=int, default=1, help="ask every Nth question only")
    least = RecallPolicy().min_lexical_score
    parser.add_argument(
        "--min-lexical-score", type=float, default=least, help="as in the recall policy"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Measure and print; give the exit code."""
    options = parse_arguments(arguments)
    if options.path is None:
        sys.stderr.write(f"{HOW_TO_GET}\n")
        return _USAGE
    try:
        conversations = read_locomo(options.path)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n{HOW_TO_GET}\n")
        return _USAGE
    policy = RecallPolicy(min_lexical_score=options.min_lexical_score)
    if options.every > 1:
        conversations = [
            replace(one, questions=one.questions[:: options.every]) for one in conversations
        ]
    embedder = load_embedder(options.embedder)
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as directory:
        store = fill_store(Path(directory) / "store", conversations, options.items)
        refresh_store(store, options.embedder, embedder)
        found = measure_quality(store, conversations, options.items, embedder, policy)
    title = f"recall@{_HITS} of LoCoMo {options.items}, embedder {options.embedder}"
    Console().print(tabulate(title, found))
    return 0


def fill_store(path: Path, conversations: Iterable[Conversation], kind: ItemKind) -> Store:
    """Make a store with a namespace for each conversation; a memory's id is its item's place."""
    store = create_store(path, clock=NOW)[0]
    for conversation in conversations:
        candidates = [
            _make_candidate(place, item)
            for place, item in enumerate(list_items(conversation, kind))
        ]
        with store.write() as writer:
            owner = ensure_namespace(writer, _name(conversation)).namespace_id
            admit_records(writer, owner, candidates, clock=NOW)
    return store


def list_items(conversation: Conversation, kind: ItemKind) -> Sequence[Item]:
    """List what is remembered of a conversation."""
    items = conversation.observations if kind == "observations" else conversation.turns
    return [item for item in items if item.text.strip()]


def _name(conversation: Conversation) -> Namespace:
    return Namespace(tenant="locomo", principal="benchmark", scope=conversation.name)


def _make_candidate(place: int, item: Item) -> Candidate:
    values = {"id": str(place), "kind": "semantic", "content": item.text, "created_at": NOW}
    return Candidate(place, MemoryRecord.model_validate(values), digest_values(str(place)))


def refresh_store(store: Store, name: str, embedder: Embedder) -> None:
    """Publish the index of every namespace.

    Raises:
        RuntimeError: A namespace was not wholly embedded.
    """
    request = JobRequest(
        store=store.path,
        job="refresh",
        policy=RefreshPolicy(),
        now=NOW,
        clock=lambda: datetime.now(UTC),
        new_run_id=lambda: uuid.uuid4().hex,
        mode="apply",
        embedder=EmbedderChoice(name, lambda: embedder),
    )
    for result in run_job(request):
        if result.end.outcome not in {"applied", "unchanged"}:
            raise RuntimeError(f"refresh of {result.namespace.scope}: {result.error}")


def measure_quality(
    store: Store,
    conversations: Sequence[Conversation],
    kind: ItemKind,
    embedder: Embedder,
    policy: RecallPolicy,
) -> dict[str, list[float]]:
    """Give the recall of every question by each way of asking."""
    ways = list_ways(store, embedder, policy)
    found: dict[str, list[float]] = {way: [] for way in (BM25, *ways)}
    with store.session():
        for conversation in conversations:
            items = list_items(conversation, kind)
            ranking = Ranking([item.text for item in items])
            for question in list_covered(conversation.questions, items):
                best = ranking.rank(question.text, _HITS)
                found[BM25].append(score(question, [items[place] for place in best]))
                for way, ask in ways.items():
                    ids = ask(_name(conversation), question.text)[:_HITS]
                    hits = [items[int(memory_id)] for memory_id in ids]
                    found[way].append(score(question, hits))
    return found


def list_covered(questions: Iterable[Question], items: Sequence[Item]) -> Iterator[Question]:
    """List the questions that some memory has evidence for."""
    covered = frozenset().union(*(item.sources for item in items))
    return (one for one in questions if one.evidence & covered)


def score(question: Question, hits: Iterable[Item]) -> float:
    """Give the share of a question's evidence that hits come from."""
    told = frozenset().union(*(item.sources for item in hits))
    return len(question.evidence & told) / len(question.evidence)


def list_ways(store: Store, embedder: Embedder, policy: RecallPolicy) -> Mapping[str, Ask]:
    """List the ways of asking: each gives ids, best first."""

    def by_recall(fusion: str | None) -> Ask:
        source = SemanticSource(load=lambda: embedder, fusion=fusion) if fusion else None

        def ask(space: Namespace, text: str) -> Sequence[str]:
            found = recall_memories(store, space, text, policy=policy, now=NOW, source=source)
            if found.semantic == "dropped":
                raise RuntimeError(found.warning)
            return [hit.memory_id for hit in found.hits]

        return ask

    def by_meaning(space: Namespace, text: str) -> Sequence[str]:
        with store.read() as reader:
            search = plan_search(store, reader, space, SemanticSource(load=lambda: embedder))
        found = search.find(text, decided_only=False, now=NOW) if search else None
        return [hit.memory_id for hit in found[1]] if found else []

    return {
        WORDS: by_recall(None),
        MEANING: by_meaning,
        RRF: by_recall(RRF_K60),
        CONVEX: by_recall(CONVEX_45),
    }


def tabulate(title: str, found: Mapping[str, Sequence[float]]) -> Table:
    """Make the table: recall by each way, and against BM25."""
    table = Table(title=title, title_justify="left")
    table.add_column("by", no_wrap=True)
    for name in ("questions", f"recall@{_HITS}", "÷ BM25", "target"):
        table.add_column(name, justify="right")
    least = fmean(found[BM25]) if found[BM25] else 0.0
    for way, shares in found.items():
        share = fmean(shares) if shares else 0.0
        ratio = f"{share / least:.3f}" if least else "-"
        target = f"≥ {TARGET}" if way in {RRF, CONVEX} else ""
        table.add_row(way, f"{len(shares):,}", f"{share:.3f}", ratio, target)
    return table


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
