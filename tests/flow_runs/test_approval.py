"""A plan over a limit waits for a person: what was shown is applied, or nothing."""

from datetime import datetime
from importlib.resources import as_file, files
from uuid import UUID

import pytest
from helpers.deployed_runs import execute, order_run, resume
from helpers.prefect_runs import read_kept
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.states import Scheduled

from storage import Store
from storage.leases import acquire_lease, release_lease
from storage.models import DEFAULT_NAMESPACE, Namespace
from storage.namespaces import ensure_namespace
from storage.runs import list_runs
from tasks.importing import import_file

OTHER = Namespace(tenant="t", principal="p", scope="s")
ANSWER = {"approver": "pat", "note": "as announced"}
CONTENTS = "SELECT content FROM memories"
pytestmark = [pytest.mark.slow, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def filled(store: Store, now: datetime) -> Store:
    _import_sample(store, DEFAULT_NAMESPACE, now)
    return store


def _import_sample(store: Store, namespace: Namespace, now: datetime) -> None:
    with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
        import_file(store, sample, namespace=namespace, clock=now)


def ask(store: Store, now: datetime, **parameters: object) -> UUID:
    """Start a sweep whose plan is over its limit, and let it wait."""
    form = {"mode": "apply", "limits": {"max_rows": 5}, "now": now.isoformat()} | parameters
    ordered = order_run("sweep", store.path, **form)
    state = execute(ordered.id)
    assert (state.type, state.name) == (StateType.PAUSED, "Suspended")
    return ordered.id


def read_outcomes(store: Store) -> list[str]:
    with store.read() as reader:
        return [run["outcome"] for run in reversed(list_runs(reader, limit=9))]


def test_approved_plan_is_applied_and_no_other(filled: Store, now: datetime) -> None:
    flow_run_id = ask(filled, now)
    assert resume(flow_run_id, decision="approve", **ANSWER) == "ACCEPT"
    state = execute(flow_run_id)
    assert (state.type, state.name) == (StateType.COMPLETED, "applied")
    with filled.read() as reader:
        last, first = list_runs(reader, limit=9)
        contents = [row[0] for row in reader.rows(CONTENTS)]
    assert (first["outcome"], last["outcome"]) == ("refused", "applied")
    assert first["plan_id"] == last["plan_id"]
    kept = read_kept(state, executions=2)
    assert len(kept.task_runs) <= 20
    assert any(ANSWER["note"] in text for text in kept.artifacts)
    assert not [text for text in contents if text in kept.texts()]


def test_what_changed_while_waiting_is_left_alone(filled: Store, now: datetime) -> None:
    flow_run_id = ask(filled, now)
    with filled.write() as writer:
        writer.execute("UPDATE memories SET revision = revision + 1 WHERE id = 'greeting-1'")
    resume(flow_run_id, decision="approve", **ANSWER)
    assert execute(flow_run_id).name == "applied"
    with filled.read() as reader:
        skipped = list_runs(reader, limit=1)[0]["skipped"]
    assert skipped == {"changed_since_plan": 1}


def test_rejected_plan_ends_refused_and_changes_nothing(filled: Store, now: datetime) -> None:
    with filled.read() as reader:
        before = reader.rows("SELECT id, status, revision FROM memories ORDER BY id")
    flow_run_id = ask(filled, now)
    resume(flow_run_id, decision="reject", **ANSWER)
    state = execute(flow_run_id)
    assert (state.type, state.name) == (StateType.FAILED, "refused")
    assert read_outcomes(filled) == ["refused"]
    with filled.read() as reader:
        assert reader.rows("SELECT id, status, revision FROM memories ORDER BY id") == before


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"decision": "approve"}, id="nobody"),
        pytest.param({"decision": "maybe", "approver": "pat"}, id="no-decision"),
        pytest.param({"decision": "approve", "approver": "pat", "all": "yes"}, id="unknown-field"),
    ],
)
def test_answer_that_is_none_leaves_the_run_waiting(
    answer: dict[str, str], filled: Store, now: datetime
) -> None:
    assert resume(ask(filled, now), **answer) == "REJECT"
    assert read_outcomes(filled) == ["refused"]


def test_nothing_is_held_while_waiting(filled: Store, now: datetime) -> None:
    ask(filled, now)
    with filled.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        assert acquire_lease(writer, owner, "sweep", holder="other", clock=now)
    ordered = order_run("prune", filled.path, mode="plan", now=now.isoformat())
    assert execute(ordered.id).name in {"planned", "unchanged"}


def test_each_namespace_is_asked_about_and_decided_by_itself(filled: Store, now: datetime) -> None:
    _import_sample(filled, OTHER, now)
    flow_run_id = ask(filled, now)
    resume(flow_run_id, decision="reject", **ANSWER)
    assert execute(flow_run_id).name == "Suspended"
    resume(flow_run_id, decision="approve", **ANSWER)
    assert execute(flow_run_id).name == "refused"
    assert read_outcomes(filled) == ["refused", "refused", "applied"]


def test_limit_refuses_at_once_where_nobody_is_asked(filled: Store, now: datetime) -> None:
    form = {"mode": "apply", "limits": {"max_rows": 5}, "now": now.isoformat()}
    ordered = order_run("sweep", filled.path, approval="refuse", **form)
    assert execute(ordered.id).name == "refused"


def test_run_that_is_tried_again_works_again(filled: Store, now: datetime) -> None:
    """V14: only a run that waits for an answer goes on with what it did before."""
    with filled.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        clock = datetime.now(now.tzinfo)
        lease = acquire_lease(writer, owner, "sweep", holder="other", clock=clock)
    ordered = order_run("sweep", filled.path, mode="apply", now=now.isoformat())
    assert execute(ordered.id).name == "skipped_busy"
    with filled.write() as writer:
        release_lease(writer, lease, clock=clock)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(ordered.id, Scheduled(), force=True)
    assert execute(ordered.id).name == "applied"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for a lease."""
    monkeypatch.setattr("flows.approval._PAUSES_S", (0, 0))


@pytest.mark.usefixtures("impatient")
def test_approved_plan_that_finds_another_run_at_work_is_skipped(
    filled: Store, now: datetime
) -> None:
    flow_run_id = ask(filled, now)
    with filled.write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        acquire_lease(writer, owner, "sweep", holder="other", clock=datetime.now(now.tzinfo))
    resume(flow_run_id, decision="approve", **ANSWER)
    assert execute(flow_run_id).name == "skipped_busy"
