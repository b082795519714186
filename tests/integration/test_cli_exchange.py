"""The verbs `export` and `backup`, and the cases of spec/cases.md that `import` is about."""

import json
from pathlib import Path

import pytest
from helpers.cli import run_here
from helpers.imports import forgetful_row, write_backup, write_lines

from flows.edge import read_clock
from storage import open_store
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    run_here("init", "--store", path)
    for name in ("a", "b"):
        run_here("add", f"memory {name}", "--id", name, "--store", path)
    run_here("add", "elsewhere", "--id", "c", "--store", path, "--namespace", "t/p/s")
    return path


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("all.jsonl", id="C53-jsonl"),
        pytest.param("all.parquet", id="C53-parquet"),
        "ALL.PARQUET",
        "all",
    ],
)
def test_export_goes_out_and_comes_back(path: Path, tmp_path: Path, name: str) -> None:
    file, other = tmp_path / name, tmp_path / "other"
    said = run_here("export", file, "--store", path, "--json").value["export"]
    form = "parquet" if name.lower().endswith(".parquet") else "jsonl"
    assert said == {
        "path": str(file),
        "form": form,
        "namespaces": 2,
        "memories": 3,
        "byte_count": file.stat().st_size,
        "warnings": [],
    }
    run_here("init", "--store", other)
    report = run_here("import", file, "--strict", "--store", other, "--json").value
    assert (report["imported"], report["rejects"], report["warnings"]) == (3, [], [])
    counts = [
        run_here("status", "--store", one, "--json").value["memories"] for one in (path, other)
    ]
    assert counts[0] == counts[1]


def test_export_says_what_it_wrote(path: Path, tmp_path: Path) -> None:
    answer = run_here("export", tmp_path / "f", "--store", path, "--namespace", "t/p/s")
    size = (tmp_path / "f").stat().st_size
    assert answer.out == f"{tmp_path / 'f'}: 1 memories of 1 namespaces, {size} bytes\n"
    lines = [json.loads(line) for line in (tmp_path / "f").read_text().splitlines()]
    assert [line.get("id") for line in lines] == [None, "c"]


def test_export_refuses_an_existing_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mine")
    refused = run_here("export", tmp_path / "f", "--store", path, "--json")
    assert (refused.exit_code, refused.error["type"]) == (1, "invalid_input")
    assert (tmp_path / "f").read_text() == "mine"
    assert run_here("export", tmp_path / "f", "--force", "--store", path).exit_code == 0


def test_export_of_an_unknown_namespace_is_a_wrong_option(path: Path, tmp_path: Path) -> None:
    answer = run_here("export", tmp_path / "f", "--store", path, "--namespace", "x/y/z")
    assert (answer.exit_code, (tmp_path / "f").exists()) == (2, False)


def test_backup_says_what_it_copied(path: Path, tmp_path: Path) -> None:
    answer = run_here("backup", tmp_path / "copy", "--store", path)
    assert answer.exit_code == 0
    assert answer.out.startswith(f"{tmp_path / 'copy'}: 3 memories of 2 namespaces, 1 files, ")
    assert answer.out.endswith("bytes, checked\n")


def test_backup_refuses_a_directory_in_use(path: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "file").write_text("mine")
    refused = run_here("backup", tmp_path / "copy", "--store", path, "--json")
    assert (refused.exit_code, refused.error["type"]) == (1, "invalid_input")
    assert [file.name for file in (tmp_path / "copy").iterdir()] == ["file"]


def test_backup_beside_a_refresh_is_busy(path: Path, tmp_path: Path) -> None:
    with open_store(path).write() as writer:
        owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
        acquire_lease(writer, owner, "refresh", holder="other", clock=read_clock())
    busy = run_here("backup", tmp_path / "copy", "--store", path, "--json")
    assert (busy.exit_code, busy.error["type"]) == (3, "lease_held")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("verb", ["export", "backup"])
def test_there_must_be_a_store(tmp_path: Path, verb: str) -> None:
    answer = run_here(verb, tmp_path / "out", "--store", tmp_path / "none", "--json")
    assert (answer.exit_code, answer.error["type"]) == (1, "store_not_found")


def test_c16_wrong_importance_is_rejected_and_nothing_is_clamped(
    path: Path, tmp_path: Path
) -> None:
    values = ("NaN", "7", '"high"', "-1")
    lines = [f'{{"id": "bad{n}", "content": "x", "importance": {v}}}' for n, v in enumerate(values)]
    file = write_lines(tmp_path / "lines", *lines)
    report = run_here("import", file, "--store", path, "--json").value
    assert (report["imported"], report["rejected"]) == (0, 4)
    assert [(one["record"], one["field"]) for one in report["rejects"]] == [
        (1, "line"),
        (2, "importance"),
        (3, "importance"),
        (4, "importance"),
    ]


def test_c16_declared_scale_is_divided(path: Path, tmp_path: Path) -> None:
    rows = [forgetful_row(id=n, importance=value) for n, value in enumerate((7, 11, -1, "high"), 1)]
    file = write_backup(tmp_path / "backup.json", *rows)
    report = run_here("import", file, "--store", path, "--json").value
    assert (report["imported"], report["rejected"]) == (1, 3)
    assert {one["field"] for one in report["rejects"]} == {"importance"}
    with open_store(path).read() as reader:
        (found,) = reader.rows("SELECT importance FROM memories WHERE id = '1'")
    assert found[0] == pytest.approx(0.7)


def test_c52_tables_of_odd_shape_are_named_and_the_rest_goes_in(path: Path, tmp_path: Path) -> None:
    rows = [forgetful_row(id=number) for number in (1, 2, 3)]
    tables = {"users": {"id": "u1"}, "memory_code_artifact_association": None}
    file = write_backup(tmp_path / "backup.json", *rows, **tables)
    report = run_here("import", file, "--store", path, "--json").value
    assert (report["imported"], report["rejected"]) == (3, 0)
    assert {one["field"]: one["reason"] for one in report["warnings"]} == {
        "users": "is one object instead of a list; not imported",
        "memory_code_artifact_association": "is null instead of a list; not imported",
    }


@pytest.mark.parametrize("is_strict", [False, True], ids=["C54-tolerant", "C54-strict"])
def test_bad_lines_are_named(path: Path, tmp_path: Path, is_strict: bool) -> None:
    lines = [
        '{"id": "first", "content": "good"}',
        '{"content": "x"',
        r'{"id": "third", "content": "\ud800"}',
        '{"content": "x"}',
        '{"id": "fifth", "content": "good"}',
    ]
    file = write_lines(tmp_path / "lines", *lines)
    options = ["--strict"] if is_strict else []
    answer = run_here("import", file, *options, "--store", path, "--json")
    assert answer.exit_code == (1 if is_strict else 0)
    assert answer.value["imported"] == (0 if is_strict else 2)
    assert [one["record"] for one in answer.value["rejects"]] == [2, 3, 4]
    status = run_here("status", "--store", path, "--json").value["memories"]
    assert status["total"] == (3 if is_strict else 5)
