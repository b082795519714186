"""Processes that change one namespace are killed at random moments; nothing acknowledged is lost.

What is left must equal a twin that nobody killed, to which the same sets were applied one after the
other: so each set is there wholly and once, or not at all. Source: spec/repository.md R13, R41.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from helpers.children import Child, start_ahead, start_child
from helpers.sets import change_set, create
from helpers.vectors import copy_store

from storage import Store
from storage.access import EventKind, parse_event, record_event
from storage.errors import MaintenanceError
from storage.invariants import check_invariants
from storage.repository import ChangeResult, apply_change_set

pytestmark = pytest.mark.slow

# How many processes are killed in each round; together 30.
ROUNDS = (1, 2) * 10
MOST_HEARD = 8
# About two steps: many kills come while a set is on its way.
LONGEST_S = 0.15
REFUSALS = {"revision_conflict", "admission_not_allowed"}
# What sets alone decide; numbers of texts come from a sequence, which a rollback moves on.
STATE = (
    "SELECT * EXCLUDE (text_number, access_count, last_accessed_at) FROM memories ORDER BY ALL",
    "SELECT * FROM revisions ORDER BY ALL",
    "SELECT * FROM evidence ORDER BY ALL",
    "SELECT * FROM relations ORDER BY ALL",
    "SELECT * FROM namespaces ORDER BY ALL",
    "SELECT * FROM change_sets ORDER BY ALL",
    """
    SELECT m.id, list(t.term_hash ORDER BY t.term_hash)
    FROM memories AS m
    INNER JOIN memory_terms AS t USING (namespace_id, text_number)
    GROUP BY m.id
    ORDER BY m.id
    """,
)
KEYS = "SELECT idempotency_key FROM change_sets ORDER BY sequence"
SEQUENCES = """
SELECT sequence FROM change_sets
UNION ALL
SELECT max(sequence) FROM namespaces
ORDER BY sequence
"""
EVENTS = """
SELECT event_id, event_kind, memory_id, revision, occurred_at, actor
FROM access_events
"""
MISCOUNTED = """
SELECT m.id
FROM memories AS m
LEFT JOIN access_events AS a ON a.namespace_id = m.namespace_id AND a.memory_id = m.id
GROUP BY m.id, m.access_count, m.last_accessed_at
HAVING m.access_count <> count(*) FILTER (a.event_kind = 'use')
    OR m.last_accessed_at IS DISTINCT FROM max(a.occurred_at)
"""
Json = dict[str, Any]


class Step(NamedTuple):
    """What a process sent, and the answer, unless it was killed before it could tell."""

    kind: str
    values: Json
    answer: Json | None

    @property
    def key(self) -> str:
        """The key of the set, or the id of the event; no two steps have the same."""
        return str(self.values["idempotency_key" if self.kind == "set" else "id"])

    @property
    def is_refused(self) -> bool:
        """Whether the repository refused it; only what another step overtook may be."""
        refusal = (self.answer or {}).get("refused")
        assert refusal is None or refusal in REFUSALS
        return refusal is not None

    def row(self) -> tuple[object, ...]:
        """The row that an event makes."""
        event = parse_event(self.values)
        return (
            event.id,
            self.kind,
            event.memory_id,
            event.revision,
            event.occurred_at,
            event.actor,
        )


class Twins(NamedTuple):
    """The store whose writers are killed, its twin, and all that was ever sent, by key."""

    store: Store
    twin: Store
    steps: dict[str, Step]


def make_twins(path: Path) -> Twins:
    first = change_set("first", 0, *(create(f"n{number}") for number in range(5)))
    twins = Twins(copy_store(path / "store"), copy_store(path / "twin"), {})
    for store in (twins.store, twins.twin):
        apply_change_set(store, first)
    return twins


def start_rounds(stack: ExitStack, store: Store) -> Iterator[list[Child]]:
    """Start the processes of every round, some rounds ahead."""
    rounds = (
        [
            stack.enter_context(start_child("apply_sets", store.path, f"r{number}{one}"))
            for one in "ab"[:size]
        ]
        for number, size in enumerate(ROUNDS)
    )
    return start_ahead(rounds)


def kill(children: list[Child], moments: Random) -> list[Step]:
    """Let the processes work and kill each at a random moment; give all that they did."""
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.signal()
    heard = [[children[0].hear() for _ in range(moments.randint(0, MOST_HEARD))], []]
    steps = []
    for child, lines in zip(children, heard, strict=False):
        time.sleep(moments.uniform(0, LONGEST_S))
        child.process.kill()
        steps += read_steps(lines + child.hear_all())
        assert child.process.returncode == -signal.SIGKILL
    return steps


def read_steps(lines: list[str]) -> list[Step]:
    """Read pairs of lines; the last pair may lack its answer."""
    said = [json.loads(line) for line in lines]
    pairs = zip(said[::2], [*said[1::2], None], strict=False)
    return [Step(kind, values, answer) for (kind, values), answer in pairs]


def follow(twins: Twins) -> set[str]:
    """Give the twin the sets that the store has kept, compare, and give the keys of all kept."""
    with twins.store.read() as reader:
        assert not [check for check in check_invariants(reader) if check.broken]
        keys = [row[0] for row in reader.rows(KEYS)]
        sequences = [row[0] for row in reader.rows(SEQUENCES)]
        state = [reader.rows(statement) for statement in STATE]
        events = set(reader.rows(EVENTS))
        assert not reader.rows(MISCOUNTED)
    assert sequences == [*range(1, len(keys) + 1), len(keys)]
    with twins.twin.session():
        with twins.twin.read() as reader:
            followed = len(reader.rows(KEYS))
        for key in keys[followed:]:
            apply_change_set(twins.twin, twins.steps[key].values)
        with twins.twin.read() as reader:
            assert [reader.rows(statement) for statement in STATE] == state
    assert events <= {step.row() for step in twins.steps.values() if step.kind != "set"}
    return {*keys, *(str(row[0]) for row in events)}


def send(store: Store, step: Step) -> ChangeResult | bool | MaintenanceError:
    try:
        if step.kind == "set":
            return apply_change_set(store, step.values)
        kind: EventKind = "use" if step.kind == "use" else "admission"
        with store.write() as writer:
            return record_event(writer, kind, parse_event(step.values))
    except MaintenanceError as error:
        return error


def send_again(twins: Twins, steps: list[Step], kept: set[str], *, is_alone: bool) -> None:
    """Send everything again: what was kept is replayed, what was lost goes in now."""
    with twins.store.session():
        for step in steps:
            again = send(twins.store, step)
            if step.key in kept:
                assert_replayed(again, step)
            elif step.is_refused:
                assert isinstance(again, MaintenanceError)
                assert {"refused": again.code} == step.answer
            else:
                assert step.answer is None
                assert again is True or not is_alone or step.kind == "admission" or is_new(again)


def is_new(again: object) -> bool:
    return isinstance(again, ChangeResult) and not again.replayed


def assert_replayed(again: ChangeResult | bool | MaintenanceError, step: Step) -> None:
    if step.kind != "set":
        assert again is False
        return
    assert isinstance(again, ChangeResult)
    assert again.replayed
    memories = [[one.memory_id, one.revision] for one in again.memories]
    assert step.answer in (None, {"sequence": again.sequence, "memories": memories})


def test_acknowledged_sets_survive_every_kill_once(tmp_path: Path) -> None:
    twins, moments = make_twins(tmp_path), Random(2026)  # noqa: S311 - a seed
    with ExitStack() as stack:
        for children in start_rounds(stack, twins.store):
            steps = kill(children, moments)
            twins.steps.update({step.key: step for step in steps})
            kept = follow(twins)
            send_again(twins, steps, kept, is_alone=len(children) == 1)
    kept = follow(twins)
    answered = [step for step in twins.steps.values() if step.answer is not None]
    assert {step.key for step in answered if not step.is_refused} <= kept
    assert len(answered) > len(ROUNDS)
