"""The notebooks: stored without outputs, run on the exports alone, and right in their figures."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from helpers.children import ROOT, start_child
from helpers.cli import run_here
from helpers.health import run_health
from helpers.notebooks import FOLDER, Executed, execute_notebook, read_notebook
from helpers.seeded import seed_store
from matplotlib.image import imread

from storage import Store
from storage.instants import format_instant, parse_instant

pytestmark = pytest.mark.slow

PLOTS = ROOT / "build" / "notebooks"
# How many plots each has, and what of its figures is compared.
PROBES = {
    "decisions": {"decided": "decided.fetchall()"},
    "forecast": {
        "ahead": "ahead.fetchall()",
        "curves": "curves",
        "other": "count_cold({'half_life_days': {'episodic': 20}, 'mu': 0.1, 'sigma': 0.2})",
    },
    "health_overview": {"lifecycle": "lifecycle.fetchall()", "jobs": "jobs.fetchall()"},
    "index_and_cost": {"coverage": "coverage.fetchall()", "cost": "cost.fetchall()"},
}
PLOT_COUNTS = {"decisions": 4, "forecast": 2, "health_overview": 2, "index_and_cost": 4}
IMPORTED = {"import json", "import math", "import os", "import matplotlib.pyplot as plt"} | {
    *("import pyarrow as pa", "from pathlib import Path", "from storage.frames import open_exports")
}
MOST_CELLS = 15
BASE = datetime.now(UTC)

Files = dict[str, tuple[int, int]]


def list_files(store: Store) -> Files:
    """Give the size and the last change of each file of a store."""
    files = [path for path in store.path.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(store.path)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in files
    }


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return seed_store(tmp_path_factory.mktemp("seeded") / "store", BASE)


@pytest.fixture(scope="module")
def executed(seeded: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Executed]:
    """Give all notebooks, each executed once; none of them changes a file of the store."""
    scratch = tmp_path_factory.mktemp("kernels")
    before = list_files(seeded)
    done = {
        name: execute_notebook(name, seeded.path, scratch, probes)
        for name, probes in PROBES.items()
    }
    assert list_files(seeded) == before
    return done


@pytest.fixture(scope="module")
def status(seeded: Store) -> dict[str, Any]:
    return ask(seeded, "status")


def ask(store: Store, *words: object, at: datetime = BASE) -> dict[str, Any]:
    return run_here("--json", "--store", store.path, *words, "--now", format_instant(at)).value


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in FOLDER.iterdir() if path.suffix == ".ipynb"} == PROBES.keys()


@pytest.mark.parametrize("name", PROBES)
def test_notebook_asks_one_question_and_is_stored_without_outputs(name: str) -> None:
    book = read_notebook(name)
    title = book.cells[0].source.splitlines()[0]
    assert title.startswith("# ")
    assert title.endswith("?")
    assert len(book.cells) <= MOST_CELLS
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count or cell.metadata]


@pytest.mark.parametrize("name", PROBES)
def test_notebook_imports_nothing_that_writes(name: str) -> None:
    lines = [line for cell in read_notebook(name).cells for line in cell.source.splitlines()]
    assert {line for line in lines if line.startswith(("import ", "from "))} <= IMPORTED


@pytest.mark.parametrize("name", PROBES)
def test_plots_show_something(name: str, executed: dict[str, Executed]) -> None:
    """They are kept in build/notebooks, for people."""
    PLOTS.mkdir(parents=True, exist_ok=True)
    plots = executed[name].plots
    assert len(plots) == PLOT_COUNTS[name]
    for number, plot in enumerate(plots, start=1):
        (PLOTS / f"{name}-{number}.png").write_bytes(plot)
        pixels = imread(BytesIO(plot))
        assert len({tuple(pixel) for row in pixels[::3, ::3] for pixel in row}) > 3


def test_lifecycle_is_that_of_status(executed: dict[str, Executed], status: Any) -> None:  # noqa: ANN401
    told = dict(executed["health_overview"].told["lifecycle"])
    assert told == status["memories"]
    assert told.pop("total") == sum(told.values())


def test_jobs_are_those_of_status(executed: dict[str, Executed], status: Any) -> None:  # noqa: ANN401
    """A health run does not know yet how it will end."""
    told = {row[0]: row[1:] for row in executed["health_overview"].told["jobs"]}
    assert told.keys() == status["jobs"].keys()
    for name, (outcome, success, _due, error, backlog) in told.items():
        job = status["jobs"][name]
        assert (outcome, error, backlog) == tuple(
            job[field] for field in ("last_outcome", "last_error", "backlog")
        )
        if name != "health" and job["last_success"] is not None:
            assert parse_instant(success) == parse_instant(job["last_success"])


def test_decisions_are_those_of_the_runs(seeded: Store, executed: dict[str, Executed]) -> None:
    runs = run_here("--json", "--store", seeded.path, "runs", "--rows", "0").value["runs"]
    planned = ("sweep", "prune", "consolidate")
    expected = Counter[str]()
    for run in runs:
        expected[run["job"]] += run["applied"] if run["job"] in planned else 0
    told = Counter[str]()
    for row in executed["decisions"].told["decided"]:
        told[row[0]] += row[4]
        assert row[3] == sum(row[4:7])
    assert told == +expected
    assert set(told) == set(planned)


def test_forecast_is_that_of_status(executed: dict[str, Executed], status: Any) -> None:  # noqa: ANN401
    names = ("cold", "expired", "purge", "cold_ratio")
    told = {
        str(days): dict(zip(names, rest, strict=True))
        for days, *rest in executed["forecast"].told["ahead"]
    }
    assert told == status["forecast"]
    assert told["7"]["cold"] < told["90"]["cold"]


@pytest.mark.parametrize("days", [0, 7, 30, 90])
def test_other_policies_are_what_the_rule_would_find(
    seeded: Store, executed: dict[str, Executed], days: int
) -> None:
    told = executed["forecast"].told
    later = BASE + timedelta(days=days)
    asked = {
        "as it is": ("--what-if", "cold_threshold=0.2"),
        "colder from 0.3 on": ("--what-if", "cold_threshold=0.3"),
        "half-life of 60 days": ("--what-if", "half_life_days.episodic=60"),
        "use counts double": ("--what-if", "sigma=1.2"),
    }
    other = ("--set", "half_life_days.episodic=20", "--set", "mu=0.1", "--what-if", "sigma=0.2")
    curves = told["curves"] | {"other": told["other"]}
    for name, words in (asked | {"other": other}).items():
        rows = ask(seeded, "plan", "sweep", *words, at=later)["what_if"]
        assert dict(curves[name])[days] == sum(row["reasons"].get("cold", 0) for row in rows), name


def test_index_is_that_of_status(executed: dict[str, Executed], status: Any) -> None:  # noqa: ANN401
    names = ("active", "embedded", "stale", "pending", "retrying", "permanent", "quarantined")
    rows = executed["index_and_cost"].told["coverage"]
    told = {name: sum(row[1 + place] for row in rows) for place, name in enumerate(names)}
    assert told == {name: status["index"][name] for name in names}
    assert told["pending"] > 0


def test_cost_is_that_of_status(executed: dict[str, Executed], status: Any) -> None:  # noqa: ANN401
    told = dict(executed["index_and_cost"].told["cost"])
    assert told == status["cost"]
    assert told["embedded"] > 0


def test_notebook_runs_while_a_writer_holds_the_store(seeded: Store, tmp_path: Path) -> None:
    with start_child("hold_store", seeded.path, "write") as writer:
        assert writer.hear() == "held"
        probes = PROBES["health_overview"]
        told = execute_notebook("health_overview", seeded.path, tmp_path, probes).told
        assert writer.process.poll() is None
    assert dict(told["lifecycle"])["total"] > 0


@pytest.mark.parametrize("name", PROBES)
def test_notebook_runs_on_an_empty_store(name: str, store: Store, tmp_path: Path) -> None:
    run_here("--store", store.path, "init")
    run_health(store)
    assert len(execute_notebook(name, store.path, tmp_path).plots) == PLOT_COUNTS[name]


def test_stored_text_is_json_as_jupyter_writes_it() -> None:
    for path in FOLDER.glob("*.ipynb"):
        text = path.read_text(encoding="utf-8")
        assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
