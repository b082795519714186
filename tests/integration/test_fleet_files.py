"""The file of a fleet, and its stores maintained one after the other by the command line."""

from datetime import datetime
from pathlib import Path

import pytest
from helpers.cli import run_here

from storage import Store
from tasks.fleet import read_fleet
from tasks.maintaining import STEPS


def write_fleet(folder: Path, *stores: str) -> Path:
    file = folder / "fleet.toml"
    file.write_text("".join(f"[[stores]]\n{lines}\n" for lines in stores), encoding="utf-8")
    return file


def test_store_that_is_missing_does_not_stop_the_rest_of_a_fleet(
    store: Store, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_EMBEDDER", "hash")
    file = write_fleet(store.path.parent, 'path = "nowhere"', f'path = "{store.path.name}"')
    answer = run_here("--json", "run", "maintain", "--fleet", file, "--now", now.isoformat())
    assert (answer.exit_code, answer.error["type"]) == (1, "store_not_found")
    nowhere, here = answer.value["stores"]
    assert [step["outcome"] for step in nowhere["steps"]] == ["failed"]
    assert [step["job"] for step in here["steps"]] == list(STEPS)
    assert {step["outcome"] for step in here["steps"]} <= {"applied", "unchanged"}
    said = run_here("run", "maintain", "--fleet", file)
    assert said.out.count("there is no store") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[[stores]]\npath = a b\n", "line 2", id="no-toml"),
        pytest.param("", "fleet.stores: ", id="no-stores"),
        pytest.param("stores = []", "fleet.stores: ", id="empty"),
        pytest.param('[[stores]]\npath = ""', "fleet.stores[1].path: ", id="blank"),
        pytest.param('[[stores]]\npath = "a"\nname = "b"', "fleet.stores[1].name: ", id="unknown"),
        pytest.param(
            '[[stores]]\npath = "a"\n[[stores]]\npath = "b"\nnamespace = "x"',
            "fleet.stores[2].namespace: ",
            id="no-namespace",
        ),
        pytest.param(
            '[[stores]]\npath = "a"\n[[stores]]\npath = "b/../a"\nnamespace = "x/y/z"',
            "fleet.stores[2].path: is listed already",
            id="twice",
        ),
    ],
)
def test_fault_in_a_fleets_file_is_named(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(text, encoding="utf-8")
    answer = run_here("--json", "run", "maintain", "--fleet", file)
    assert answer.exit_code == 1
    assert said in answer.error["message"]


def test_namespaces_of_one_store_may_be_maintained_apart(tmp_path: Path) -> None:
    spaces = [f'path = "a"\nnamespace = "t/p/s{number}"' for number in (1, 2)]
    stores = read_fleet(write_fleet(tmp_path, *spaces)).stores
    assert [one.path for one in stores] == [tmp_path / "a"] * 2
