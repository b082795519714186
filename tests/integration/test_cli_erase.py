"""The verb erase: its selectors, its plan, its proof, and what it refuses."""

from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.erasures import fill, kill_after_rows, remember
from helpers.rows import NOW

from storage import Store

TEXT = "the canary sings at dawn"
EXPIRE = "UPDATE leases SET expires_at = $at"


@pytest.fixture
def filled(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("MEMTEND_STORE", str(store.path))
    lines = [remember("m1", TEXT, tags=["subject:u1"]), remember("m2", "a dog barks at night")]
    fill(store, tmp_path / "in.jsonl", *lines)
    return store


def leave_unproved(store: Store) -> None:
    kill_after_rows(store, "m1")
    with store.write() as writer:
        writer.execute(EXPIRE, {"at": NOW})


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
def test_plan_and_refusal_name_the_confirmation_and_no_command_that_needs_more() -> None:
    shown = run_here("erase", "m1", "--dry-run")
    assert "exactly this: --confirm plan_" in shown.out
    assert "memtend run" not in shown.out
    refused = run_here("erase", "m1", "--limit", "max_rows=0")
    plan_id = shown.out.split("--confirm ")[1].split()[0]
    assert refused.exit_code == 1
    assert f"erase it all the same: --confirm {plan_id}" in refused.out


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


def test_erasure_that_goes_on_after_a_kill_says_what_it_could_not_search(filled: Store) -> None:
    leave_unproved(filled)
    answer = run_here("--json", "erase", "m1")
    assert (answer.exit_code, answer.run["outcome"]) == (0, "applied")
    (said,) = answer.value["proofs"]
    assert (said["erasure_id"], said["phase"]) == ("run-child", "proved")
    proof = said["proof"]
    assert (proof["memories"], proof["unsearched"], proof["remaining"]) == (1, 1, 0)
    assert proof["run_id"] == answer.run["run_id"]


def test_second_erasure_after_a_kill_tells_both_apart(filled: Store) -> None:
    leave_unproved(filled)
    shown = run_here("erase", "m2")
    assert shown.exit_code == 0
    assert shown.out.count("1 memories erased, 0 rows left") == 2
    assert shown.out.count("the texts of these 1 were not searched for in files") == 1


def test_text_that_is_too_short_to_search_for_is_told(filled: Store, tmp_path: Path) -> None:
    fill(filled, tmp_path / "short.jsonl", remember("m3", "tiny"))
    shown = run_here("erase", "m3")
    assert "0 texts and vectors searched for" in shown.out
    assert ", 1 too short or too many for it: 0 found" in shown.out


def test_what_is_not_proved_is_told_with_the_file_that_has_it(filled: Store) -> None:
    stray = filled.path / "notes.txt"
    stray.write_text(TEXT, encoding="utf-8")
    shown = run_here("erase", "m1")
    assert shown.exit_code == 1
    assert "not proved, still in: notes.txt; the next erasure tries again" in shown.out
    assert TEXT not in shown.out


def test_erasure_that_fails_on_the_way_is_told(filled: Store) -> None:
    (filled.path / "vectors").mkdir()
    torn = filled.path / "vectors" / f"mv_{'0' * 16}_d2.lance"
    torn.mkdir()
    shown = run_here("erase", "m1")
    assert shown.exit_code == 1
    assert "1 memories erased, not proved: the next erasure goes on with it" in shown.out
    torn.rmdir()
    assert run_here("erase", "m1").exit_code == 0


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
