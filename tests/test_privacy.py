"""What a memory says stays in the memory: no plan, receipt, run, log, error or screen repeats it.

A canary stands in contents, tags, metadata and bad input of every kind; no id holds it.
"""

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.edits import revise_memory
from helpers.imports import edges, write_lines
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.vectors import Json
from pydantic import ValidationError

from storage import Store
from storage.errors import MaintenanceError
from storage.instants import format_instant
from storage.models import MemoryRecord
from storage.runs import list_runs
from tasks.importing import import_file
from tasks.jobs import find_job, parse_policy
from tasks.report import describe_error
from tasks.writing import add_memory

CANARY = "canary-7f3e"
# Engines quote values in their messages: this one does it for two memories, whatever job writes.
FAULTS = """
CREATE TABLE touched (text TEXT);
CREATE TRIGGER quote_update AFTER UPDATE ON memories
REFERENCING OLD TABLE AS before FOR EACH STATEMENT
INSERT INTO touched
SELECT CASE WHEN id IN ('cold-bad', 'stale-bad') THEN error(content || tags || metadata) ELSE id END
FROM before;
CREATE TRIGGER quote_delete AFTER DELETE ON memories
REFERENCING OLD TABLE AS before FOR EACH STATEMENT
INSERT INTO touched
SELECT CASE WHEN id = 'expired-bad' THEN error(content || tags || metadata) ELSE id END
FROM before;
"""
TOUCH_BAD = "UPDATE memories SET content = content WHERE id = 'cold-bad'"
OUTCOMES = "SELECT DISTINCT reason, outcome FROM decisions"
RUN_OUTCOMES = "SELECT DISTINCT outcome FROM runs"
REASONS = {"stale", "over_cap", "expired", "cold", "purge", "carried"}
BAD_LINES = (
    f"{CANARY} no JSON",
    {"id": "bad-1", "content": "", "tags": [CANARY], "kind": CANARY, "status": CANARY},
    {"id": "bad-2", "content": CANARY, "importance": CANARY, "confidence": CANARY},
    {"id": "bad-3", "content": CANARY, "created_at": CANARY, "expires_at": CANARY},
    {"id": "bad-4", "content": CANARY + "\0", "metadata": {CANARY: [CANARY]}},
    {"id": "bad-5", "content": CANARY, "tags": [CANARY * 20], "metadata": {"k": CANARY * 200}},
    {"id": "bad-6", "content": CANARY, "namespace": CANARY, "history": [CANARY]},
    {"id": "bad-7", "content": CANARY, "evidence": [{"uri": CANARY}], "relations": CANARY},
    {"id": "stale", "content": f"{CANARY}: the id is known"},
)


def days_ago(days: float) -> str:
    return format_instant(NOW - timedelta(days=days))


def say(memory_id: str, **fields: object) -> Json:
    """Give a record that holds the canary wherever text may stand."""
    old = {"created_at": days_ago(300), "importance": 0.1}
    said = {"content": f"{CANARY} {memory_id}", "tags": [CANARY], "metadata": {CANARY: CANARY}}
    return {"id": memory_id, **old, **said, **fields}


def memories() -> Iterator[Json]:
    """Give records of every reason: some expire, cool, are purged, go stale or over the cap."""
    for name in ("", "-bad"):
        yield say(f"expired{name}", expires_at=days_ago(1), pinned=True)
        yield say(f"cold{name}")
        yield say(f"stale{name}", kind="semantic")
    yield say("purge", status="tombstoned", tombstoned_at=days_ago(200))
    yield say("ancestor", status="superseded")
    yield say("successor", expires_at=days_ago(2), **edges(("supersedes", "ancestor")))
    yield say("edited")
    for number in range(6):
        yield say(f"kept-{number}", kind="semantic", importance=0.9)


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Store:
    report = import_file(store, write_lines(tmp_path / "good.jsonl", *memories()), clock=NOW)
    assert report.imported == report.read
    return store


class Desk:
    """A person at the command line, and all that was printed."""

    def __init__(self, store: Store, options: tuple[str, ...]) -> None:
        self._store, self._options = store, options
        self.printed = ""

    def run(self, *words: object) -> None:
        answer = run_here("--store", self._store.path, *self._options, *words)
        self.printed += answer.out + answer.err

    def write(self, folder: Path) -> None:
        """Bring memories in, by every door, good and bad."""
        bad = write_lines(folder / "bad.jsonl", *BAD_LINES)
        words = ("--tag", CANARY, "--metadata", f"{CANARY}={CANARY}")
        self.run("import", bad)
        self.run("import", bad, "--strict")
        for memory_id, importance in (("added", 0.9), ("added", 0.9), ("refused", 9)):
            text = ("--id", memory_id, "--importance", importance, *words)
            self.run("add", f"{CANARY} added", *text)

    def plan(self) -> list[str]:
        """Plan both jobs."""
        for job, options in (("prune", ("--set", "max_items=3")), ("sweep", ())):
            self.run("plan", job, "--now", format_instant(NOW), *options)
        with self._store.read() as reader:
            rows = reader.rows(
                "SELECT plan_id FROM plans ORDER BY created_at DESC, plan_id LIMIT 2"
            )
            return [str(row[0]) for row in rows]

    def apply(self, job: str, plan_id: str) -> None:
        """Have a plan refused, compared, applied and explained."""
        self.run("run", job, "--plan", plan_id, "--limit", "max_rows=0")
        self.run("diff", plan_id)
        self.run("run", job, "--confirm", plan_id)
        self.run("show", plan_id, "--all")

    def look_back(self) -> None:
        """Read the history, and say what memories were worth."""
        with self._store.read() as reader:
            self.run("show", list_runs(reader, limit=1)[0]["run_id"])
        for words in (("runs",), ("status",), ("feedback", "kept-1", "wrong")):
            self.run(*words)
        self.run("feedback", "cold", "helpful")


def duplicates() -> Iterator[Json]:
    """Give copies, near duplicates, contradictions and a refused pair, all with the canary."""
    text = f"the {CANARY} export job of the billing team writes its audit rows into the shared box"
    for number, said in enumerate((text, f"{text}.", f"{text} today", f"{text} only")):
        secret = {"title": f"{CANARY} {number}", "api_key": f"{CANARY}-{number}"}
        yield say(f"copy-{number}", content=said, kind="semantic", metadata=secret)
    for name, said in (("cold-bad", "walks"), ("stale-bad", "walks!")):
        yield say(name, content=f"{CANARY} {said} alone", kind="semantic")
    for number in (10, 50):
        said = f"{CANARY} sets the retry budget to {number} attempts for billing calls"
        yield say(f"figure-{number}", content=said, kind="semantic", importance=0.9)


def spoil(store: Store) -> None:
    """Change a memory after the plan, and let writes of others fail."""
    with store.write() as writer:
        revise_memory(writer, 1, "edited", content=f"{CANARY} again", at=NOW)
        writer.run_script(FAULTS)


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["tables", "json"])
def test_nobody_repeats_what_a_memory_says(
    options: tuple[str, ...],
    filled: Store,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk(filled, options)
    desk.write(tmp_path)
    sweep, prune = desk.plan()
    spoil(filled)
    desk.apply("prune", prune)
    desk.apply("sweep", sweep)
    desk.look_back()
    assert_everything_happened(filled)
    rows = dump_tables(filled, without=["memories", "revisions", "touched"])
    assert CANARY not in f"{desk.printed} {caplog.text} {rows}"


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["tables", "json"])
def test_consolidation_repeats_no_text(
    options: tuple[str, ...], store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """But for metadata values that a merge could not keep: they stand beside its source ids."""
    caplog.set_level(logging.DEBUG)
    import_file(store, write_lines(tmp_path / "copies.jsonl", *duplicates()), clock=NOW)
    with store.write() as writer:
        writer.run_script(FAULTS)
    desk = Desk(store, options)
    desk.run("plan", "consolidate", "--now", format_instant(NOW))
    with store.read() as reader:
        ((plan_id,),) = reader.rows("SELECT plan_id FROM plans")
        results = {row[0] for row in reader.rows("SELECT result FROM plan_pairs")}
    desk.apply("consolidate", plan_id)
    with store.read() as reader:
        outcomes = dict(reader.rows("SELECT memory_id, outcome FROM decisions"))
        ((losses,),) = reader.rows("SELECT string_agg(losses, '') FROM merge_sources")
    desk.run("merge", "copy-0", "copy-3")
    desk.look_back()
    desk.run("restore", "copy-1")
    rows = dump_tables(store, without=["memories", "revisions", "touched", "merge_sources"])
    assert results >= {"similar", "conflict"}
    assert outcomes == {"copy-1": "applied", "copy-2": "applied", "stale-bad": "failed"}
    assert f"{CANARY} 1" in losses
    assert f"{CANARY}-1" not in losses
    assert CANARY not in f"{desk.printed} {caplog.text} {rows}"


def assert_everything_happened(store: Store) -> None:
    with store.read() as reader:
        outcomes = reader.rows(OUTCOMES)
        assert {row[0] for row in reader.rows(RUN_OUTCOMES)} == {"planned", "refused", "partial"}
    assert {reason for reason, _ in outcomes} == REASONS
    assert {outcome for _, outcome in outcomes} >= {"applied", "failed", "changed_since_plan"}


def add_bad(store: Store) -> None:
    add_memory(store, {"id": "m", "content": CANARY, "kind": CANARY}, clock=NOW)


def validate_bad(_store: Store) -> None:
    MemoryRecord.model_validate(say("m", tags=[CANARY * 20], created_at=CANARY))


def break_engine(store: Store) -> None:
    spoil(store)
    with store.write() as writer:
        writer.execute(TOUCH_BAD)


def revise_frozen(store: Store) -> None:
    with store.write() as writer:
        revise_memory(writer, 1, "purge", content=CANARY, at=NOW)


def set_bad_policy(_store: Store) -> None:
    parse_policy(find_job("prune"), {"cap_order": CANARY, "max_items": CANARY})


@pytest.mark.parametrize(
    "act", [add_bad, validate_bad, break_engine, revise_frozen, set_bad_policy]
)
def test_error_quotes_no_value(act: Callable[[Store], None], filled: Store) -> None:
    with pytest.raises((MaintenanceError, ValidationError)) as caught:
        act(filled)
    assert CANARY not in f"{caught.value} {describe_error(caught.value)}"
