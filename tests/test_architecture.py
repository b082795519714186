"""The rules that hold the layers apart, checked on the source of every package."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# From the top down; imports go only to later ones.
LAYERS = ("deployments", "flows", "tasks", "storage")
SOURCES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
STATEMENTS = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.sql"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
# Which third-party packages are kept to which files (folders end with a slash).
KEPT_TO = {
    "duckdb": ("storage/",),
    "lancedb": ("storage/",),
    "prefect": ("tasks/steps.py", "tasks/artifacts.py", "flows/", "deployments/"),
    "typer": ("deployments/",),
    "rich": ("deployments/",),
}
CLOCKS_AND_CHANCE = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom", "environ", "getenv"},
    "random": {"*"},
    "secrets": {"*"},
}
# The waits for a lock, and the ids that a store and its vectors get.
ALLOWED = {
    "storage/gateway.py time.monotonic",
    "storage/lock.py time.monotonic",
    "storage/fresh.py uuid.uuid4",
}
SQL_IN_PYTHON = re.compile(
    r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|CREATE|ALTER|DROP|COPY|MERGE|ATTACH)\s"
)
# Not only style: RETURNING, MERGE and upserts lose updates, the others keep rows from changing.
FORBIDDEN_SQL = re.compile(
    r"\b(RETURNING|MERGE\s+INTO|ON\s+CONFLICT|INSERT\s+OR|INTERVAL|FOREIGN\s+KEY|REFERENCES)\b"
    r"|\b(now|current_timestamp|get_current_timestamp|today|random|uuid|gen_random_uuid)\s*\(\s*\)"
    r"|\bcurrent_(timestamp|date|time)\b"
    r"|\bCREATE\s+(OR\s+REPLACE\s+)?(UNIQUE\s+)?(INDEX|TRIGGER)\b",
    re.IGNORECASE,
)
LONGEST_FILE = 350
LONGEST_FLOW = 60


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it; relative imports with their dots."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def packages_of(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports_of(path)}


def test_imports_go_down_only() -> None:
    wrong = {}
    for path in SOURCES:
        above = LAYERS[: LAYERS.index(path.relative_to(ROOT).parts[0])]
        wrong[name_of(path)] = packages_of(path) & {"", "tests", *above}
    assert not {name: found for name, found in wrong.items() if found}


@pytest.mark.parametrize("package", KEPT_TO)
def test_third_party_package_stays_where_it_belongs(package: str) -> None:
    users = [name_of(path) for path in SOURCES if package in packages_of(path)]
    assert not [name for name in users if not name.startswith(KEPT_TO[package])]


@pytest.mark.parametrize("module", ["tasks.inline", "deployments.cli"])
def test_inline_runner_and_command_line_start_light(module: str) -> None:
    heavy = f"import sys, {module}; print({{'prefect', 'lancedb'}} & sys.modules.keys())"
    command = [sys.executable, "-c", heavy]
    said = subprocess.run(  # noqa: S603 - our own code
        command, cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert said.stdout == "set()\n"


def test_sql_is_in_sql_files() -> None:
    texts = [
        (name_of(path), node.value)
        for path in SOURCES
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert not [(name, text) for name, text in texts if SQL_IN_PYTHON.match(text)]


def test_sql_has_nothing_that_loses_updates_or_reads_a_clock() -> None:
    wrong = {}
    for path in STATEMENTS:
        lines = path.read_text(encoding="utf-8").splitlines()
        code = "\n".join(line.partition("--")[0] for line in lines)
        wrong[name_of(path)] = [match.group() for match in FORBIDDEN_SQL.finditer(code)]
    assert not {name: found for name, found in wrong.items() if found}


def test_clocks_and_chance_stay_at_the_edge() -> None:
    below = [path for path in SOURCES if name_of(path).startswith(("storage/", "tasks/"))]
    found = {f"{name_of(path)} {use}" for path in below for use in _uses_of_chance(path)}
    assert found == ALLOWED


def _uses_of_chance(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = CLOCKS_AND_CHANCE.get(node.value.id, set())
            if node.attr in names or "*" in names:
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            names = CLOCKS_AND_CHANCE.get(node.module or "", set())
            yield from (
                f"{node.module}.{alias.name}"
                for alias in node.names
                if alias.name in names or "*" in names
            )


def test_annotations_are_there_at_run_time() -> None:
    """Prefect, pydantic and typer read them; a policy under TYPE_CHECKING would lose its form."""
    above = [path for path in SOURCES if not name_of(path).startswith("storage/")]
    assert not [name_of(path) for path in above if "__future__" in imports_of(path)]
    assert not [name_of(path) for path in above if "TYPE_CHECKING" in path.read_text()]


def test_modules_say_what_they_are() -> None:
    assert not [name_of(path) for path in SOURCES if not ast.get_docstring(parse(path))]


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in [*SOURCES, *TESTS]}
    assert not {name_of(path): n for path, n in lengths.items() if n > LONGEST_FILE}


def test_flows_are_short() -> None:
    flows = [path for path in SOURCES if "@flow(" in path.read_text()]
    assert flows
    assert not [path for path in flows if len(path.read_text().splitlines()) > LONGEST_FLOW]


def test_own_code_is_never_mocked() -> None:
    assert not [name_of(path) for path in TESTS if "unittest.mock" in imports_of(path)]


def test_packages_are_found_from_here() -> None:
    """The packages under test are the ones whose source is checked."""
    assert {layer: Path(str(files(layer))) for layer in LAYERS} == {
        layer: ROOT / layer for layer in LAYERS
    }
