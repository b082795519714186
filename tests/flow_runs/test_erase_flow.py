"""The erase flow: the same work as the inline runner, and no artifact names what is gone."""

from pathlib import Path

import pytest
from helpers.erasures import fill, remember
from helpers.prefect_runs import run_flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.objects import State, StateType

from flows.erase import erase
from storage import Store
from tasks.erasing.selection import ErasePolicy

TARGET = "memory-of-grete-9914"


def read_artifacts() -> list[str]:
    ours = ArtifactFilter(key=ArtifactFilterKey(like_="memtend-"))
    with get_client(sync_client=True) as client:
        return [str(one.data) for one in client.read_artifacts(artifact_filter=ours, limit=200)]


def run_erase(store: Store) -> State:
    policy = ErasePolicy(ids=(TARGET,))
    state: State = erase(policy=policy, store=str(store.path), mode="apply", return_state=True)
    return state


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_artifacts_that_name_it_go_with_it(store: Store, tmp_path: Path) -> None:
    old = {"created_at": "2025-01-01T00:00:00Z", "importance": 0.1}
    lines = [remember(TARGET, "the cat", **old), remember("m2", "the dog")]
    fill(store, tmp_path / "in.jsonl", *lines)
    run_flow("prune", store.path, mode="plan")
    assert any(TARGET in data for data in read_artifacts())
    state = run_erase(store)
    assert (state.type, state.name) == (StateType.COMPLETED, "applied")
    assert not any(TARGET in data for data in read_artifacts())
    again = run_erase(store)
    assert (again.type, again.name) == (StateType.COMPLETED, "unchanged")


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_fault_of_prefect_says_only_its_class(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, tmp_path / "in.jsonl", remember(TARGET, "the cat"))

    def fail(*_: object) -> None:
        raise ValueError(TARGET)

    monkeypatch.setattr("flows.erase.remove_artifacts_of", fail)
    state = run_erase(store)
    assert (state.type, state.name, state.message) == (
        StateType.FAILED,
        "failed",
        "internal:ValueError",
    )
