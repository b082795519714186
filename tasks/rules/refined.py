"""What a refiner may answer: a text that loses and invents nothing of its sources.

Source: spec/consolidate.md R92.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeGuard

from storage.models import MAX_CONTENT_BYTES
from tasks.rules.figures import find_figures
from tasks.rules.normal_form import normal_form
from tasks.rules.polarity import count_negations
from tasks.rules.tokens import split_runs

_FIELDS = {"content", "sources"}


class RefineFault(StrEnum):
    """What is wrong with an output; the first that holds, in this order."""

    SCHEMA = "schema"
    SOURCES = "sources"
    EMPTY = "empty"
    TOO_LONG = "too_long"
    FIGURE_LOST = "figure_lost"
    FIGURE_INVENTED = "figure_invented"
    POLARITY_LOST = "polarity_lost"


class RefinedText(NamedTuple):
    """A text that may stand for its sources."""

    content: str


def judge_output(output: object, sources: Mapping[str, str]) -> RefinedText | RefineFault:
    """Judge what a refiner made of texts.

    Args:
        output: Any value; only ``{"content": text, "sources": [ids]}`` is one of that form.
        sources: The texts that it was given, by id.
    """
    if not (isinstance(output, dict) and output.keys() == _FIELDS):
        return RefineFault.SCHEMA
    content, named = output["content"], output["sources"]
    if not (_is_text(content) and isinstance(named, list) and all(map(_is_text, named))):
        return RefineFault.SCHEMA
    if sorted(named) != sorted(sources):
        return RefineFault.SOURCES
    return _judge_content(content, list(sources.values())) or RefinedText(content)


def _is_text(value: object) -> TypeGuard[str]:
    """Tell whether a value is text that can be stored at all."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _judge_content(content: str, texts: list[str]) -> RefineFault | None:
    if not split_runs(normal_form(content)):
        return RefineFault.EMPTY
    if len(content) > sum(map(len, texts)) or len(content.encode()) > MAX_CONTENT_BYTES:
        return RefineFault.TOO_LONG
    given, kept = {figure for text in texts for figure in find_figures(text)}, find_figures(content)
    if given.difference(kept):
        return RefineFault.FIGURE_LOST
    if not given.issuperset(kept):
        return RefineFault.FIGURE_INVENTED
    if any(map(count_negations, texts)) and not count_negations(content):
        return RefineFault.POLARITY_LOST
    return None
