"""Faults that other stores really had, as cases of embedding: what is not sent, not stored."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.consolidate_runs import ChosenEmbedder, Keeper, say
from helpers.embedders import ScriptedEmbedder
from helpers.imports import counts, record, write_lines
from helpers.refreshes import World
from helpers.vectors import NAMESPACE

from storage import Store
from tasks.importing import import_file
from tasks.providers.bounds import ExecutionBounds
from tasks.refresh.settings import RefreshSettings

CUT = {"embedding_truncated": "true"}


def read_reasons(store: Store) -> list[tuple[str, str, int]]:
    """Count the rows that have no vector, by state and reason."""
    with store.read() as reader:
        return reader.rows(
            "SELECT state, reason, count(*) FROM embedding_attempts "
            "WHERE reason IS NOT NULL GROUP BY ALL ORDER BY ALL"
        )


@pytest.fixture
def keeper(store: Store, now: datetime) -> Keeper:
    return Keeper(store, now)


def test_c49_texts_and_vectors_that_say_nothing_are_counted_and_never_stored(
    keeper: Keeper,
) -> None:
    lines = [record("none", content=""), record("blank", content="   ")]
    path = write_lines(keeper.store.path.with_name("blank.jsonl"), *lines)
    report = import_file(keeper.store, path, namespace=NAMESPACE, clock=keeper.now)
    assert counts(report) == (0, 0, 0, 2)

    texts = ("a zero vector", "a vector of nan", "a sound vector")
    keeper.add(
        record("hidden", content="\u200b"),
        record("hidden-2", content="\u200b"),
        *(record(f"m{n}", content=text) for n, text in enumerate(texts)),
    )
    embedder = ScriptedEmbedder(
        vectors={texts[0]: (0.0, 0.0), texts[1]: (np.nan, 1.0), texts[2]: (1.0, 0.0)}
    )
    result = keeper.refresh(embedder)
    assert (result.end.outcome, result.end.applied, result.end.failed) == ("partial", 1, 4)
    assert result.end.figures["rows_failed"] == 4
    assert read_reasons(keeper.store) == [
        ("failed", "non_finite", 1),
        ("failed", "zero_vector", 1),
        ("permanent", "empty_text", 2),
    ]
    assert not any("\u200b" in call for call in embedder.calls)
    told = keeper.report(keeper.plan({"semantic_mode": "merge"}))
    assert not [one for one in told.clusters if {"hidden", "hidden-2"} & set(one)]


def spell(number: int) -> str:
    """Give a word for a number, without a digit."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def make_long_texts() -> list[str]:
    """Make two texts of 5,000 words of which the first 600 are the same."""
    head = [f"same{spell(n)}" for n in range(600)]
    return [
        " ".join([*head, *(f"{side}{spell(n)}" for n in range(4_400))])
        for side in ("cedar", "linden")
    ]


def test_c50_long_texts_are_sent_whole_and_never_merged(keeper: Keeper) -> None:
    texts = make_long_texts()
    seen: list[str] = []
    keeper.add(*say(*texts, kind="semantic", metadata=CUT))

    def choose(text: str) -> tuple[float, float]:
        seen.append(text)
        return (1.0, 0.0)

    assert keeper.refresh(ChosenEmbedder(choose)).end.applied == 2
    assert sorted(seen) == sorted(texts)
    told = keeper.report(keeper.plan({"semantic_mode": "merge"}))
    assert (told.clusters, told.similar) == ([], [["m1", "m2", ["truncated"]]])
    assert keeper.consolidate({"semantic_mode": "merge"}).end.outcome == "unchanged"
    assert set(keeper.list_statuses().values()) == {"active"}


def test_c50_text_that_is_too_long_is_a_counted_failure(tmp_path: Path) -> None:
    """A store takes no text that the default bounds refuse, so the bounds are smaller here."""
    (long, _) = make_long_texts()
    world = World(tmp_path / "store", {}, RefreshSettings())
    world.bounds = ExecutionBounds(max_input_text_bytes=20_000)
    adds = [{"op": "add", "id": name, "text": text} for name, text in (("a", long), ("b", "short"))]
    world.do_tx(adds)
    ended = world.do_run()
    assert ended["state"] == "completed_with_failures"
    assert (ended["counts"].published, ended["counts"].permanent) == (1, 1)
    assert ended["counters"]["provider_inputs"] == 1
    assert read_reasons(world.store) == [("permanent", "text_too_long", 1)]


@pytest.mark.parametrize(
    ("is_cut", "clusters"),
    [pytest.param(True, [], id="C50-cut"), pytest.param(False, [["m1", "m2"]], id="C50-whole")],
)
def test_c50_vector_of_cut_text_supports_no_merge(
    keeper: Keeper, is_cut: bool, clusters: list[list[str]]
) -> None:
    said: dict[str, Any] = {"metadata": CUT} if is_cut else {}
    texts = (
        "the nightly ledger export is written by the billing team",
        "billing people produce that export of ledgers each night",
    )
    keeper.add(*say(*texts, kind="semantic", **said))
    keeper.refresh(ChosenEmbedder())
    told = keeper.report(keeper.plan({"semantic_mode": "merge"}))
    assert told.clusters == clusters
