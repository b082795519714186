"""Reading LoCoMo's public format, and what is made of it, on two made-up samples."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.bm25 import Ranking
from benchmarks.locomo import HOW_TO_GET, Conversation, Item, Question, find_ids, read_locomo
from benchmarks.recall_quality import (
    BM25,
    CONVEX,
    MEANING,
    RRF,
    WORDS,
    fill_store,
    list_covered,
    main,
    measure_quality,
    refresh_store,
    score,
)

from tasks.providers.hashing import HashingEmbedder
from tasks.recall import RecallPolicy

SAMPLE: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I bought a red bicycle."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Nice!", "blip_caption": "a bicycle"},
        ],
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "My cat is called Olive."}],
    },
    "observation": {
        "session_1_observation": {"Ada": [["Ada bought a red bicycle.", "D1:1"]]},
        "session_2_observation": {
            "Ben": [["Ben has a cat called Olive.", ["D2:1", "D1:2"]]],
            "Ada": [["Ada likes cats.", "D2:1, D2:02"]],
        },
    },
    "session_summary": {},
    "event_summary": {},
    "qa": [
        {"question": "What did Ada buy?", "answer": "bicycle", "evidence": ["D1:1"], "category": 4},
        {"question": "Which cat?", "answer": 1, "evidence": ["D2:1; D9:7", "D"], "category": 1},
        {"question": "Why?", "answer": "?", "evidence": [], "category": 3},
        {"question": "Who flew?", "adversarial_answer": "Ada", "evidence": ["D1:1"], "category": 5},
    ],
}


def write(tmp_path: Path, samples: object) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(samples), encoding="utf-8")
    return path


@pytest.fixture
def conversation(tmp_path: Path) -> Conversation:
    (one,) = read_locomo(write(tmp_path, [SAMPLE]))
    return one


def test_turns_and_observations_keep_their_dialogue_ids(conversation: Conversation) -> None:
    assert conversation.name == "conv-1"
    assert [(one.text, sorted(one.sources)) for one in conversation.turns] == [
        ("Ada: I bought a red bicycle.", ["D1:1"]),
        ("Ben: Nice!", ["D1:2"]),
        ("Ben: My cat is called Olive.", ["D2:1"]),
    ]
    assert [sorted(one.sources) for one in conversation.observations] == [
        ["D1:1"],
        ["D1:2", "D2:1"],
        ["D2:1", "D2:2"],
    ]


def test_questions_without_an_answer_in_the_conversation_are_left_out(
    conversation: Conversation,
) -> None:
    assert [(one.text, sorted(one.evidence)) for one in conversation.questions] == [
        ("What did Ada buy?", ["D1:1"]),
        ("Which cat?", ["D2:1", "D9:7"]),
    ]


@pytest.mark.parametrize(
    ("said", "ids"),
    [
        ("D8:6; D9:17", {"D8:6", "D9:17"}),
        (["D30:05", "D", None], {"D30:5"}),
        ("D:11:26", set()),
        (None, set()),
    ],
)
def test_dialogue_ids_are_found_however_they_are_written(said: object, ids: set[str]) -> None:
    assert find_ids(said) == ids


@pytest.mark.parametrize("samples", [{"sample_id": 1}, [[]], [{"qa": []}], 7])
def test_another_file_is_refused(tmp_path: Path, samples: object) -> None:
    with pytest.raises(ValueError, match="no LoCoMo file"):
        read_locomo(write(tmp_path, samples))


def test_recall_is_the_share_of_the_evidence() -> None:
    question = Question("?", frozenset({"D1:1", "D2:2"}), 1)
    hits = [Item("a", frozenset({"D1:1", "D5:5"})), Item("b", frozenset({"D1:1"}))]
    assert score(question, hits) == 0.5
    assert score(question, []) == 0.0
    assert list(list_covered([question], hits)) == [question]
    assert not list(list_covered([Question("?", frozenset({"D3:1"}), 1)], hits))


def test_bm25_prefers_rare_words_and_knows_their_forms() -> None:
    ranking = Ranking(["red cats and the sea", "a red dog", "the sun"])
    assert ranking.rank("the red dogs", 5) == [1, 0]
    assert ranking.rank("cat", 5) == [0]
    assert ranking.rank("the moon", 5) == []


def test_every_way_of_asking_is_measured_in_its_own_namespace(tmp_path: Path) -> None:
    other = copy.deepcopy(SAMPLE) | {"sample_id": "conv-2"}
    other["observation"]["session_1_observation"]["Ada"][0][0] = "Ada sold a blue boat."
    conversations = read_locomo(write(tmp_path, [SAMPLE, other]))
    embedder, policy = HashingEmbedder(), RecallPolicy(min_lexical_score=0.25)
    store = fill_store(tmp_path / "store", conversations, "observations")
    refresh_store(store, "hash", embedder)
    found = measure_quality(store, conversations, "observations", embedder, policy)
    assert list(found) == [BM25, WORDS, MEANING, RRF, CONVEX]
    assert found[WORDS] == [1.0, 0.5, 1.0, 0.5]
    assert {len(shares) for shares in found.values()} == {4}


def test_without_a_file_it_says_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == f"{HOW_TO_GET}\n"


def test_a_file_that_cannot_be_read_is_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none.json")]) == 2
    assert HOW_TO_GET in capsys.readouterr().err
