"""The verb `recall`: what it prints with an index, without one, and when the index is left out."""

from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.indexes import publish

from storage import open_store
from storage.models import DEFAULT_NAMESPACE
from tasks.providers.hashing import HashingEmbedder
from tasks.semantic import INVALID

TEXTS = {
    "window": "deploys happen in the tuesday window",
    "windows": "deploying on tuesdays in our windows",
    "lunch": "lunch is at noon",
}
QUERY = "tuesday deploy window"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store with three memories and no index."""
    path = tmp_path / "store"
    run_here("init", "--store", path)
    for name, text in TEXTS.items():
        run_here("add", text, "--id", name, "--store", path)
    return path


@pytest.fixture
def indexed(path: Path) -> Path:
    """Publish them with the embedder of the tests."""
    publish(open_store(path), DEFAULT_NAMESPACE, HashingEmbedder(), min_score=0.3)
    return path


def test_without_index_no_embedder_is_looked_for(path: Path) -> None:
    answer = run_here("recall", QUERY, "--store", path, "--json", "--embedder", "there is none")
    assert answer.exit_code == 0
    assert answer.value["semantic"] == "absent"
    assert [(hit["id"], hit["channel"]) for hit in answer.value["hits"]] == [("window", "lexical")]


def test_with_index_hits_name_their_channel(indexed: Path) -> None:
    answer = run_here("recall", QUERY, "--store", indexed, "--json", "--embedder", "hash")
    assert answer.value["semantic"] == "used"
    assert [(hit["id"], hit["channel"]) for hit in answer.value["hits"]] == [
        ("window", "hybrid"),
        ("windows", "semantic"),
    ]
    assert {"id", "revision", "score", "channel", "content"} <= answer.value["hits"][0].keys()


def test_setting_names_the_embedder(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    answer = run_here("recall", QUERY, "--store", indexed, "--json")
    assert answer.value["semantic"] == "used"


def test_fusion_is_chosen_by_a_short_name(indexed: Path) -> None:
    words = ["recall", QUERY, "--store", indexed, "--json", "--embedder", "hash"]
    scores = {
        fusion: [hit["score"] for hit in run_here(*words, "--fusion", fusion).value["hits"]]
        for fusion in ("rrf", "convex")
    }
    assert scores["rrf"] != scores["convex"]
    assert run_here(*words).value["hits"][1]["score"] == scores["rrf"][1]
    assert run_here(*words, "--fusion", "sum").exit_code == 2


def test_index_that_is_left_out_is_said(indexed: Path) -> None:
    words = ["recall", QUERY, "--store", indexed, "--embedder", "there is none"]
    answer = run_here(*words, "--json")
    assert (answer.exit_code, answer.value["semantic"]) == (0, "dropped")
    assert [(hit["id"], hit["channel"]) for hit in answer.value["hits"]] == [("window", "lexical")]
    said = run_here(*words)
    assert said.err == f"warning: {INVALID}\n"
    assert "window" in said.out


def test_use_counts_the_hits_of_both_branches(indexed: Path) -> None:
    words = ["recall", QUERY, "--store", indexed, "--json", "--embedder", "hash"]
    run_here(*words)
    run_here(*words, "--use")
    with open_store(indexed).read() as reader:
        counts = reader.rows("SELECT id, access_count FROM memories ORDER BY id")
    assert counts == [("lunch", 0), ("window", 1), ("windows", 1)]
