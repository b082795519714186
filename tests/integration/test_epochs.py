"""Ownership epochs and metrics: what they count, when they begin anew (spec/maintenance.md 4.4)."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from helpers.embedders import IDENTITY, ScriptedEmbedder
from helpers.rows import NOW

from storage import Store
from storage.digests import lease_key, namespace_key
from storage.epochs import (
    Metrics,
    derive_owner_key,
    enter_epoch,
    list_epochs,
    read_metrics,
    reset_epoch,
)
from storage.gateway import DATABASE_FILE
from storage.identities import digest_store_history
from storage.leases import acquire_lease, release_lease
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace
from storage.runs import Outcome, RunEnd, RunStart, begin_run, finish_run, record_skipped
from tasks.inline import run_job
from tasks.policies import RefreshPolicy
from tasks.requests import EmbedderChoice, JobRequest

MAX = 2**63 - 1
GENERATION = "sha256:11a88c5cce8d156520619fc24ddb2580f51ba972deaa8aac192a7541eebcb76b"
UUID = "00000000-0000-4000-8000-000000000001"
COMPLETE = Namespace(tenant="tenant", principal="principal", scope="complete")


class Runs:
    """Runs of one job, each three milliseconds long."""

    def __init__(self, store: Store, job: str = "prune") -> None:
        self.store = store
        self.job = job
        self.count = 0
        with store.write() as writer:
            self.target = ensure_namespace(writer, DEFAULT_NAMESPACE)

    def settle(self, outcome: Outcome, *, applied: int = 0, **figures: int) -> None:
        start = self._start()
        ended = start.started_at + timedelta(milliseconds=3)
        end = RunEnd(outcome, found=applied, applied=applied, figures=figures)
        with self.store.write() as writer:
            lease = acquire_lease(
                writer, self.target, self.job, holder=start.run_id, clock=start.started_at
            )
            begin_run(writer, start, lease_fence=lease.fence)
            enter_epoch(writer, lease, clock=start.started_at)
            if outcome != "abandoned":
                finish_run(writer, start.run_id, end, clock=ended)
            release_lease(writer, lease, clock=ended)

    def skip(self) -> None:
        with self.store.write() as writer:
            record_skipped(writer, self._start(), RunEnd("skipped_busy", code="lease_held"))

    def _start(self) -> RunStart:
        self.count += 1
        at = NOW + timedelta(seconds=self.count)
        owner = self.target.namespace_id
        return RunStart(f"run-{self.count:03}", self.job, owner, "apply", "manual", at, at)

    def metrics(self, epoch: int | None = None) -> Metrics:
        with self.store.read() as reader:
            return read_metrics(reader, self.target.namespace_id, self.job, epoch=epoch)


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store)


def test_owner_keys_are_the_golden_ones() -> None:
    history, key = digest_store_history(UUID), namespace_key(COMPLETE)
    refresh, prune = lease_key("main", key, "refresh"), lease_key("main", key, "prune")
    assert derive_owner_key(history, refresh, GENERATION) == (
        "sha256:91c0a6f4c8e5e3a3e5b3247891ac74a4f3aae789c3be2aaaa8e494b62e66c715"
    )
    assert prune == "mtl_7bdc5eb49405dde63a842752dd4fbfecd34b8c4f87059088e7ffc95be7748440"
    assert derive_owner_key(history, prune) == (
        "sha256:404ace76f0da40d224c012606082585fe40646aec64f5e6c82c42585bc8e28d2"
    )


def test_epoch_begins_with_the_first_run_and_lasts(runs: Runs) -> None:
    assert runs.metrics().epoch == 0
    runs.settle("applied")
    runs.settle("unchanged")
    assert runs.metrics().epoch == 1
    assert runs.metrics().totals["attempted_runs"] == 2


def test_recent_runs_are_the_last_64_and_sums_cover_all(runs: Runs) -> None:
    with runs.store.session():
        for _ in range(67):
            runs.settle("unchanged", token_requests=3, provider_input_bytes=128)
    found = runs.metrics()
    assert found.totals["attempted_runs"] == 67
    assert [len(found.recent), found.recent[-1]["sequence"], found.recent[0]["sequence"]] == [
        64,
        4,
        67,
    ]
    assert (found.totals["total_elapsed_ms"], found.totals["max_elapsed_ms"]) == (201, 3)
    assert found.counters == {"provider_input_bytes": 8576, "token_requests": 201}
    assert sum(run["figures"]["token_requests"] for run in found.recent) == 192


@pytest.mark.parametrize(("first", "more"), [(MAX, 5), (9223372036854775800, 100)])
def test_counters_stop_at_the_largest_number(runs: Runs, first: int, more: int) -> None:
    runs.settle("applied", tokens=first)
    runs.settle("applied", tokens=more)
    assert runs.metrics().counters == {"tokens": MAX}


def test_only_attempts_are_numbered(runs: Runs) -> None:
    for outcome in ("applied", "applied", "unchanged", "failed", "refused"):
        runs.settle(outcome)
    for _ in range(3):
        runs.skip()
    runs.settle("abandoned")
    runs.settle("applied")
    found = runs.metrics().totals
    assert found["attempted_runs"] == 5
    names = ("skipped_runs", "refused_runs", "abandoned_runs")
    assert [found[name] for name in names] == [3, 1, 1]
    assert [run["sequence"] for run in runs.metrics().recent] == [5, 4, 3, 2, 1]


def test_affected_items_are_summed(runs: Runs) -> None:
    for outcome, applied in (
        ("applied", 2),
        ("unchanged", 0),
        ("applied", 2),
        ("failed", 0),
        ("applied", 2),
        ("applied", 1),
    ):
        runs.settle(cast("Outcome", outcome), applied=applied)
    found = runs.metrics().totals
    names = ("successful_runs", "failed_runs", "total_affected_items", "last_affected_items")
    assert [found[name] for name in names] == [5, 1, 7, 1]


def test_reset_begins_at_zero_and_keeps_what_was(runs: Runs) -> None:
    runs.settle("applied", applied=2)
    with runs.store.write() as writer:
        assert reset_epoch(writer, runs.target.namespace_id, runs.job, clock=NOW) == 2
    assert runs.metrics().totals["attempted_runs"] == 0
    assert runs.metrics(epoch=1).totals["total_affected_items"] == 2
    runs.settle("applied")
    assert runs.metrics().epoch == 2
    with runs.store.read() as reader:
        epochs = list_epochs(reader, runs.target.namespace_id, runs.job)
    assert [one["closed_at"] is None for one in epochs] == [False, True]


def refresh(store: Store, revision: str) -> None:
    identity = IDENTITY.model_copy(update={"revision": revision})
    request = JobRequest(
        store=store.path,
        job="refresh",
        policy=RefreshPolicy(),
        now=NOW,
        clock=lambda: datetime.now(UTC),
        new_run_id=lambda: f"run-{revision}-{datetime.now(UTC).timestamp()}",
        mode="apply",
        embedder=EmbedderChoice("mine", lambda: ScriptedEmbedder(identity=identity)),
    )
    (result,) = run_job(request)
    assert result.error is None


def test_other_model_is_another_epoch_of_refresh_alone(store: Store, runs: Runs) -> None:
    runs.settle("applied")
    refreshes = Runs(store, "refresh")
    refresh(store, "r1")
    refresh(store, "r1")
    assert (refreshes.metrics().epoch, refreshes.metrics().totals["attempted_runs"]) == (1, 2)
    refresh(store, "r2")
    assert (refreshes.metrics().epoch, refreshes.metrics().totals["attempted_runs"]) == (2, 1)
    assert runs.metrics().epoch == 1


def test_copied_store_is_another_epoch(store: Store) -> None:
    refreshes = Runs(store, "refresh")
    refresh(store, "r1")
    file = store.path / DATABASE_FILE
    copy = file.with_suffix(".copy")
    shutil.copy(file, copy)
    copy.replace(file)
    refresh(store, "r1")
    assert refreshes.metrics().epoch == 2


def test_metrics_say_nothing_of_any_memory(store: Store) -> None:
    refreshes = Runs(store, "refresh")
    refresh(store, "r1")
    found = refreshes.metrics()
    text = json.dumps([found.totals, found.counters, found.recent], default=str)
    assert not [word for word in ("fixture", "sha256", "run-r1", "pub_") if word in text]
