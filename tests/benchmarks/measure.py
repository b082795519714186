"""Measure one implementation once, in a process of its own.

Run as `python -m benchmarks.measure JOB IMPLEMENTATION SEED ROWS`: prints one JSON object. Getting
ready, reading back and hashing are outside the clocks; peak memory is that of the process until the
work is done.
"""

import gc
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from benchmarks import frames, ours, peers
from benchmarks.data import Seed, copy_seed
from benchmarks.work import Implementation

OURS = "ours"
# The first is ours; a peer named in HAS_NO_DECISIONS is only a yardstick.
JOBS: dict[str, dict[str, Implementation]] = {
    "sweep plan": {
        OURS: ours.sweep_in_session,
        "ours, whole runner": ours.sweep_by_runner,
        "floor": peers.floor,
        "sqlite": peers.sweep_sqlite,
        "python loop": peers.sweep_loop,
        "pydantic rows": peers.sweep_models,
        "dict store": peers.sweep_dicts,
        "polars": frames.sweep_polars,
    },
    "prune decide": {
        OURS: ours.prune_decide,
        "floor": peers.floor,
        "sqlite": peers.prune_decide_sqlite,
        "python loop": peers.prune_loop,
        "dict store": peers.prune_dicts,
        "polars": frames.prune_polars,
    },
    "prune apply": {OURS: ours.prune_apply, "sqlite": peers.prune_apply_sqlite},
}
HAS_NO_DECISIONS = frozenset({"floor"})


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured execution; `digest` does not depend on the order of the decisions."""

    job: str
    implementation: str
    rows: int
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    decisions: int
    digest: str


def find_implementations(job: str) -> dict[str, Implementation]:
    """Give the implementations of a job that can run here."""
    has_polars = find_spec("polars") is not None
    return {name: one for name, one in JOBS[job].items() if has_polars or name != "polars"}


def measure(job: str, name: str, seed: Seed) -> Measurement:
    """Let an implementation do its work once, on copies of the seed's files where it writes."""
    with tempfile.TemporaryDirectory(dir=seed.directory) as directory:
        own = copy_seed(seed, Path(directory))
        return time_work(job, name, own, JOBS[job][name])


def time_work(job: str, name: str, seed: Seed, implementation: Implementation) -> Measurement:
    """Let an implementation do its work once, on the files of the seed."""
    with implementation(seed) as work:
        # What got ready is no garbage: Python loops should not pay for looking through it.
        gc.collect()
        gc.freeze()
        started = time.perf_counter(), time.process_time()
        read = work()
        wall_s, cpu_s = time.perf_counter() - started[0], time.process_time() - started[1]
        peak = read_peak_rss()
        decisions, digest = digest_pairs(read())
        gc.unfreeze()
    return Measurement(job, name, seed.rows, wall_s, cpu_s, peak, decisions, digest)


def read_peak_rss() -> int:
    """Give the peak memory of this process, in bytes.

    Linux hands ru_maxrss of the process that started this one down to it; VmHWM starts afresh.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text(encoding="ascii").split("VmHWM:")[1].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def digest_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[int, str]:
    """Count pairs of reason and memory id and add up their hashes, in any order."""
    count = total = 0
    for reason, memory_id in pairs:
        digest = sha256(f"{reason}\0{memory_id}".encode()).digest()
        count, total = count + 1, total + int.from_bytes(digest[:8])
    return count, f"{total % 2**64:016x}"


def main(arguments: list[str]) -> None:
    """Measure what the arguments name."""
    job, name, directory, rows = arguments
    measured = asdict(measure(job, name, Seed(Path(directory), int(rows))))
    sys.stdout.write(json.dumps(measured | {"load_1m": os.getloadavg()[0]}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
