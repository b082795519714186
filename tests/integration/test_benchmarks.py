import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from benchmarks.data import Seed, make_memories, seed_rows
from benchmarks.measure import (
    HAS_NO_DECISIONS,
    JOBS,
    OURS,
    digest_pairs,
    find_implementations,
    measure,
)
from benchmarks.refresh import seed_store
from benchmarks.refresh_edits import change_memories
from benchmarks.refresh_queries import measure_queries
from benchmarks.refresh_runs import (
    CHANGED,
    FULL,
    INACTIVE,
    METADATA,
    UNCHANGED,
    find_fault,
    measure_runs,
)
from benchmarks.refresh_steps import measure_steps
from benchmarks.report import fit_exponent, pick_best, tabulate_jobs, tabulate_ratios
from benchmarks.rounds import RESULT_SCHEMA, measure_apart
from helpers.children import ROOT

from storage import open_store
from storage.gateway import DATABASE_FILE
from tasks.providers.hashing import HashingEmbedder

ROWS = 500


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Seed:
    return seed_rows(tmp_path_factory.mktemp("seed"), ROWS)


@pytest.mark.parametrize("job", JOBS)
def test_all_implementations_decide_the_same(job: str, seed: Seed) -> None:
    names = [name for name in find_implementations(job) if name not in HAS_NO_DECISIONS]
    found = {name: measure(job, name, seed) for name in names}
    said = {(one.decisions, one.digest) for one in found.values()}
    assert len(said) == 1
    assert found[OURS].decisions > 0


def test_measuring_leaves_the_seed_alone(seed: Seed) -> None:
    before = (seed.store / DATABASE_FILE).read_bytes()
    measure("sweep plan", OURS, seed)
    assert (seed.store / DATABASE_FILE).read_bytes() == before


def test_a_process_of_its_own_says_the_same(seed: Seed) -> None:
    here = measure("sweep plan", "python loop", seed)
    apart = measure_apart("sweep plan", "python loop", seed)
    assert apart.keys() == set(RESULT_SCHEMA.names)
    assert (apart["decisions"], apart["digest"]) == (here.decisions, here.digest)


def test_memories_are_the_same_each_time() -> None:
    assert make_memories(50).equals(make_memories(50))


def test_digest_does_not_depend_on_the_order() -> None:
    pairs = [("cold", "a"), ("expired", "b")]
    assert digest_pairs(pairs) == digest_pairs(pairs[::-1])
    assert digest_pairs(pairs) != digest_pairs([("cold", "b"), ("expired", "a")])


def test_a_peer_that_decides_otherwise_is_void() -> None:
    results = _results(("ours", 2, "aa"), ("sqlite", 2, "ab"), ("floor", 0, "00"))
    bests = pick_best(results)
    assert [best.is_void for best in bests] == [False, True, False]
    assert tabulate_ratios(bests).row_count == 1
    assert [table.row_count for table in tabulate_jobs(bests)] == [3]


def test_exponent_is_the_slope_over_the_sizes() -> None:
    assert fit_exponent([(10, 1.0), (100, 10.0), (1000, 100.0)]) == pytest.approx(1.0)
    assert fit_exponent([(10, 1.0), (10, 2.0)]) is None


@pytest.mark.slow
def test_the_repository_is_measured_and_answers_as_expected(tmp_path: Path) -> None:
    out = tmp_path / "samples.parquet"
    how = ("--sizes", "1k", "--adds", "10", "--repeat", "1", "--out", str(out))
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-m", "tests.benchmarks.repository", *how],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "lexical queries" in done.stdout
    assert "void" not in done.stdout
    measured = pa.parquet.read_table(out)["implementation"].unique().to_pylist()
    assert {"ours", "ours, opening", "re-tokenising", "append + fsync"} < set(measured)


@pytest.mark.slow
def test_the_refresh_is_measured_and_does_what_it_should(tmp_path: Path) -> None:
    out = tmp_path / "samples.parquet"
    how = ("--sizes", "1k", "--parts", "changed", "--repeat", "1", "--out", str(out))
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-m", "tests.benchmarks.refresh", "--embedder", "hash", *how],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "full ÷ incremental" in done.stdout
    said = pa.parquet.read_table(out).select(["case", "fault"]).to_pylist()
    assert said == [{"case": FULL, "fault": ""}, {"case": CHANGED, "fault": ""}]


@pytest.mark.slow
def test_refresh_without_the_expected_work_is_void(tmp_path: Path) -> None:
    path = tmp_path / "store"
    active = seed_store(path, ROWS)
    assert [one.fault for one in measure_runs(FULL, path, "hash", active)] == [""]
    assert {one.fault for one in measure_queries(path, "hash", 4)} == {""}
    assert {one.fault for one in measure_runs(UNCHANGED, path, "hash", 0)} == {""}
    new_texts = change_memories(open_store(path), CHANGED, 0)
    assert find_fault(open_store(path), HashingEmbedder()) != ""
    (missed,) = measure_runs(CHANGED, path, "hash", new_texts + 1)
    assert missed.fault == f"{new_texts} texts for {new_texts + 1}"
    for turn, case in enumerate((INACTIVE, METADATA), 1):
        change_memories(open_store(path), case, turn)
        assert [one.fault for one in measure_runs(case, path, "hash", 0)] == [""]


@pytest.mark.slow
def test_the_steps_of_a_refresh_add_up_to_its_time(tmp_path: Path) -> None:
    path = tmp_path / "store"
    active = seed_store(path, ROWS)
    list(measure_runs(FULL, path, "hash", active))
    new_texts = change_memories(open_store(path), CHANGED, 0)
    changed, *ticks = measure_steps(path, "hash", new_texts)
    assert {one.fault for one in (changed, *ticks)} == {""}
    assert sum(ticks[0].figures.values()) == pytest.approx(ticks[0].wall_s)
    assert {"copy proven vectors", "stage: append to Lance", "flip"} < changed.figures.keys()
    assert not {"snapshot: digest and members", "flip"} & ticks[0].figures.keys()


def _results(*said: tuple[str, int, str]) -> pa.Table:
    times = {"wall_s": 1.0, "cpu_s": 1.0, "peak_rss_bytes": 1, "load_1m": 0.0}
    rows = [
        {"job": "sweep plan", "rows": 9, "implementation": name, "decisions": n, "digest": digest}
        for name, n, digest in said
    ]
    return pa.Table.from_pylist([row | times for row in rows], schema=RESULT_SCHEMA)
