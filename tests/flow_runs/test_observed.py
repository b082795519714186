"""What a run shows: its name, a summary, the plan, progress; ids and figures only."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from helpers.deployed_runs import execute, order_run
from helpers.imports import write_lines
from helpers.prefect_runs import read_kept
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError

from storage import Store
from storage.instants import format_instant
from tasks.importing import import_file

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]
MANY = 1_100
CANARY = "canary-7f3e"
SPACE = {"tenant": "t", "principal": "p", "scope": "s/1"}


@pytest.fixture
def stale(store: Store, tmp_path: Path, now: datetime) -> Store:
    """Give a store with more stale memories than a table shows."""
    old = format_instant(now - timedelta(days=400))
    lines = [
        {
            "id": f"m{number:04}",
            "content": f"{CANARY} {number}",
            "kind": "semantic",
            "importance": 0.1,
            "created_at": old,
            "namespace": SPACE,
        }
        for number in range(MANY)
    ]
    report = import_file(store, write_lines(tmp_path / "stale.jsonl", *lines), clock=now)
    assert report.imported == MANY
    return store


def test_run_says_its_job_namespace_and_mode_and_shows_its_plan(
    stale: Store, now: datetime
) -> None:
    ordered = order_run(
        "prune",
        stale.path,
        namespace=SPACE,
        mode="apply",
        limits={"max_fraction": 1.0},
        now=now.isoformat(),
    )
    state = execute(ordered.id)
    assert state.name == "applied"
    with get_client(sync_client=True) as client:
        assert client.read_flow_run(ordered.id).name == "prune t/p/s%2F1 apply"
    kept = read_kept(state)
    (summary,) = (text for text in kept.artifacts if text.startswith("## prune, apply, manual"))
    assert f"| applied | {MANY} | {MANY} | 0 | 0 |" in summary
    assert "`memtend show plan_" in summary
    (rows,) = (json.loads(text) for text in kept.artifacts if text.startswith("[{"))
    assert len(rows) == 200
    assert rows[0].items() >= {"id": "m0000", "reason": "stale", "outcome": "applied"}.items()
    assert "100" in kept.artifacts
    assert "importance=0.1 " in rows[0]["figures"]
    assert CANARY not in kept.texts()


@pytest.mark.parametrize(
    "form",
    [
        {"policy": {"max_age_days": -1}},
        {"policy": {"max_age_days": 90, "max_age": 3}},
        {"policy": {"cap_order": "random"}},
        {"mode": "delete everything"},
        {"limits": {"max_fraction": 1.5}},
        {"plan_id": "'; DROP TABLE memories"},
        {"namespace": {"tenant": ""}},
        {"approval": "skip"},
    ],
    ids=str,
)
def test_nonsense_is_refused_before_there_is_a_run(form: dict[str, object], store: Store) -> None:
    with pytest.raises(PrefectHTTPStatusError, match="409"):
        order_run("prune", store.path, **form)


def test_health_run_shows_its_figures(store: Store, now: datetime) -> None:
    state = execute(order_run("health", store.path, now=now.isoformat()).id)
    assert state.name == "applied"
    (rows,) = (json.loads(text) for text in read_kept(state).artifacts if text.startswith("[{"))
    assert "breaches" in {row["figure"] for row in rows}
