"""What-if: policies compared by the rules themselves, and nothing stored or applied."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.cli import Run, run_here
from helpers.imports import Importer, edges, record
from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.vectors import Json, copy_store

from deployments.what_if import split_values
from storage import Store

AT = ("--now", "2026-09-30T00:00Z")
HERE = ("--namespace", "default/default/default")
OTHER = {"tenant": "other", "principal": "p", "scope": "s"}
TEXT = "Nightly ledger exports run after every schema change."
DAYS = {"d010": "2026-09-20", "d050": "2026-08-11", "d100": "2026-06-22", "d200": "2026-03-14"}
# What a comparison may write: texts that were compared once are not compared again.
KEPT = ("duplicate_texts", "duplicate_keys", "judged_pairs", "semantic_pairs")


def fill(directory: Path) -> Store:
    """Make a store with memories of four ages, copies, a lineage and a neighbour."""
    store = copy_store(directory / "store")
    aged = [
        record(name, content=f"{name} was noted", created_at=f"{day}T00:00:00Z", importance=0.4)
        for name, day in DAYS.items()
    ]
    Importer(store, directory / "lines", NOW)(
        *aged,
        record("copy-1", content=TEXT, kind="semantic", importance=0.9),
        record("copy-2", content=TEXT.upper(), kind="semantic", importance=0.9),
        record("old", content="Deploys on Mondays.", status="superseded"),
        record("new", content="Deploys on Tuesdays.") | edges(("supersedes", "old")),
        record("n1", content="elsewhere", namespace=OTHER),
    )
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Give a store for the whole module, which stays as it is."""
    store = fill(tmp_path_factory.mktemp("compared"))
    before = dump_tables(store, without=KEPT)
    yield store
    assert dump_tables(store, without=KEPT) == before


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Give a store with the same memories, for plans."""
    return fill(tmp_path_factory.mktemp("planned"))


@pytest.fixture(scope="module")
def run(store: Store) -> Run:
    """Give a function that runs a command on that store."""
    return lambda *words: run_here("--store", store.path, *words)


def compare(run: Run, job: str, *words: str) -> list[Json]:
    answer = run("--json", "plan", job, *AT, *HERE, *words)
    assert answer.exit_code == 0
    rows: list[Json] = answer.value["what_if"]
    return rows


def test_each_value_is_a_row_in_the_order_given(run: Run) -> None:
    rows = compare(run, "sweep", "--what-if", "cold_threshold=0.9,0.0,0.2")
    assert [row["value"] for row in rows] == [0.9, 0.0, 0.2]
    assert {row["field"] for row in rows} == {"cold_threshold"}
    assert [row["found"] for row in rows] == [5, 0, 3]
    assert [row["reasons"] for row in rows] == [{"cold": 5}, {}, {"cold": 3}]


@pytest.mark.parametrize(
    ("job", "field", "value"),
    [
        ("sweep", "lambda_per_day", 0.2),
        ("sweep", "cold_threshold", 0.9),
        ("prune", "max_age_days", 60),
        ("prune", "max_items", 3),
        ("consolidate", "exact", False),
    ],
)
def test_figures_are_those_of_the_plan(
    run: Run, twin: Store, job: str, field: str, value: object
) -> None:
    text = str(value).lower()
    (row,) = compare(run, job, "--what-if", f"{field}={text}")
    words = ("--store", twin.path, "--json", "plan", job, *AT, *HERE, "--set", f"{field}={text}")
    plan = run_here(*words).plan
    same = ("found", "reasons", "carried", "visible", "warnings", "namespace", "now")
    assert {name: row[name] for name in same} == {name: plan[name] for name in same}
    assert row["value"] == value


def test_ancestors_are_carried_and_not_counted(run: Run) -> None:
    words = ("--set", "min_importance_to_keep=0.6", "--set", "protect_curated=false")
    kept, gone = compare(run, "prune", *words, "--what-if", "mode=tombstone,delete")
    assert [(row["found"], row["carried"], row["visible"]) for row in (kept, gone)] == [
        (3, 0, 7),
        (3, 1, 7),
    ]
    assert kept["share"] == gone["share"] == pytest.approx(3 / 7, abs=1e-6)


def test_limits_say_which_policy_would_be_refused(run: Run) -> None:
    words = ("--what-if", "max_age_days=150,40", "--limit", "max_rows=1")
    assert [row["refused_by"] for row in compare(run, "prune", *words)] == [None, "max_rows"]
    words = ("--what-if", "max_age_days=150,40", "--limit", "min_rows_before_fraction=1")
    assert [row["refused_by"] for row in compare(run, "prune", *words)] == [None, "max_fraction"]


def test_fields_are_varied_one_at_a_time_from_what_set_says(run: Run) -> None:
    words = ("--set", "max_age_days=60", "--what-if", "max_age_days=1000")
    rows = compare(run, "prune", *words, "--what-if", "min_importance_to_keep=0.1,0.5")
    assert [(row["field"], row["value"]) for row in rows] == [
        ("max_age_days", 1000),
        ("min_importance_to_keep", 0.1),
        ("min_importance_to_keep", 0.5),
    ]
    assert [row["found"] for row in rows] == [0, 0, 2]


def test_nested_field_is_compared(run: Run) -> None:
    rows = compare(run, "sweep", "--what-if", "half_life_days.episodic=1,1000")
    assert [row["found"] for row in rows] == [5, 0]


def test_values_of_each_namespace_stand_apart(run: Run) -> None:
    words = ("--json", "plan", "sweep", *AT, "--what-if", "cold_threshold=0.0,2")
    rows = run(*words).value["what_if"]
    found = {(row["value"], row["namespace"]["tenant"]): row["found"] for row in rows}
    assert found == {(0.0, "default"): 0, (0.0, "other"): 0, (2, "default"): 5, (2, "other"): 1}


def test_consolidation_is_compared(run: Run) -> None:
    rows = compare(run, "consolidate", "--what-if", "exact=true,false")
    assert [row["reasons"] for row in rows] == [{"exact": 1}, {}]


def test_comparison_for_people_names_policy_and_refusal(run: Run) -> None:
    words = ("plan", "sweep", *AT, *HERE, "--what-if", "cold_threshold=0.0,2")
    out = run(*words, "--limit", "max_rows=1").out
    (line,) = [line for line in out.splitlines() if "max_rows" in line]
    assert line.split()[:4] == ["cold_threshold", "2", "5", "0"]
    assert "nothing was stored or applied" in out


@pytest.mark.parametrize(
    ("words", "field"),
    [
        pytest.param(("sweep", "--what-if", "cold_threshold"), "--what-if", id="no-value"),
        pytest.param(("sweep", "--what-if", "=1,2"), "--what-if", id="no-field"),
        pytest.param(("sweep", "--what-if", "colder=1,2"), "sweep.colder", id="unknown-field"),
        pytest.param(("prune", "--what-if", "max_items=1,-1"), "prune.max_items", id="bounds"),
        pytest.param(("prune", "--what-if", "max_items=1,"), "prune.max_items", id="empty-value"),
        pytest.param(("health", "--what-if", "keep_days=1,2"), "job", id="job-without-plans"),
        pytest.param(("sweep", "--limit", "max_rows=1"), "--limit", id="limit-without-what-if"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(
    run: Run, words: tuple[str, ...], field: str
) -> None:
    answer = run("--json", "plan", *words, *AT, *HERE)
    assert answer.exit_code in {1, 2}
    assert answer.error["field"] == field


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ("1,2,3", ["1", "2", "3"]),
        ("report,link", ["report", "link"]),
        ('["episodic","working"],[]', ['["episodic","working"]', "[]"]),
        ('{"episodic":1,"working":2},{}', ['{"episodic":1,"working":2}', "{}"]),
        ("", [""]),
        ("1,", ["1", ""]),
        ("1x,2", ["1x", "2"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("[" * 100_000 + ",1", ["[" * 100_000, "1"]),
    ],
)
def test_values_are_split_outside_of_json_only(texts: str, values: list[str]) -> None:
    assert split_values(texts) == values
