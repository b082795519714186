"""The verb erase: its selectors, its plan, its proof, and what it refuses."""

from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.erasures import fill, remember

from storage import Store

TEXT = "the canary sings at dawn"


@pytest.fixture
def filled(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("MEMTEND_STORE", str(store.path))
    lines = [remember("m1", TEXT, tags=["subject:u1"]), remember("m2", "a dog barks at night")]
    fill(store, tmp_path / "in.jsonl", *lines)
    return store


@pytest.mark.usefixtures("filled")
def test_plan_then_exactly_that_plan() -> None:
    shown = run_here("--json", "erase", "--tag", "subject:u1", "--dry-run")
    assert [row["id"] for row in shown.plan["decisions"]] == ["m1"]
    wrong = run_here("--json", "erase", "m1", "--confirm", "plan_00000000000000000000")
    assert (wrong.exit_code, wrong.error["type"]) == (1, "plan_refused")
    done = run_here("--json", "erase", "--tag", "subject:u1", "--confirm", shown.plan["plan_id"])
    assert (done.exit_code, done.run["outcome"], done.run["applied"]) == (0, "applied", 1)
    (said,) = done.value["proofs"]
    assert (said["proof"]["memories"], said["proof"]["remaining"]) == (1, 0)
    assert TEXT not in shown.out + done.out


@pytest.mark.usefixtures("filled")
def test_table_tells_the_proof_and_what_is_out_of_reach() -> None:
    answer = run_here("erase", "m1")
    assert answer.exit_code == 0
    assert "1 memories erased, 0 rows left" in answer.out
    assert "backups" in answer.out
    again = run_here("--json", "erase", "m1")
    assert (again.exit_code, again.run["outcome"]) == (0, "unchanged")
    refused = run_here("--json", "add", TEXT)
    assert (refused.exit_code, refused.error["reason"]) == (1, "erased")


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id="nothing"),
        pytest.param(("m1", "--tag", "subject:u1"), id="two-kinds"),
        pytest.param(("--tag", "u1"), id="no-subject"),
        pytest.param(("--tag", ""), id="empty-tag"),
        pytest.param(("--namespace", "no/such/place"), id="unknown-namespace"),
        pytest.param(("ghost",), id="unknown-id"),
        pytest.param(("",), id="empty-id"),
        pytest.param(("--namespace", ""), id="empty-namespace"),
    ],
)
def test_refused_before_anything_is_written(filled: Store, words: tuple[str, ...]) -> None:
    answer = run_here("--json", "erase", *words)
    assert answer.exit_code in {1, 2}
    assert answer.error["message"]
    with filled.read() as reader:
        assert reader.rows("SELECT count(*) FROM memories") == [(2,)]
        assert reader.rows("SELECT count(*) FROM runs") == [(0,)]
