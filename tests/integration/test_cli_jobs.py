"""Jobs on the command line: what was planned is what is applied, and a person can see why."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.changes import erase_memory, fail_writes_of
from helpers.cli import Answer, run_here
from helpers.edits import annotate_memory
from helpers.imports import Importer, record
from helpers.rows import NOW
from helpers.vectors import Json, copy_store

from storage import Store

CANARY = "canary-4711"
AT = ("--now", "2026-09-30T00:00Z")
SWEEP = ("plan", "sweep", *AT)
OTHER = {"tenant": "t", "principal": "p", "scope": "s"}
MARKUP = ("[red]x[/red]", "[/]", ":heart:", "[link=file:///etc]y[/link]", "\\[b]z")
LONG = "".join(f"{number:03}" for number in range(85))
RUN_KEYS = {
    *("run_id", "plan_id", "job", "namespace", "outcome"),
    *("found", "applied", "skipped", "failed"),
}

Said = dict[str, Answer]


def fill(directory: Path, *records: Json) -> Store:
    store = copy_store(directory / "store")
    Importer(store, directory / "lines", NOW)(*records)
    return store


def cold() -> list[Json]:
    """Give three memories for which nobody cares any more."""
    return [record(f"m{number}", content=CANARY) for number in (1, 2, 3)]


def statuses(store: Store) -> Json:
    with store.read() as reader:
        return dict(reader.rows("SELECT id, status FROM memories"))


def pin(store: Store, *memory_ids: str, value: bool = True) -> None:
    with store.write() as writer:
        for memory_id in memory_ids:
            annotate_memory(writer, 1, memory_id, at=NOW, pinned=value)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """Give what commands said about one plan whose memories changed before it was applied.

    m1 is pinned, m2 gets feedback, m3 is taken away, m4 stays; kept loses its pin.
    """
    kept = record("kept", content=CANARY, pinned=True)
    store = fill(tmp_path_factory.mktemp("jobs"), *cold(), record("m4", content=CANARY), kept)
    said: Said = {}

    def run(step: str, *words: str) -> Json:
        said[step] = run_here("--json", "--store", store.path, *words)
        return said[step].value

    plan_id = run("plan", *SWEEP)["plans"][0]["plan_id"]
    run("diff-same", "diff", plan_id)
    pin(store, "m1")
    pin(store, "kept", value=False)
    run("feedback", "feedback", "m2", "helpful")
    with store.write() as writer:
        erase_memory(writer, 1, "m3")
    run("diff", "diff", plan_id)
    said["diff-text"] = run_here("--store", store.path, "diff", plan_id)
    applied = run("apply", "run", "sweep", "--plan", plan_id)["runs"][0]
    run("again", "run", "sweep", "--plan", plan_id)
    run("rest", "run", "sweep", *AT)
    run("unchanged", "run", "sweep", *AT)
    run("show-plan", "show", plan_id)
    run("show-run", "show", applied["run_id"])
    run("runs", "runs")
    run("last", "runs", "--rows", "1")
    said["show-text"] = run_here("--store", store.path, "show", plan_id, "--all")
    return said


def test_diff_right_after_the_plan_finds_no_change(said: Said) -> None:
    (diff,) = said["diff-same"].value["diffs"]
    assert (diff["states"], diff["changes"]) == ({"same": 4}, [])


def test_diff_names_the_facts_that_changed(said: Said) -> None:
    (diff,) = said["diff"].value["diffs"]
    assert diff["states"] == {"changed": 2, "gone": 1, "same": 1}
    assert {row["id"]: row["changes"] for row in diff["changes"]} == {
        "m1": ["revision", "pinned"],
        "m2": ["revision", "salience"],
        "m3": [],
    }
    assert "revision, salience" in said["diff-text"].out


def test_diff_names_what_would_be_selected_anew_or_no_more(said: Said) -> None:
    (diff,) = said["diff"].value["diffs"]
    assert (diff["added"], diff["dropped"]) == (["kept"], ["m1", "m3"])


def test_stored_plan_leaves_alone_what_changed_since(said: Said) -> None:
    """C38."""
    answer = said["apply"]
    assert (answer.exit_code, answer.run["outcome"], answer.run["applied"]) == (0, "applied", 1)
    assert answer.run["skipped"] == {"changed_since_plan": 3}
    assert answer.run["plan_id"] == said["plan"].plan["plan_id"]
    assert answer.run.keys() == RUN_KEYS


def test_stored_plan_is_applied_once(said: Said) -> None:
    run = said["again"].run
    assert (run["applied"], run["skipped"]["already_applied"]) == (0, 1)


def test_next_run_judges_what_changed_and_then_nothing_is_left(said: Said) -> None:
    assert (said["rest"].run["outcome"], said["rest"].run["applied"]) == ("applied", 2)
    last = said["unchanged"]
    assert (last.exit_code, last.run["outcome"], last.run["found"]) == (0, "unchanged", 0)


def test_show_tells_what_became_of_each_decision(said: Said) -> None:
    decisions = said["show-plan"].plan["decisions"]
    assert {decision["id"]: decision["outcome"] for decision in decisions} == {
        "m1": "changed_since_plan",
        "m2": "changed_since_plan",
        "m3": "changed_since_plan",
        "m4": "applied",
    }


def test_runs_are_listed_newest_first(said: Said) -> None:
    rows = said["runs"].value["runs"]
    steps = ("unchanged", "rest", "again", "apply")
    assert [row["run_id"] for row in rows[:4]] == [said[step].run["run_id"] for step in steps]
    assert [row["mode"] for row in rows] == ["apply"] * 4 + ["plan"]
    assert said["last"].value["runs"] == rows[:1]
    for row in rows:
        started, ended = (datetime.fromisoformat(row[name]) for name in ("started_at", "ended_at"))
        assert started <= ended
        assert ended.tzinfo == UTC


def test_run_is_shown_by_its_id(said: Said) -> None:
    (shown,) = said["show-run"].value["runs"]
    assert {name: shown[name] for name in RUN_KEYS} == said["apply"].run


def test_no_verb_prints_what_a_memory_says(said: Said) -> None:
    for step, answer in said.items():
        assert answer.out, step
        assert CANARY not in answer.out + answer.err, step


def test_confirmed_plan_is_applied_over_the_limit(tmp_path: Path) -> None:
    store = fill(tmp_path, *cold())
    refused = run_here(
        "run", "sweep", *AT, "--limit", "max_rows=2", "--json", "--store", store.path
    )
    plan_id = refused.run["plan_id"]
    confirmed = run_here("run", "sweep", "--confirm", plan_id, "--json", "--store", store.path)
    assert (refused.exit_code, confirmed.exit_code) == (1, 0)
    assert (confirmed.run["outcome"], confirmed.run["applied"]) == ("applied", 3)
    assert set(statuses(store).values()) == {"tombstoned"}


def test_run_that_cannot_write_a_row_is_partial_and_fails(tmp_path: Path) -> None:
    store = fill(tmp_path, *cold())
    fail_writes_of(store, ["m2"])
    answer = run_here("run", "sweep", *AT, "--json", "--store", store.path)
    run = answer.run
    assert (answer.exit_code, run["outcome"], run["applied"], run["failed"]) == (1, "partial", 2, 1)


def test_refused_namespace_does_not_stop_the_next(tmp_path: Path) -> None:
    store = fill(tmp_path, *cold(), record("n1", namespace=OTHER))
    answer = run_here("run", "sweep", *AT, "--limit", "max_rows=2", "--json", "--store", store.path)
    outcomes = {run["namespace"]["tenant"]: run["outcome"] for run in answer.value["runs"]}
    assert outcomes == {"default": "refused", "t": "applied"}
    assert (answer.exit_code, answer.error["type"]) == (1, "plan_refused")


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Give a function that runs a command for people where ids look like markup or are long."""
    store = fill(tmp_path_factory.mktemp("texts"), *map(record, (*MARKUP, LONG)))
    plan_id = run_here(*SWEEP, "--json", "--store", store.path).plan["plan_id"]
    pin(store, *MARKUP)

    def run(*words: str) -> str:
        typed = (plan_id if word == "PLAN" else word for word in words)
        answer = run_here("--store", store.path, *typed)
        return answer.out + answer.err

    return run


@pytest.mark.parametrize("words", [("show", "PLAN"), ("show", "PLAN", "--all"), ("diff", "PLAN")])
def test_ids_that_look_like_markup_are_printed_as_they_are(
    texts: Callable[..., str], words: tuple[str, ...]
) -> None:
    text = texts(*words)
    assert [name for name in MARKUP if name not in text] == []


def test_texts_about_such_ids_are_printed_as_they_are(texts: Callable[..., str]) -> None:
    known, unknown = "[red]y[/red]:heart:", "[/]:warning:"
    assert texts("add", "text", "--id", known) == f"added {known}\n"
    assert texts("feedback", known, "helpful") == f"{known}: salience 1.25\n"
    assert texts("feedback", unknown, "stale").startswith(f"memtend: no memory '{unknown}' in")


def test_long_id_is_printed_whole(texts: Callable[..., str]) -> None:
    lines = texts("show", "PLAN").splitlines()
    assert LONG in "".join(
        line.split()[0] for line in lines if line.startswith(" ") and line.split()
    )
