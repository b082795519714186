"""Leases are granted one at a time, by the clock alone; a run that lost its lease writes nothing.

The ids of the cases are those of spec/maintenance.md 4.2; their instants are seconds after NOW.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Literal, NamedTuple

import pytest
from helpers.children import Child, start_child
from helpers.rows import NOW
from helpers.runs import dump_tables

from storage import Store, StoreWriter
from storage.errors import FenceLostError, LeaseHeldError
from storage.leases import Lease, acquire_lease, keep_lease, release_lease
from storage.models import Namespace
from storage.namespaces import ensure_namespace

ROUNDS = 50
READ_LEASE = "SELECT lease_fence, holder, expires_at FROM leases WHERE lease_key = $lease_key"


class Step(NamedTuple):
    """What a run does at an instant, and what the lease says then."""

    at_s: int
    run: str
    act: Literal["asks", "keeps", "releases"]
    answer: str
    job: str = "prune"
    scope: str = "a"


A_ASKS = Step(0, "A", "asks", "fence 1 of A until 300")
TAKE_OVER = [
    A_ASKS,
    Step(299, "B", "asks", "lease_held"),
    Step(300, "B", "asks", "fence 2 of B until 600"),
    Step(301, "A", "keeps", "lease_lost"),
    Step(302, "A", "releases", "fence 2 of B until 600"),
    Step(310, "B", "releases", "fence 2 of None until 310"),
    Step(310, "C", "asks", "fence 3 of C until 610"),
]
PROLONGED = [
    A_ASKS,
    Step(100, "A", "keeps", "fence 1 of A until 400"),
    Step(399, "B", "asks", "lease_held"),
    Step(400, "B", "asks", "fence 2 of B until 700"),
]


def other(answer: str, *, job: str = "prune", scope: str = "a") -> list[Step]:
    """Let B ask for something else while A holds the lease of prune in a."""
    return [A_ASKS, Step(1, "B", "asks", answer, job, scope)]


class Scene:
    """The leases that the runs of a case hold."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leases: dict[str, Lease] = {}

    def play(self, step: Step) -> str:
        """Take one step in a transaction of its own; an error must leave no trace."""
        before = dump_tables(self._store)
        try:
            with self._store.write() as writer:
                self._act(writer, step)
                return self._describe(writer, step)
        except LeaseHeldError as error:
            answer = str(error.facts["reason"])
        except FenceLostError as error:
            answer = error.code
        assert dump_tables(self._store) == before
        return answer

    def _act(self, writer: StoreWriter, step: Step) -> None:
        clock = NOW + timedelta(seconds=step.at_s)
        if step.act == "asks":
            owner = ensure_namespace(writer, Namespace(tenant="t", principal="p", scope=step.scope))
            lease = acquire_lease(writer, owner, step.job, holder=step.run, clock=clock)
            self._leases[step.run] = lease
        else:
            act = keep_lease if step.act == "keeps" else release_lease
            act(writer, self._leases[step.run], clock=clock)

    def _describe(self, writer: StoreWriter, step: Step) -> str:
        key = {"lease_key": self._leases[step.run].lease_key}
        ((fence, holder, until),) = writer.rows(READ_LEASE, key)
        return f"fence {fence} of {holder} until {(until - NOW) // timedelta(seconds=1)}"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(TAKE_OVER[:1], id="V21-first-grant"),
        pytest.param(TAKE_OVER[:2], id="V22-live-lease-is-held"),
        pytest.param(TAKE_OVER[:3], id="V23-expired-lease-is-taken-over"),
        pytest.param(TAKE_OVER[:4], id="V24-old-fence-cannot-keep"),
        pytest.param(TAKE_OVER[:5], id="V25-old-fence-cannot-release"),
        pytest.param(TAKE_OVER, id="V26-released-lease-is-granted-at-once"),
        pytest.param(PROLONGED[:3], id="V27-prolonged-lease-is-held"),
        pytest.param(PROLONGED[:2] + PROLONGED[3:], id="V27-prolonged-lease-expires"),
        pytest.param(other("excluded_job", job="consolidate"), id="V29-other-job-is-excluded"),
        pytest.param(
            other("fence 1 of B until 301", job="refresh"), id="V30-refresh-runs-beside-prune"
        ),
        pytest.param(other("excluded_job", job="erase"), id="V30-erase-is-excluded"),
        pytest.param(other("fence 1 of B until 301", scope="b"), id="V31-other-namespace-is-free"),
    ],
)
def test_lease_follows_the_clock(store: Store, steps: Sequence[Step]) -> None:
    scene = Scene(store)
    with store.session():
        assert [scene.play(step) for step in steps] == [step.answer for step in steps]


def ask(child: Child, clock_s: int) -> None:
    assert child.process.stdin is not None
    child.process.stdin.write(f"{clock_s}\n")
    child.process.stdin.flush()


@pytest.mark.slow
def test_two_processes_that_ask_at_once_get_one_grant_a_round(store: Store) -> None:
    """V28; a round begins when the lease of the one before has just run out."""
    answers: list[set[str]] = []
    with ExitStack() as stack:
        pair = [stack.enter_context(start_child("ask_lease", store.path, name)) for name in "AB"]
        assert [child.hear() for child in pair] == ["ready", "ready"]
        for number in range(ROUNDS):
            for child in pair:
                ask(child, number * 300)
            answers.append({child.hear() for child in pair})
    assert answers == [{str(number), "busy"} for number in range(1, ROUNDS + 1)]
