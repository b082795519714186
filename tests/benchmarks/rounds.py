"""Rounds of measurements: a fresh process each, ours before every peer, in the same hour."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from benchmarks.data import Seed
from benchmarks.measure import OURS, find_implementations

ROOT = Path(__file__).resolve().parents[2]
RESULT_SCHEMA = pa.schema(
    [
        ("job", pa.string()),
        ("implementation", pa.string()),
        ("rows", pa.int64()),
        ("wall_s", pa.float64()),
        ("cpu_s", pa.float64()),
        ("peak_rss_bytes", pa.int64()),
        ("decisions", pa.int64()),
        ("digest", pa.string()),
        ("load_1m", pa.float64()),
    ]
)


def run_rounds(job: str, seed: Seed, *, repeat: int) -> Iterator[dict[str, object]]:
    """Measure ours, a peer, ours, the next peer and so on, `repeat` times over.

    Yields:
        One mapping of RESULT_SCHEMA per process.
    """
    peers = [name for name in find_implementations(job) if name != OURS]
    for _ in range(repeat):
        for peer in peers:
            yield measure_apart(job, OURS, seed)
            yield measure_apart(job, peer, seed)


def measure_apart(job: str, name: str, seed: Seed) -> dict[str, object]:
    """Measure one implementation once, in a process of its own.

    Raises:
        subprocess.CalledProcessError: It failed; its own words are on stderr.
    """
    command = [
        sys.executable,
        "-m",
        "benchmarks.measure",
        job,
        name,
        str(seed.directory),
        str(seed.rows),
    ]
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    done = subprocess.run(  # noqa: S603 - our own module, arguments from our own tables
        command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, check=True
    )
    measured: dict[str, object] = json.loads(done.stdout)
    return measured
