"""Reads LoCoMo, the public set of long conversations with questions, from a file given by path.

The file is a list of samples: `conversation` holds turns by session (`session_1`: [{speaker,
dia_id, text, …}]), `observation` one-sentence facts by session and speaker ([text, dialogue ids]),
`qa` questions with the ids of the turns that answer them. Ids come one by one, in lists, and
several in one string.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOW_TO_GET = (
    "LoCoMo is not shipped: its licence is CC BY-NC 4.0. Get data/locomo10.json from the "
    "repository snap-research/locomo on GitHub, and give its path."
)
# Questions that the conversation does not answer.
ADVERSARIAL = 5
_DIALOGUE_ID = re.compile(r"D(\d+):(\d+)")
_SESSION = re.compile(r"session_\d+")


@dataclass(frozen=True, slots=True)
class Item:
    """A text to remember, and the turns that it was said in or taken from."""

    text: str
    sources: frozenset[str]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that its answer stands in."""

    text: str
    evidence: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """One sample: what can be remembered of it, and what is asked about it."""

    name: str
    turns: Sequence[Item]
    observations: Sequence[Item]
    questions: Sequence[Question]


def read_locomo(path: Path) -> list[Conversation]:
    """Read the conversations of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no LoCoMo file.
    """
    try:
        samples = json.loads(path.read_text(encoding="utf-8"))
        return [_read_sample(sample) for sample in samples]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no LoCoMo file: {error!r}") from None


def find_ids(said: object) -> frozenset[str]:
    """Find the dialogue ids in a string, or in the strings of a list; what is none is left out."""
    parts = said if isinstance(said, list) else [said]
    found = (_DIALOGUE_ID.findall(part) for part in parts if isinstance(part, str))
    return frozenset(f"D{int(session)}:{int(turn)}" for ids in found for session, turn in ids)


def _read_sample(sample: Mapping[str, Any]) -> Conversation:
    questions = (_read_question(one) for one in sample["qa"])
    return Conversation(
        name=str(sample["sample_id"]),
        turns=list(_list_turns(sample["conversation"])),
        observations=list(_list_observations(sample["observation"])),
        questions=[one for one in questions if one.evidence and one.category != ADVERSARIAL],
    )


def _read_question(said: Mapping[str, Any]) -> Question:
    return Question(str(said["question"]), find_ids(said.get("evidence")), int(said["category"]))


def _list_turns(conversation: Mapping[str, Any]) -> Iterator[Item]:
    for name, turns in conversation.items():
        if _SESSION.fullmatch(name):
            for turn in turns:
                text = f"{turn['speaker']}: {turn['text']}"
                yield Item(text, find_ids(turn["dia_id"]))


def _list_observations(observation: Mapping[str, Any]) -> Iterator[Item]:
    for speakers in observation.values():
        for facts in speakers.values():
            for text, sources in facts:
                yield Item(text, find_ids(sources))
