"""The benchmark of consolidation measures work that was really done."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from benchmarks.consolidate import count_planted
from benchmarks.consolidate_data import FRESH, make_planted, plan_rows, seed_stores
from helpers.children import ROOT

from storage import open_store


def test_rows_are_the_same_each_time() -> None:
    assert make_planted(100).equals(make_planted(100))


def test_what_is_planted_merges_and_nothing_else(tmp_path: Path) -> None:
    seed_stores(tmp_path, 400)
    with open_store(tmp_path / "merged").read() as reader:
        merged = reader.rows("SELECT count(*) FROM memories WHERE status = 'superseded'")
    with open_store(tmp_path / FRESH).read() as reader:
        fresh = reader.rows("SELECT count(*) FROM memories WHERE status = 'active'")
    assert (fresh, merged) == ([(400,)], [(plan_rows(400).losers,)])


@pytest.mark.slow
def test_consolidation_is_measured_and_finds_what_was_planted(tmp_path: Path) -> None:
    out = tmp_path / "samples.parquet"
    jobs = ("--jobs", "run, full;exact groups;near pairs")
    how = ("--sizes", "1k", *jobs, "--repeat", "1", "--out", str(out))
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-m", "tests.benchmarks.consolidate", *how],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "all found" in done.stdout
    assert "void" not in done.stdout.lower()
    rows = pa.parquet.read_table(out).to_pylist()
    found = {row["decisions"] for row in rows if row["job"] == "run, full"}
    assert found == {count_planted(1_000)["run, full"]}
