"""The documents say what the code does: defaults, commands, examples, files, lengths."""

import json
import re
from pathlib import Path

import pytest
from helpers.cli import run_here
from pydantic import BaseModel
from typer.main import get_command

from deployments.cli import app, hoist_globals
from storage.models import MemoryRecord
from tasks.health.policy import HealthPolicy
from tasks.janitor import JanitorPolicy
from tasks.limits import SafetyLimits
from tasks.policies import ConsolidatePolicy, PrunePolicy, RefreshPolicy, SweepPolicy

ROOT = Path(__file__).parents[1]
LONGEST = {"README.md": 150, "CONTRIBUTING.md": 80}
LINES: dict[str, BaseModel] = {
    "safety limits": SafetyLimits(),
    "prune": PrunePolicy(),
    "sweep": SweepPolicy(),
    "consolidate": ConsolidatePolicy(),
    "refresh": RefreshPolicy(),
    "health": HealthPolicy(),
    "janitor": JanitorPolicy(),
}
SNIPPET = re.compile(r"`([^`\n]+)`|^\$ ([^#\n]+)", re.MULTILINE)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
FILE = re.compile(r"(?:storage|tasks|flows|deployments|tests)/[a-z0-9_./]+\.(?:py|sql|jsonl)\b")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
FIELD = re.compile(r"`(\w+)=([^`]+)`")
PLAN_ID = re.compile(r"plan_[0-9a-f]{20}")


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def commands_of(document: str, program: str) -> list[list[str]]:
    """Find the commands of a program in a document, each without the program's name."""
    found = ("".join(match).split() for match in SNIPPET.findall(read(document)))
    return [words[1:] for words in found if words[:1] == [program] and len(words) > 1]


def words_of(line: str) -> list[str]:
    """Give the words of a line up to an ellipsis; ids of plans are all the same."""
    return PLAN_ID.sub("PLAN", line).partition("…")[0].replace("...", "PLAN").split()


def is_within(words: list[str], others: list[str]) -> bool:
    """Tell whether words stand among others in the same order: a document may leave some out."""
    rest = iter(others)
    return all(word in rest for word in words)


@pytest.mark.parametrize("name", LINES)
def test_readme_names_each_default(name: str) -> None:
    defaults = LINES[name].model_dump(mode="json")
    told = {
        field: value if isinstance(value, str) else json.dumps(value)
        for field, value in defaults.items()
    }
    (line,) = (line for line in read("README.md").splitlines() if line.startswith(f"| {name} | `"))
    assert dict(FIELD.findall(line)) == told


@pytest.mark.parametrize("document", LONGEST)
def test_document_is_short(document: str) -> None:
    assert len(read(document).splitlines()) <= LONGEST[document]


@pytest.mark.parametrize("document", LONGEST)
def test_document_names_only_verbs_and_options_that_exist(document: str) -> None:
    verbs = dict(get_command(app).commands)  # type: ignore[attr-defined] # it is a group
    for words in commands_of(document, "memtend"):
        verb, *rest = [word for word in hoist_globals(words) if word != "--json"]
        assert verb in verbs, words
        known = {option for parameter in verbs[verb].params for option in parameter.opts}
        known.add("--help")
        assert {word for word in rest if word.startswith("--")} <= known, words


@pytest.mark.parametrize("document", LONGEST)
def test_document_names_only_targets_that_exist(document: str) -> None:
    named = {word for words in commands_of(document, "make") for word in words}
    assert named <= set(TARGET.findall(read("Makefile")))


@pytest.mark.parametrize("document", LONGEST)
def test_document_names_only_files_that_exist(document: str) -> None:
    text = read(document)
    named = {*LINK.findall(text), *FILE.findall(text)}
    assert not [name for name in named if not (ROOT / name).exists()]


def test_readme_shows_what_the_demo_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (shown,) = [text for language, text in FENCE.findall(read("README.md")) if language == "text"]
    printed = [words_of(line) for line in run_here("demo").out.splitlines()]
    for words in map(words_of, shown.splitlines()):
        assert any(is_within(words, others) for others in printed), words


def test_example_of_the_import_format_is_valid() -> None:
    (shown,) = [text for language, text in FENCE.findall(read("README.md")) if language == "json"]
    assert MemoryRecord.model_validate(json.loads(shown)).id
