"""Plans on the command line: shown with their reasons, refused by name, and no memory changes."""

from collections.abc import Iterator

import pytest
from helpers.cli import Answer, Run, run_here
from helpers.imports import Importer, record
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.vectors import Json, copy_store

from storage import Store

CANARY = "canary-4711"
AT = ("--now", "2026-09-30T00:00Z")
SWEEP = ("plan", "sweep", *AT)
HERE = ("--namespace", "default/default/default")
OVER = ("run", "sweep", *AT, *HERE, "--limit", "max_rows=2")
OTHER = {"tenant": "a/b", "principal": "p", "scope": "s"}
BOOKS = ("runs", "leases", "epochs", "plans", "decisions")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Give a store for the whole module: three cold memories, a pinned one, one elsewhere."""
    directory = tmp_path_factory.mktemp("planned")
    store = copy_store(directory / "store")
    cold = [record(f"m{number}", content=CANARY) for number in (1, 2, 3)]
    others = [record("kept", content=CANARY, pinned=True), record("n1", namespace=OTHER)]
    Importer(store, directory / "lines", NOW)(*cold, *others)
    before = dump_tables(store, without=BOOKS)
    yield store
    assert dump_tables(store, without=BOOKS) == before


@pytest.fixture(scope="module")
def run(store: Store) -> Run:
    """Give a function that runs a command on that store."""
    return lambda *words: run_here("--store", store.path, *words)


@pytest.fixture(scope="module")
def run_json(run: Run) -> Run:
    """Give the same with --json."""
    return lambda *words: run("--json", *words)


@pytest.fixture(scope="module")
def plan(run_json: Run) -> Json:
    """Give the plan of a sweep of the default namespace."""
    return run_json(*SWEEP, *HERE).plan


@pytest.fixture(scope="module")
def refused(run_json: Run) -> Answer:
    """Give the answer of a run over a limit."""
    return run_json(*OVER)


def test_plan_says_for_each_memory_what_why_and_on_which_revision(plan: Json) -> None:
    assert (plan["job"], plan["found"], plan["reasons"]) == ("sweep", 3, {"cold": 3})
    assert plan["now"] == "2026-09-30T00:00:00.000000Z"
    assert plan["namespace"] == dict.fromkeys(("tenant", "principal", "scope"), "default")
    assert [decision["id"] for decision in plan["decisions"]] == ["m1", "m2", "m3"]
    first = plan["decisions"][0]
    names = ("reason", "action", "expected_revision")
    assert [first[name] for name in names] == ["cold", "tombstone", 1]
    assert first["score"] < first["threshold"] == 0.2
    assert "content" not in first


def test_plan_again_is_the_same_plan(store: Store, plan: Json, run_json: Run) -> None:
    """C58."""
    before = dump_tables(store, without=("runs", "leases", "epochs"))
    assert run_json(*SWEEP, *HERE).plan == plan
    assert dump_tables(store, without=("runs", "leases", "epochs")) == before


def test_plan_for_people_says_would(run: Run) -> None:
    out = run(*SWEEP, *HERE, "--rows", "1").out
    assert "would remove 3 memories (cold 3); 4 are visible" in out
    assert "… and 2 more (memtend show plan_" in out
    assert "apply it: memtend run sweep --plan plan_" in out


def test_store_with_two_namespaces_gives_two_plans(run_json: Run, plan: Json) -> None:
    both = run_json(*SWEEP).value["plans"]
    assert {one["namespace"]["tenant"]: one["found"] for one in both} == {"default": 3, "a/b": 1}
    assert plan in both


def test_namespace_with_a_slash_is_written_with_an_escape(run: Run) -> None:
    out = run(*SWEEP, "--namespace", "a%2Fb/p/s").out
    assert "namespace a%2Fb/p/s, now 2026-09-30T00:00:00.000000Z" in out
    assert "(cold 1)" in out


def test_set_reads_nested_fields_and_json(run_json: Run) -> None:
    sets = ("half_life_days.episodic=500", 'evict_kinds=["working", "episodic"]', "ttl=false")
    plan = run_json(*SWEEP, *HERE, *(word for text in sets for word in ("--set", text))).plan
    assert plan["policy"]["half_life_days"] == {"episodic": 500}
    assert plan["policy"]["evict_kinds"] == ["episodic", "working"]
    assert plan["policy"]["ttl"] is False
    assert plan["found"] == 0


def test_show_gives_the_stored_plan(plan: Json, run_json: Run) -> None:
    assert run_json("show", plan["plan_id"]).value == {"plans": [plan]}


def test_show_all_judges_kept_memories_too(plan: Json, run: Run, run_json: Run) -> None:
    shown = run_json("show", plan["plan_id"], "--all").plan
    verdicts = {row["id"]: row["verdict"] for row in shown["verdicts"]}
    assert verdicts == {"kept": "exempt_pinned", "m1": "cold", "m2": "cold", "m3": "cold"}
    assert " verdict " in run("show", plan["plan_id"], "--all").out
    assert " verdict " not in run("show", plan["plan_id"]).out


def test_limit_refuses_before_the_first_write(refused: Answer) -> None:
    run, error = refused.run, refused.error
    assert (refused.exit_code, run["outcome"], run["skipped"]) == (1, "refused", {"refused": 3})
    assert (error["type"], error["limit"]) == ("plan_refused", "max_rows")
    assert (error["planned"], error["visible"], error["allowed"]) == (3, 4, 2)
    assert error["plan_id"] == run["plan_id"]


def test_limit_holds_for_a_stored_plan(plan: Json, run_json: Run) -> None:
    limit = ("--limit", "min_rows_before_fraction=0")
    answer = run_json("run", "sweep", "--plan", plan["plan_id"], *limit)
    assert (answer.exit_code, answer.run["outcome"]) == (1, "refused")
    assert (answer.error["limit"], answer.error["allowed"]) == ("max_fraction", 1)


def test_refusal_tells_people_how_to_go_on(run: Run) -> None:
    out = run(*OVER).out
    assert "refused by max_rows (planned 3, visible 4, allowed 2)" in out
    assert "look at it: memtend show plan_" in out
    assert "apply it all the same: memtend run sweep --confirm plan_" in out


def test_confirming_another_plan_is_refused_even_under_the_limits(
    plan: Json, run_json: Run
) -> None:
    other = run_json(*SWEEP, *HERE, "--set", "cold_threshold=0.1").plan["plan_id"]
    answer = run_json("run", "sweep", "--plan", plan["plan_id"], "--confirm", other)
    assert (answer.exit_code, answer.error["limit"]) == (1, "confirm_plan_id")
    assert answer.run["outcome"] == "refused"


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("prune", "--plan", "PLAN"), "plan"),
        (("sweep", "--plan", "PLAN", "--set", "ttl=false"), "--set"),
        (("sweep", "--confirm", "PLAN", "--set", "ttl=false"), "--set"),
        (("sweep", "--plan", "PLAN", *AT), "--now"),
        (("sweep", "--plan", "PLAN", "--namespace", "a%2Fb/p/s"), "namespace"),
    ],
)
def test_stored_plan_is_applied_as_it_is_or_not_at_all(
    plan: Json, run_json: Run, words: tuple[str, ...], field: str
) -> None:
    answer = run_json("run", *(plan["plan_id"] if word == "PLAN" else word for word in words))
    exit_code = 2 if field.startswith("--") else 1
    assert (answer.exit_code, answer.error["field"]) == (exit_code, field)


@pytest.mark.parametrize("option", ["--plan", "--confirm"])
def test_plan_that_does_not_exist_is_named(run_json: Run, option: str) -> None:
    answer = run_json("run", "sweep", option, "plan_9")
    assert (answer.exit_code, answer.error["type"]) == (1, "plan_not_found")
    assert answer.error["plan_id"] == "plan_9"


def test_no_verb_about_plans_prints_what_a_memory_says(
    plan: Json, refused: Answer, run: Run, run_json: Run
) -> None:
    shown = ("show", plan["plan_id"], "--all")
    answers = [run(*shown), run_json(*shown), run_json("diff", plan["plan_id"]), run_json("runs")]
    answers += [run(*SWEEP, *HERE), refused]
    for answer in answers:
        assert answer.out
        assert CANARY not in answer.out + answer.err
