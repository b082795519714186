"""Refreshes of one namespace at once: one of them publishes, and a stale one changes nothing.

Source: spec/refresh.md R16, R17, R25, R30, 3.2 (W10); PLATFORM X1, X2.
"""

import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from helpers.children import Child
from helpers.erasures import delete_vectors
from helpers.refresh_processes import (
    ENDED,
    TTL_S,
    ProcessWorld,
    Trace,
    hear_until,
    keep_spares,
    send,
)
from helpers.sets import START

from storage import Store
from storage.publications import begin_collecting, end_collecting, list_collectable, list_known
from storage.vectors import VectorStore

pytestmark = pytest.mark.slow

MEMORIES = 10
ROUNDS = 50
GIVE_LEASE_BACK = """
UPDATE leases
SET holder = 'zombie', lease_fence = lease_fence - 1, expires_at = $until
WHERE job = 'refresh'
"""
CHAIN = """
SELECT r.index_revision, u.revision, u.base_revision, u.run_id, r.run_id
FROM refresh_receipts AS r
LEFT JOIN publications AS u ON u.publication_id = r.publication_id
ORDER BY r.index_revision
"""


@pytest.fixture(scope="module")
def spares() -> Iterator[Callable[[], Child]]:
    yield from keep_spares()


@pytest.fixture
def world(store: Store, tmp_path: Path) -> ProcessWorld:
    world = ProcessWorld(store, tmp_path / "embedded.log", MEMORIES)
    assert world.run("first") == "published"
    world.change(revised=["m1"])
    world.pass_lease()
    return world


def test_each_round_of_two_processes_has_one_winner(
    world: ProcessWorld, spares: Callable[[], Child]
) -> None:
    left, right = spares(), spares()
    winners = ["first"]
    for number in range(ROUNDS):
        world.second += 1
        names = [f"{side}-{number}" for side in ("left", "right")]
        # Both wait for the lock that is held here, so they start at once.
        with world.store.write():
            for child, name in zip((left, right), names, strict=True):
                send(child, world.order(name))
        said = dict(zip(names, (hear_until(left, ENDED), hear_until(right, ENDED)), strict=True))
        winner = [name for name, came in said.items() if came == "published"]
        assert len(winner) == 1, said
        assert set(said.values()) <= {"published", "skipped_busy", "token_match"}
        winners += winner
        served = world.assert_whole()
        assert served is not None
        assert served.rows == world.read_active()
        world.change(revised=[f"m{number % MEMORIES}"])
    with world.store.read() as reader:
        chain = reader.rows(CHAIN)
    assert chain == [(n, n, n - 1, name, name) for n, name in enumerate(winners, start=1)]
    world.assert_billed_once()
    assert len(world.read_embedded()) == MEMORIES + ROUNDS


def overtake(world: ProcessWorld, step: str, then: Callable[[], object]) -> str:
    """Run a refresh that sleeps at a step, the first time, while `then` happens."""
    reached: list[str] = []

    def on_step(name: str) -> None:
        if name == step and not reached:
            reached.append(name)
            then()

    said = world.run("zombie", on_step)
    assert reached
    return said


def take_over(world: ProcessWorld, *, is_changed: bool = True) -> Trace:
    """Refresh as another run whose clock is past the lease, and give what is there then."""
    if is_changed:
        world.change(revised=["m2"])
    world.pass_lease()
    said = world.run("second")
    world.second -= TTL_S
    assert said == "published" if is_changed else said in {"published", "adopted"}
    return world.take_trace()


# (step, whether the memories changed meanwhile, what the stale run ends with). At token_1 it has
# read nothing yet, so it only sees that the other run left nothing to do.
LATE = [
    ("token_1", True, "token_match"),
    ("token_2", False, "lease_lost"),
    ("embedding", True, "lease_lost"),
    ("before_stage", True, "lease_lost"),
    ("adding", True, "publication_lost"),
    ("added", False, "publication_lost"),
    ("after_stage", False, "lease_lost"),
    ("after_stage", True, "lease_lost"),
    ("token_3", True, "lease_lost"),
    ("after_flip", False, "lease_lost"),
    ("after_flip", True, "index_revision_changed"),
    ("before_receipt", True, "lease_lost"),
]
# The same with a lease that protects nothing.
LATE_UNDER_LEASE = [
    ("token_1", True, "token_match"),
    ("before_stage", False, "revision_conflict"),
    ("added", True, "publication_lost"),
    ("after_stage", False, "publication_lost"),
    ("after_stage", True, "revision_conflict"),
    ("after_flip", False, "publication_lost"),
    ("after_flip", True, "index_revision_changed"),
    ("before_receipt", True, "publication_lost"),
]


@pytest.mark.parametrize(("step", "is_changed", "code"), LATE)
def test_run_that_lost_its_lease_changes_nothing(
    world: ProcessWorld, step: str, is_changed: bool, code: str
) -> None:
    taken: list[Trace] = []
    said = overtake(world, step, lambda: taken.append(take_over(world, is_changed=is_changed)))
    assert said == code
    assert world.take_trace().served == taken[0].served
    assert world.read_outcomes()["zombie"] == "abandoned"
    world.second += 2 * TTL_S
    world.assert_settled("last")
    world.assert_billed_once()


@pytest.mark.parametrize(("step", "is_changed", "code"), LATE_UNDER_LEASE)
def test_pointer_and_phase_refuse_a_stale_run_even_under_its_lease(
    world: ProcessWorld, step: str, is_changed: bool, code: str
) -> None:
    taken: list[Trace] = []

    def then() -> None:
        taken.append(take_over(world, is_changed=is_changed))
        with world.store.write() as writer:
            until = START + timedelta(seconds=world.second + TTL_S)
            assert writer.execute(GIVE_LEASE_BACK, {"until": until}) == 1

    assert overtake(world, step, then) == code
    assert world.take_trace().served == taken[0].served
    world.second += 2 * TTL_S
    world.assert_settled("last")


def test_run_that_lost_its_lease_takes_nothing_back(world: ProcessWorld) -> None:
    adopted = []

    def then() -> None:
        take_over(world, is_changed=False)
        delete_vectors(world.store, "m3")
        adopted.append(world.read_pointer())

    assert overtake(world, "before_verify", then) == "lease_lost"
    assert [world.read_pointer()] == adopted


def stop_at(child: Child, world: ProcessWorld, step: str) -> None:
    """Stop a process at a step of its refresh."""
    send(child, world.order("zombie", step))
    hear_until(child, step)
    child.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.process.pid, os.WSTOPPED)


def go_on(child: Child) -> str:
    """Let a stopped process go on, and give what came of its refresh."""
    child.process.send_signal(signal.SIGCONT)
    send(child, None)
    return hear_until(child, ENDED)


def collect(world: ProcessWorld) -> list[str]:
    """Collect what can go, with no grace, and give the publications."""
    vectors, now = VectorStore(world.store.path), START + timedelta(seconds=world.second)
    (table,) = vectors.tables()
    with world.store.read() as reader:
        due = [one.publication_id for one in list_collectable(reader, [table], before=now)]
    with world.store.write() as writer:
        begin_collecting(writer, due)
    vectors.delete_publications(table, due)
    with world.store.write() as writer:
        end_collecting(writer, due)
    return due


def list_rows(world: ProcessWorld) -> set[str]:
    """List the publications that have vectors."""
    vectors, now = VectorStore(world.store.path), START + timedelta(seconds=world.second)
    (table,) = vectors.tables()
    return set(vectors.list_publications(table, before=now))


@pytest.mark.parametrize(
    ("step", "code"),
    [("embedding", "lease_lost"), ("adding", "publication_lost"), ("after_stage", "lease_lost")],
)
def test_stopped_process_fails_and_its_rows_are_collected(
    world: ProcessWorld, spares: Callable[[], Child], step: str, code: str
) -> None:
    child = spares()
    stop_at(child, world, step)
    taken = take_over(world)

    assert go_on(child) == code

    assert world.take_trace().served == taken.served
    assert dict(world.read_phases())["zombie"] == "abandoned"
    world.second += 2 * TTL_S
    assert len(list_rows(world)) == 3
    assert len(collect(world)) == 1
    assert dict(world.read_phases())["zombie"] == "collected"
    assert len(list_rows(world)) == 2
    world.assert_settled("last")


@pytest.mark.parametrize(
    ("step", "code"), [("adding", "publication_lost"), ("after_stage", "lease_lost")]
)
def test_stopped_process_cannot_publish_rows_that_were_collected(
    world: ProcessWorld, spares: Callable[[], Child], step: str, code: str
) -> None:
    child = spares()
    stop_at(child, world, step)
    take_over(world)
    world.pass_lease()
    (publication,) = collect(world)
    taken = world.take_trace()

    assert go_on(child) == code

    assert world.take_trace().served == taken.served
    assert dict(world.read_phases())["zombie"] == "collected"
    # Rows that came too late belong to no publication, so the janitor takes them by their age.
    assert (publication in list_rows(world)) == (step == "adding")
    with world.store.read() as reader:
        assert publication not in list_known(reader)
    world.pass_lease()
    world.assert_settled("last")
