"""memtend itself, through the same calls that its runner makes."""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.data import NOW, Seed
from benchmarks.work import Read, Work

from storage import Store, open_store
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import StoredNamespace, find_namespace
from storage.plans import store_plan
from storage.queries import read_statements
from storage.runs import Mode
from tasks.inline import run_job
from tasks.limits import SafetyLimits
from tasks.policies import Policy, PrunePolicy, SweepPolicy
from tasks.requests import JobRequest
from tasks.rules.decide import decide_prune
from tasks.sweep import plan_sweep

_SQL = read_statements("benchmarks", "duckdb")


@contextmanager
def sweep_in_session(seed: Seed) -> Iterator[Work]:
    """Plan a sweep and store the plan durably, in a session that is open already."""
    store = open_store(seed.store)
    namespace = _find_namespace(store)

    def run() -> Read:
        with store.read() as reader:
            plan = plan_sweep(reader, SweepPolicy(), namespace=namespace, now=NOW)
        with store.write() as writer:
            store_plan(writer, plan, clock=NOW)
        return lambda: _read_pairs(store, "read_decided")

    with store.session():
        yield run


@contextmanager
def sweep_by_runner(seed: Seed) -> Iterator[Work]:
    """Run the whole job in mode plan: locks, opening, lease, run row, plan."""
    yield lambda: _run(seed, "sweep", SweepPolicy(), mode="plan")


@contextmanager
def prune_decide(seed: Seed) -> Iterator[Work]:
    """Decide a prune under a cap, into an Arrow table."""
    store = open_store(seed.store)
    policy = PrunePolicy(max_items=seed.cap)
    namespace_id = _find_namespace(store).namespace_id

    def run() -> Read:
        with store.read() as reader:
            verdicts = decide_prune(reader, policy, namespace_id=namespace_id, now=NOW)
        chosen = verdicts.decisions.select(["reason", "memory_id"])
        return lambda: zip(*(column.to_pylist() for column in chosen.columns), strict=True)

    with store.session():
        yield run


@contextmanager
def prune_apply(seed: Seed) -> Iterator[Work]:
    """Run the whole job in mode apply: plan, guard, batches with receipts, the run's end."""
    yield lambda: _run(seed, "prune", PrunePolicy(max_items=seed.cap), mode="apply")


def _run(seed: Seed, job: str, policy: Policy, *, mode: Mode) -> Read:
    request = JobRequest(
        store=seed.store,
        job=job,
        policy=policy,
        now=NOW,
        clock=lambda: NOW,
        new_run_id=lambda: "benchmark",
        mode=mode,
        limits=SafetyLimits(max_fraction=1.0),
    )
    (result,) = run_job(request)
    if result.error is not None:
        raise RuntimeError(str(result.error))
    statement = "read_applied" if mode == "apply" else "read_decided"
    return lambda: _read_pairs(open_store(seed.store), statement)


def _read_pairs(store: Store, statement: str) -> list[tuple[str, str]]:
    with store.read() as reader:
        return [(reason, memory_id) for reason, memory_id in reader.rows(_SQL[statement])]


def _find_namespace(store: Store) -> StoredNamespace:
    with store.read() as reader:
        found = find_namespace(reader, DEFAULT_NAMESPACE)
    if found is None:
        message = "the seeded store has no namespace"
        raise RuntimeError(message)
    return found
