"""A person starts a sweep in the Prefect UI, reads its plan and decides about it."""

import json
from pathlib import Path

import pytest
from helpers.prefect_ui import CHROMIUM, PrefectUi, browse
from helpers.rows import NOW
from helpers.serving import serve

from storage import Store
from storage.runs import list_runs
from tasks.importing import import_file

EXPIRED = [f"expired-{number:02}" for number in range(12)]
KEPT = [f"kept-{number:02}" for number in range(18)]
SECRET = "the combination is"  # noqa: S105 - no secret, but no page may show it either
LIMIT = "refused by max_rows (planned 12, visible 18, allowed 5)"
NOTE = "as announced"
SUMMARY, PLAN, DECISION = "memtend-sweep", "memtend-sweep-plan", "memtend-sweep-decision"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed here"),
]


@pytest.fixture
def filled(store: Store, tmp_path: Path) -> Store:
    lines = [
        {"id": name, "content": f"{SECRET} {name}", "kind": "semantic", "created_at": "2020-01-01"}
        for name in EXPIRED + KEPT
    ]
    for line in lines[: len(EXPIRED)]:
        line["expires_at"] = "2020-02-01T00:00:00Z"
    for line in lines:
        line["created_at"] += "T00:00:00Z"
    source = tmp_path / "memories.jsonl"
    source.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    import_file(store, source, clock=NOW)
    return store


def order_sweep(ui: PrefectUi) -> str:
    """Fill the form: first with nonsense, which is refused, then with a low limit."""
    ui.open_deployment("sweep")
    ui.open_form()
    ui.select("mode", "apply")
    ui.fill_optional_number("5")
    ui.fill("Max Fraction", "7")
    ui.submit()
    assert ui.read_complaint("Max Fraction") == "Value must be less than or equal to 1."
    ui.picture("nonsense")
    ui.fill("Max Fraction", "0.3")
    return ui.start_run()


def read_ids(store: Store) -> list[str]:
    with store.read() as reader:
        return [row[0] for row in reader.rows("SELECT id FROM memories ORDER BY id")]


def read_outcomes(store: Store) -> list[str]:
    with store.read() as reader:
        return [run["outcome"] for run in reversed(list_runs(reader, limit=9))]


def test_plan_over_the_limit_is_approved_and_applied(filled: Store) -> None:
    with serve(filled.path) as served, browse(served, "approve") as ui:
        run = order_sweep(ui)
        ui.wait_for_state(run, "Suspended")
        assert read_ids(filled) == EXPIRED + KEPT
        plan = ui.read_artifact(run, PLAN, "refused")
        assert all(name in plan for name in EXPIRED[:10])
        assert LIMIT in ui.read_artifact(run, SUMMARY, "refused")
        asked = ui.resume(run, "approve", approver="pat", note=NOTE)
        assert LIMIT in asked
        ui.wait_for_state(run, "applied")
        assert NOTE in ui.read_artifact(run, DECISION, "approve")
        applied = ui.read_artifact(run, PLAN, "applied")
        assert applied.count("applied") == 10
        assert "applied" in ui.read_artifact(run, SUMMARY, "applied")
        assert SECRET not in plan + asked + applied
    assert read_ids(filled) == KEPT
    assert read_outcomes(filled) == ["refused", "applied"]


def test_plan_over_the_limit_is_rejected_and_nothing_happens(filled: Store) -> None:
    with serve(filled.path) as served, browse(served, "reject") as ui:
        run = order_sweep(ui)
        ui.wait_for_state(run, "Suspended")
        ui.resume(run, "reject", approver="pat", note=NOTE)
        ui.wait_for_state(run, "refused")
        assert NOTE in ui.read_artifact(run, DECISION, "reject")
    assert read_ids(filled) == EXPIRED + KEPT
    assert read_outcomes(filled) == ["refused"]
