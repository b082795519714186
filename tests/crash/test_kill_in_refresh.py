"""A refresh that is killed leaves one whole publication or none, and the next one heals.

Source: spec/refresh.md R25-R33, R54-R56, 3.2 (W1-W7).
"""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from helpers.children import Child
from helpers.refresh_processes import (
    ENDED,
    TTL_S,
    ProcessWorld,
    hear_until,
    keep_spares,
    send,
)
from helpers.sets import START

from storage import Store
from storage.history import settle_history
from storage.identities import name_vector_table
from storage.vectors import VectorStore
from tasks.providers.hashing import HashingEmbedder

MEMORIES = 40
BEFORE_FLIP = [
    "observe",
    "token_1",
    "token_2",
    "embedding",
    "before_stage",
    "adding",
    "added",
    "after_stage",
    "before_publish",
    "token_3",
]
UNVERIFIED = ["after_flip", "before_verify", "before_receipt"]
VERIFIED = ["after_receipt"]
KILLS = 30
ORDERS = 100
LONGEST_S = 0.4


pytestmark = pytest.mark.slow


class Kill(NamedTuple):
    """When a process dies: at a step, or some time after it has begun the step."""

    step: str
    after_ms: int = 0

    def __str__(self) -> str:
        """Name the case."""
        return f"{self.step}+{self.after_ms}ms" if self.after_ms else self.step


AT_STEPS = [Kill(step) for step in BEFORE_FLIP + UNVERIFIED + VERIFIED]
# Inside the Lance add, and around the commits that flip and prove (W2, W4, W6).
AFTER_STEPS = [
    Kill("adding", 3),
    Kill("adding", 9),
    Kill("token_3", 12),
    Kill("before_receipt", 12),
]
CASES = [(False, when) for when in AT_STEPS] + [(True, when) for when in AT_STEPS + AFTER_STEPS]


@pytest.fixture(scope="module")
def spares() -> Iterator[Callable[[], Child]]:
    yield from keep_spares()


@pytest.fixture
def world(store: Store, tmp_path: Path) -> ProcessWorld:
    return ProcessWorld(store, tmp_path / "embedded.log", MEMORIES)


def kill(child: Child, world: ProcessWorld, when: Kill) -> None:
    """Let a process refresh and kill it."""
    stop_at = "" if when.after_ms else when.step
    send(child, world.order("killed", stop_at))
    hear_until(child, when.step)
    time.sleep(when.after_ms / 1000)
    child.process.kill()
    child.hear_all()
    assert child.process.returncode == -signal.SIGKILL


def publish_and_change(world: ProcessWorld) -> None:
    assert world.run("first") == "published"
    world.change(revised=["m1"], added=["new"], tombstoned=["m2"])
    world.pass_lease()


def assert_recovers(world: ProcessWorld, base: str | None, missing: int) -> None:
    """Check that the next run does what the pointer of the dead one asks for."""
    pointer = world.read_pointer()
    is_flipped = pointer is not None and pointer.publication_id not in {None, base}
    is_proven = is_flipped and pointer is not None and pointer.phase == "verified"
    outcome = world.read_outcomes()["killed"]
    assert outcome == ("applied" if is_proven else "running")
    embedded = len(world.read_embedded())
    assert world.run("early") == "skipped_busy"
    world.pass_lease()
    said = world.run("next")
    assert said == ("token_match" if is_proven else "adopted" if is_flipped else "published")
    assert len(world.read_embedded()) - embedded == (0 if is_flipped else missing)
    assert world.read_outcomes()["killed"] == ("applied" if is_proven else "abandoned")
    world.assert_billed_once()
    world.assert_settled("last")


@pytest.mark.parametrize(("is_second", "when"), CASES, ids=str)
def test_next_run_heals_a_killed_one(
    world: ProcessWorld, spares: Callable[[], Child], is_second: bool, when: Kill
) -> None:
    if is_second:
        publish_and_change(world)
    before = world.assert_whole()

    kill(spares(), world, when)

    served = world.assert_whole()
    if when in AT_STEPS:
        is_old = when.step in BEFORE_FLIP
        assert served == before if is_old else (served is not None) == (when.step in VERIFIED)
    if served is not None and served != before:
        assert served.rows == world.read_active()
    assert_recovers(world, before.publication_id if before else None, 2 if is_second else MEMORIES)


@pytest.mark.parametrize(
    ("step", "after_ms"), [("token_3", 0), ("token_3", 12), ("after_receipt", 0)]
)
def test_killed_emptying_is_done_or_not(
    world: ProcessWorld, spares: Callable[[], Child], step: str, after_ms: int
) -> None:
    assert world.run("first") == "published"
    world.change(tombstoned=[f"m{number}" for number in range(MEMORIES)])
    world.pass_lease()
    kill(spares(), world, Kill(step, after_ms))
    is_done = world.assert_whole() is None
    assert after_ms or is_done == (step == "after_receipt")
    world.pass_lease()
    assert world.run("next") == ("token_match" if is_done else "published_empty")
    world.assert_settled("last")
    assert len(world.read_embedded()) == MEMORIES


def test_adoption_that_is_killed_is_adopted_again(
    world: ProcessWorld, spares: Callable[[], Child]
) -> None:
    publish_and_change(world)
    for run_id, step in (("flips", "after_flip"), ("adopts", "before_receipt")):
        child = spares()
        send(child, world.order(run_id, step))
        hear_until(child, step)
        child.process.kill()
        child.hear_all()
        assert world.assert_whole() is None
        world.pass_lease()
    world.change(revised=["m3"])
    assert world.run("next") == "published"
    assert [phase for _, phase in world.read_phases()] == ["superseded", "superseded", "verified"]
    world.assert_billed_once()
    world.assert_settled("last")


def test_text_that_kills_the_process_is_left_out(
    world: ProcessWorld, spares: Callable[[], Child]
) -> None:
    publish_and_change(world)
    (poison,) = {row.content_digest for row in world.read_active() if row.memory_id == "new"}
    for run_id in ("dies", "dies-too"):
        child = spares()
        send(child, replace(world.order(run_id), poison=poison))
        child.hear_all()
        assert child.process.returncode == -signal.SIGKILL
        world.assert_whole()
        world.pass_lease()
    child = spares()
    send(child, replace(world.order("lives"), poison=poison))
    assert hear_until(child, ENDED) == "published"
    served = world.read_served()
    assert served is not None
    assert {row.memory_id for row in world.read_active() - served.rows} == {"new"}
    assert world.run("last") == "token_match"


def test_table_that_was_never_finished_is_made_anew(world: ProcessWorld) -> None:
    with world.store.write() as writer:
        history = settle_history(writer, world.store.path, clock=START)
    name = name_vector_table(history.digest, HashingEmbedder.identity.dimension, 0)
    # What Lance leaves when its process dies while it creates a table.
    torn = VectorStore(world.store.path).path / f"{name}.lance" / "_transactions"
    torn.mkdir(parents=True)
    assert world.run("first") == "published"
    world.assert_settled("last")


def change_at_random(world: ProcessWorld, chance: Random) -> None:
    active = sorted(row.memory_id for row in world.read_active())
    revised = chance.sample(active, 2)
    gone = chance.sample([name for name in active if name not in revised], chance.randint(0, 1))
    added = [f"n{len(world.states)}"] * chance.randint(0, 1)
    world.change(revised=revised, added=added, tombstoned=gone)


def test_kills_at_random_moments(world: ProcessWorld, spares: Callable[[], Child]) -> None:
    chance, cut = Random(2029), 0  # noqa: S311 - a seed
    for number in range(KILLS):
        child = spares()
        send(child, *(world.order(f"r{number}-{one}") for one in range(ORDERS)))
        for _ in range(chance.randint(1, 2)):
            time.sleep(chance.uniform(0, LONGEST_S))
            change_at_random(world, chance)
        time.sleep(chance.uniform(0, LONGEST_S))
        child.process.kill()
        child.hear_all()
        world.assert_whole()
        world.assert_billed_once()
        cut += "running" in world.read_outcomes().values()
        world.second += TTL_S
        if chance.random() < 0.3:
            world.run(f"heals-{number}")
            world.assert_settled(f"rests-{number}")
    world.run("next")
    world.assert_settled("last")
    world.assert_billed_once()
    # A run is at work for most of the time.
    assert cut >= KILLS // 5
