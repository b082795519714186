"""A process that is killed inside a change set leaves all of it or nothing.

Sending the set again is right in both cases. Source: spec/repository.md R41.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import Any, NamedTuple

import pytest
from helpers.children import Child, start_ahead, start_child
from helpers.runs import dump_tables
from helpers.sets import SPACE, change, change_set, create, edge, evidence

from storage import Store, open_store
from storage.invariants import check_invariants
from storage.namespaces import find_namespace, read_sequence
from storage.records import read_records
from storage.repository import apply_change_set

pytestmark = pytest.mark.slow

NEVER = 0
# Where the set writes, once or several times, and perhaps elsewhere.
WRITTEN = {
    "memories",
    "revisions",
    "evidence",
    "relations",
    "memory_terms",
    "namespaces",
    "change_sets",
}
REVISIONS = {"n1": 3, "n2": 1}


class Stopped(NamedTuple):
    """A process that will stand still after so many writes, and the store that it writes to."""

    store: Store
    after: int
    child: Child


@pytest.fixture
def sent() -> dict[str, Any]:
    """Give a set that revises a memory and relates it to a new one."""
    revise = change("revise", "n1", 1, content="beta", mode="correction")
    return change_set(
        "killed",
        1,
        {**revise, "evidence": [evidence("e://beta", 1)]},
        create("n2", "gamma", relations=[edge("related_to", "n1")["relation"]]),
        change("add_relation", "n1", 2, **edge("related_to", "n2")),
    )


@pytest.fixture
def filled(store: Store) -> Store:
    """Give a store that holds one memory."""
    apply_change_set(store, change_set("first", 0, create("n1")))
    return store


def _start(stack: ExitStack, filled: Store, sent: dict[str, Any], stop_after: int) -> Stopped:
    """Start a process that applies the set to a store of its own when told to."""
    path = Path(copytree(filled.path, filled.path.with_name(f"stopped-{stop_after}")))
    said = (path, json.dumps(sent), stop_after)
    return Stopped(Store(path), stop_after, stack.enter_context(start_child("stop_in_set", *said)))


def _start_all(stack: ExitStack, filled: Store, sent: dict[str, Any]) -> Iterator[Stopped]:
    """Start one process for each write that there may be, some ahead."""
    return start_ahead(_start(stack, filled, sent, number) for number in count(1))


def _kill(stopped: Stopped) -> list[str]:
    """Let the process apply the set and kill it where it stands still; give what it said."""
    child = stopped.child
    assert child.hear() == "ready"
    child.signal()
    said = [child.hear()]
    while said[-1] != "committed" and len(said) != stopped.after:
        said.append(child.hear())
    child.process.kill()
    assert child.hear_all() == []
    return said


def _read(store: Store) -> tuple[int, dict[str, int]]:
    """Check a store that is opened anew; give the sequence and the revisions of its memories."""
    with open_store(store.path).read() as reader:
        assert not [check for check in check_invariants(reader) if check.broken]
        owner = find_namespace(reader, SPACE)
        assert owner is not None
        records = read_records(reader, owner.namespace_id, REVISIONS)
        sequence = read_sequence(reader, owner.namespace_id)
    return sequence, {name: record.revision for name, record in records.items()}


def test_v122_a_kill_after_any_write_before_the_commit_leaves_no_trace(
    filled: Store, sent: dict[str, Any]
) -> None:
    before = dump_tables(filled)
    with ExitStack() as stack:
        for stopped in _start_all(stack, filled, sent):
            said = _kill(stopped)
            if said[-1] == "committed":
                break
            assert dump_tables(stopped.store) == before
            assert not apply_change_set(stopped.store, sent).replayed
            assert _read(stopped.store) == (2, REVISIONS)
    assert {*said[:-1]} >= WRITTEN


def test_v123_a_kill_right_after_the_commit_keeps_all_of_it(
    filled: Store, sent: dict[str, Any]
) -> None:
    with ExitStack() as stack:
        stopped = _start(stack, filled, sent, NEVER)
        assert _kill(stopped)[-1] == "committed"
    assert _read(stopped.store) == (2, REVISIONS)
    kept = dump_tables(stopped.store)
    again = apply_change_set(stopped.store, sent)
    assert (again.replayed, again.sequence) == (True, 2)
    assert {one.memory_id: one.revision for one in again.memories} == REVISIONS
    assert dump_tables(stopped.store) == kept
