"""The flows of jobs without a plan: the same work, states and rows as the inline runner's."""

from collections.abc import Callable
from datetime import datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from helpers.prefect_runs import read_kept, run_flow
from prefect.client.schemas.objects import StateType
from prefect.utilities.callables import parameter_schema

from flows.janitor import janitor
from flows.refresh import refresh
from storage import Store
from storage.runs import list_runs
from tasks.importing import import_file


@pytest.fixture
def filled(store: Store, now: datetime, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Give a store with the sample memories, to be embedded by the hashing embedder."""
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    with as_file(files("deployments").joinpath("data", "sample.jsonl")) as sample:
        import_file(store, sample, clock=now)
    return store


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_refresh_publishes_and_then_does_nothing(filled: Store) -> None:
    first = run_flow("refresh", filled.path)
    assert (first.type, first.name) == (StateType.COMPLETED, "applied")
    second = run_flow("refresh", filled.path)
    assert (second.type, second.name) == (StateType.COMPLETED, "unchanged")
    with filled.read() as reader:
        contents = [row[0] for row in reader.rows("SELECT content FROM memories")]
        runs = list_runs(reader, limit=2)
    assert [run["outcome"] for run in runs] == ["unchanged", "applied"]
    kept = read_kept(first)
    assert 0 < len(kept.task_runs) <= 20
    assert not [text for text in contents if text in kept.texts()]


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_plan_mode_writes_nothing(filled: Store) -> None:
    for job in ("refresh", "janitor"):
        state = run_flow(job, filled.path, mode="plan")
        assert (state.type, state.name) == (StateType.COMPLETED, "planned")
    with filled.read() as reader:
        assert list_runs(reader, limit=5) == []
    assert not (filled.path / "vectors").exists()


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_janitor_ends_unchanged_where_nothing_is_due(filled: Store) -> None:
    run_flow("refresh", filled.path)
    state = run_flow("janitor", filled.path)
    assert (state.type, state.name) == (StateType.COMPLETED, "unchanged")


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_embedder_that_cannot_be_loaded_refuses_the_run(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "there is none")
    state = run_flow("refresh", filled.path)
    assert (state.type, state.name) == (StateType.FAILED, "refused")


@pytest.mark.parametrize("flow", [refresh, janitor])
def test_form_describes_each_field_of_the_policy(flow: Callable[..., Any]) -> None:
    schema = parameter_schema(flow).model_dump()
    (policy,) = (one for name, one in schema["definitions"].items() if name.endswith("Policy"))
    assert all(field.get("description") for field in policy["properties"].values())
    assert Path(schema["properties"]["store"]["default"]) == Path()
