"""The flows: the stages of the inline runner, with states, task runs and artifacts of Prefect."""

import logging
import shutil
from collections.abc import Callable
from datetime import datetime
from importlib.resources import as_file, files
from typing import Any

import pytest
from helpers.changes import fail_writes_of
from helpers.prefect_runs import FLOWS, Kept, read_kept, run_flow
from helpers.runs import Rows, dump_tables, request_job, run_one
from prefect.client.schemas.objects import StateType
from prefect.utilities.callables import parameter_schema

from flows.edge import read_clock
from storage import Store
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace, list_namespaces
from tasks.importing import import_file
from tasks.limits import SafetyLimits
from tasks.policies import Policy, PrunePolicy, SweepPolicy

CANARY = "canary-7f3e"
NAMESPACES = [Namespace(tenant="t", principal="p", scope=f"s{n:02}") for n in range(12)]
POLICIES: dict[str, Policy] = {
    "prune": PrunePolicy(max_age_days=60, min_importance_to_keep=0.65),
    "sweep": SweepPolicy(),
}
ALL = SafetyLimits(max_fraction=1.0)
# What two runners cannot have in common: wall time and the ids of runs.
UNCOMPARED = {
    "plans": ["created_at"],
    "decisions": ["run_id"],
    "apply_receipts": ["run_id", "applied_at"],
    "runs": ["run_id", "flow_run_id", "started_at", "ended_at"],
    "leases": ["heartbeat_at", "expires_at"],
    "epochs": ["opened_at", "closed_at"],
}
COLUMNS = """
SELECT columns(lambda name: NOT list_contains($without::TEXT[], name))
FROM query_table($table)
"""
CONTENTS = "SELECT content FROM memories"
# A statement that quotes what it was asked to store, as engines do in their messages.
FAIL_DECISIONS = """
CREATE TABLE touched (text TEXT);
CREATE TRIGGER fail_decisions AFTER INSERT ON decisions
REFERENCING NEW TABLE AS incoming FOR EACH STATEMENT
INSERT INTO touched SELECT error('canary-7f3e') FROM incoming;
"""
SPOIL_PLANS = "UPDATE plans SET policy = $policy"


@pytest.fixture
def filled(store: Store, now: datetime) -> Store:
    """Give a store with the sample memories: the sweep expires, cools and purges some."""
    _import_sample(store, DEFAULT_NAMESPACE, now)
    return store


def _import_sample(store: Store, namespace: Namespace, now: datetime) -> None:
    with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
        report = import_file(store, sample, namespace=namespace, clock=now)
    assert report.imported == report.read


def read_compared(store: Store) -> Rows:
    tables = {table: UNCOMPARED.get(table, []) for table in dump_tables(store)}
    with store.read() as reader:
        return {
            table: sorted(
                reader.rows(COLUMNS, {"table": table, "without": without}),
                key=repr,
            )
            for table, without in tables.items()
        }


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("job", ["prune", "sweep"])
def test_flow_and_inline_runner_do_the_same(job: str, filled: Store, now: datetime) -> None:
    twin = Store(filled.path.with_name("twin"))
    shutil.copytree(filled.path, twin.path)
    options: dict[str, Any] = {"policy": POLICIES[job], "limits": ALL, "now": now}
    for mode, outcome in (("plan", "planned"), ("apply", "applied")):
        result = run_one(request_job(twin, job=job, mode=mode, **options))
        state = run_flow(job, filled.path, mode=mode, **options)
        assert (state.type, state.name) == (StateType.COMPLETED, result.end.outcome)
        assert result.end.outcome == outcome
        assert read_compared(filled) == read_compared(twin)


def leave(_store: Store) -> None:
    """Change nothing."""


def empty(store: Store) -> None:
    with store.write() as writer:
        writer.execute("DELETE FROM memories")


def hold_lease(store: Store) -> None:
    with store.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        acquire_lease(writer, owner, "prune", holder="other", clock=read_clock())


def fail_some(store: Store) -> None:
    fail_writes_of(store, ["greeting-1", "greeting-2"])


def remove(store: Store) -> None:
    shutil.rmtree(store.path)


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    ("prepare", "limits", "state_type", "name"),
    [
        pytest.param(empty, ALL, StateType.COMPLETED, "unchanged", id="unchanged"),
        pytest.param(leave, SafetyLimits(max_rows=0), StateType.FAILED, "refused", id="refused"),
        pytest.param(hold_lease, ALL, StateType.COMPLETED, "skipped_busy", id="skipped_busy"),
        pytest.param(fail_some, ALL, StateType.COMPLETED, "partial", id="partial"),
        pytest.param(remove, ALL, StateType.FAILED, "failed", id="failed"),
    ],
)
def test_outcome_is_name_and_type_of_the_state(  # noqa: PLR0913, PLR0917 - one column each
    prepare: Callable[[Store], None],
    limits: SafetyLimits,
    state_type: StateType,
    name: str,
    filled: Store,
    now: datetime,
) -> None:
    prepare(filled)
    state = run_flow("sweep", filled.path, mode="apply", limits=limits, now=now)
    assert (state.type, state.name) == (state_type, name)


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_run_over_many_namespaces_stays_within_its_task_runs(store: Store, now: datetime) -> None:
    for namespace in NAMESPACES:
        _import_sample(store, namespace, now)
    kept = read_kept(run_flow("sweep", store.path, mode="plan", now=now))
    assert 0 < len(kept.task_runs) <= 20
    assert_summary(store, kept)


def assert_summary(store: Store, kept: Kept) -> None:
    """Check the summary: a line for each namespace, the figures of its run, no content."""
    (summary,) = (text for text in kept.artifacts if text.startswith("## sweep, plan, manual"))
    with store.read() as reader:
        contents = [row[0] for row in reader.rows(CONTENTS)]
        assert len(list_namespaces(reader)) == len(NAMESPACES) + 1
    lines = summary.splitlines()[2:]
    for namespace in NAMESPACES:
        (line,) = (line for line in lines if f"/{namespace.scope} " in line)
        assert "| planned | 13 | 0 | dry_run 13 | 0 |" in line
    assert not [text for text in contents if text in kept.texts()]


def spoil_policy(store: Store, now: datetime) -> dict[str, object]:
    """Store a plan that no job can have stored; reading its policy fails and quotes it."""
    policy = PrunePolicy(max_items=5)
    result = run_one(request_job(store, job="prune", policy=policy, now=now))
    with store.write() as writer:
        writer.execute(SPOIL_PLANS, {"policy": f'{{"cap_order":"{CANARY}"}}'})
    return {"plan_id": result.end.plan_id}


def fail_decisions(store: Store, _now: datetime) -> dict[str, object]:
    with store.write() as writer:
        writer.run_script(FAIL_DECISIONS)
    return {}


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize(
    ("inject", "name"),
    [
        pytest.param(fail_decisions, "StorageError", id="engine-error"),
        pytest.param(spoil_policy, "ValidationError", id="V46-unexpected-error"),
    ],
)
def test_text_of_an_error_reaches_nobody(
    inject: Callable[[Store, datetime], dict[str, object]],
    name: str,
    filled: Store,
    now: datetime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="prefect")
    options = inject(filled, now) | {"policy": PrunePolicy(max_items=5), "limits": ALL}
    state = run_flow("prune", filled.path, mode="apply", now=now, **options)
    assert (state.type, state.name) == (StateType.FAILED, "failed")
    kept = read_kept(state)
    assert name in caplog.text
    assert name in kept.texts()
    rows = dump_tables(filled, without=["plans", "touched"])
    assert CANARY not in f"{caplog.text} {kept.texts()} {rows}"


@pytest.mark.parametrize("job", ["prune", "sweep"])
def test_form_describes_and_bounds_every_field(job: str) -> None:
    schema = parameter_schema(FLOWS[job]).model_dump()
    assert all(field["description"] for field in schema["properties"].values())
    for model in schema["definitions"].values():
        assert model["additionalProperties"] is False
        assert all(field["description"] for field in model["properties"].values())


@pytest.mark.parametrize("job", ["prune", "sweep"])
def test_form_bounds_every_number(job: str) -> None:
    models = parameter_schema(FLOWS[job]).model_dump()["definitions"]
    policy = models[type(POLICIES[job]).__name__]["properties"]
    numbers = {
        name: field for name, field in policy.items() if field.get("type") in {"integer", "number"}
    }
    assert numbers
    for field in numbers.values():
        assert "minimum" in field
        assert field["minimum"] <= field["default"] <= field.get("maximum", field["default"])
