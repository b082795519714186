"""A refresh that is cancelled or gets SIGTERM: before the flip it ends, after it it finishes.

Source: spec/maintenance.md R42, R43.
"""

import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from helpers.children import Child, start_child
from helpers.embedders import ScriptedEmbedder
from helpers.refresh_processes import ENDED, ProcessWorld, hear_until, send
from helpers.runs import request_job, run_one
from helpers.sets import SPACE, START

from storage import Store
from storage.leases import request_cancel
from tasks.policies import RefreshPolicy
from tasks.requests import EmbedderChoice

pytestmark = pytest.mark.slow

MEMORIES = 5


@pytest.fixture
def world(store: Store, tmp_path: Path) -> ProcessWorld:
    return ProcessWorld(store, tmp_path / "log", MEMORIES)


def cancel(store: Store) -> None:
    with store.write() as writer:
        assert request_cancel(writer, job="refresh", clock=START) == 1


def run_cancelled(world: ProcessWorld, step: str) -> str:
    def on_step(name: str) -> None:
        if name == step:
            cancel(world.store)

    return world.run("cancelled", on_step)


@pytest.mark.parametrize("step", ["embedding", "added", "before_publish"])
def test_refresh_that_is_cancelled_before_the_flip_serves_nothing(
    world: ProcessWorld, step: str
) -> None:
    assert run_cancelled(world, step) == "cancelled"
    assert world.read_served() is None
    assert [phase for _, phase in world.read_phases()] == ["abandoned"]
    assert world.read_outcomes() == {"cancelled": "failed"}
    world.run("next")
    world.assert_settled("last")


@pytest.mark.parametrize("step", ["after_flip", "before_verify", "before_receipt"])
def test_refresh_that_is_cancelled_after_the_flip_finishes(world: ProcessWorld, step: str) -> None:
    """V89."""
    assert run_cancelled(world, step) == "published"
    assert world.read_outcomes() == {"cancelled": "applied"}
    world.assert_settled("last")


def test_job_polls_between_batches(store: Store, world: ProcessWorld) -> None:
    """V88: the embedder is asked no more once somebody wants the run to end."""
    ticks = count()

    def ask_to_end(answer: object) -> object:
        cancel(store)
        return answer

    embedder = ScriptedEmbedder(script=[ask_to_end])
    request = request_job(
        store,
        job="refresh",
        policy=RefreshPolicy(),
        namespace=SPACE,
        now=START,
        mode="apply",
        clock=lambda: START + timedelta(seconds=next(ticks)),
        embedder=EmbedderChoice("tests:embedder", lambda: embedder),
    )
    world.change(added=[f"more{number}" for number in range(100)])
    end = run_one(request).end
    assert (end.outcome, end.code) == ("failed", "cancelled")
    assert len(embedder.calls) == 1
    assert world.read_phases() == []
    with store.read() as reader:
        marked = (
            "SELECT count(*) FROM embedding_attempts WHERE in_flight IS NOT NULL OR crashes > 0"
        )
        assert reader.rows(marked) == [(0,)]


@pytest.fixture
def child() -> Iterator[Child]:
    with start_child("refresh_on_order") as child:
        assert child.hear() == "ready"
        yield child


def stand_at(world: ProcessWorld, child: Child, step: str) -> None:
    send(child, world.order("terminated", stop_at=step))
    hear_until(child, step)


def wait_until_gone(child: Child) -> int:
    return child.process.wait(timeout=30)


def is_alive(child: Child) -> bool:
    time.sleep(0.3)
    return child.process.poll() is None


def test_sigterm_after_the_flip_waits_for_the_receipt(world: ProcessWorld, child: Child) -> None:
    stand_at(world, child, "after_flip")
    child.process.send_signal(signal.SIGTERM)
    assert is_alive(child)
    send(child, None)
    assert wait_until_gone(child) == -signal.SIGTERM
    assert not [line for line in child.hear_all() if line.startswith(ENDED)]
    assert world.read_outcomes() == {"terminated": "applied"}
    world.pass_lease()
    world.assert_settled("last")


def test_sigterm_before_the_flip_ends_the_run_at_once(world: ProcessWorld, child: Child) -> None:
    stand_at(world, child, "before_stage")
    child.process.send_signal(signal.SIGTERM)
    assert wait_until_gone(child) == -signal.SIGTERM
    assert world.read_served() is None
    world.pass_lease()
    assert world.run("next") == "published"
    assert world.read_outcomes() == {"terminated": "abandoned", "next": "applied"}


def test_second_sigterm_is_not_held_back(world: ProcessWorld, child: Child) -> None:
    """V90: what it leaves, the next run adopts."""
    stand_at(world, child, "after_flip")
    child.process.send_signal(signal.SIGTERM)
    assert is_alive(child)
    child.process.send_signal(signal.SIGTERM)
    assert wait_until_gone(child) == -signal.SIGTERM
    world.pass_lease()
    assert world.run("next") == "adopted"
    world.assert_settled("last")


def test_sigterm_is_held_back_for_the_shutdown_timeout_only(
    world: ProcessWorld, child: Child
) -> None:
    stand_at(world, child, "after_flip")
    started = time.monotonic()
    child.process.send_signal(signal.SIGTERM)
    assert wait_until_gone(child) == -signal.SIGTERM
    assert 4.5 < time.monotonic() - started < 15
