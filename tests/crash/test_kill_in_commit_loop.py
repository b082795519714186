"""A process that is killed while it commits loses nothing that it was told to be safe."""

import time
from collections import deque
from contextlib import ExitStack
from random import Random

import pytest
from helpers.children import Child, start_child

from storage import Store, open_store
from storage.namespaces import read_sequence

pytestmark = pytest.mark.slow

ROUNDS = 20
STANDBY = 1
MOST_HEARD = 4
LONGEST_S = 0.08  # about two commits
NUMBERS = "SELECT revision FROM access_events WHERE namespace_id = $namespace_id ORDER BY revision"


def kill_in_loop(child: Child, *, heard: int, after_s: float) -> list[int]:
    """Let the child commit until `heard` numbers were heard and a while longer, then kill it.

    Returns all the numbers that it acknowledged.
    """
    assert child.hear() == "ready"
    child.signal()
    numbers = [child.hear() for _ in range(heard)]
    time.sleep(after_s)
    child.process.kill()
    return [int(number) for number in numbers + child.hear_all()]


def assert_nothing_lost(store: Store, namespace_id: int, acknowledged: int) -> int:
    """Check that rows and sequence agree, without gaps; give the last number."""
    with open_store(store.path).read() as reader:
        numbers = [row[0] for row in reader.rows(NUMBERS, {"namespace_id": namespace_id})]
        last = read_sequence(reader, namespace_id)
    assert numbers == list(range(1, last + 1))
    assert acknowledged <= last <= acknowledged + 1
    return last


def test_acknowledged_rows_survive_every_kill(store: Store, namespace_id: int) -> None:
    moments = Random(2026)  # noqa: S311 - a fixed seed
    run = ("commit_rows", store.path, namespace_id)
    last = 0
    with ExitStack() as stack:
        standby = deque(stack.enter_context(start_child(*run)) for _ in range(STANDBY))
        for _ in range(ROUNDS):
            standby.append(stack.enter_context(start_child(*run)))
            # Half of the kills come right after an acknowledgement, in the checkpoint.
            after_s = max(0.0, moments.uniform(-LONGEST_S, LONGEST_S))
            heard = moments.randint(0, MOST_HEARD)
            acknowledged = kill_in_loop(standby.popleft(), heard=heard, after_s=after_s)
            last = assert_nothing_lost(store, namespace_id, max(acknowledged, default=last))
    assert last >= ROUNDS
