"""Measure what Prefect costs: from `memtend serve` to its UI, from click to Running, per idle run.

    python -m tests.benchmarks.serving --repeat 5

A run that finds nothing to do is ordered on a served store, and the same run is made by the inline
runner, in this process and as `memtend run` in a process of its own. The overhead is the difference
of the two; a flow run has a process of its own, too, so the second difference compares like with
like. Times of a busy hour are not those of a quiet one: the load stands with them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.data import NOW, make_memories  # noqa: E402 - found through the two paths above
from helpers.serving import Served, serve  # noqa: E402

from flows.edge import new_run_id, read_clock  # noqa: E402
from storage import Store, create_store  # noqa: E402
from storage.memories import insert_memories  # noqa: E402
from storage.models import DEFAULT_NAMESPACE  # noqa: E402
from storage.namespaces import ensure_namespace  # noqa: E402
from tasks.inline import run_job  # noqa: E402
from tasks.policies import SweepPolicy  # noqa: E402
from tasks.requests import JobRequest  # noqa: E402

TARGET_S = 2.0
_PROGRAM = "from deployments.cli import main; main()"
_IDLE = SweepPolicy(cold_threshold=0, ttl=False, hard_delete_after_days=36_500)
_SETS = ["cold_threshold=0", "ttl=false", "hard_delete_after_days=36500"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of each part, in the order of measuring."""

    parts: dict[str, list[float]] = field(default_factory=dict)

    def note(self, part: str, seconds: float) -> None:
        """Take note of a time."""
        self.parts.setdefault(part, []).append(seconds)

    def clock(self, part: str, work: Callable[[], object]) -> None:
        """Do some work and take note of its time."""
        started = time.perf_counter()
        work()
        self.note(part, time.perf_counter() - started)

    def middle(self, part: str) -> float:
        """Give the median of a part."""
        return median(self.parts[part])


SERVED, SHOWN = "serve to deployments", "serve to UI"
RUNNING, WORKED, ENDED = "click to Running", "Running to ended", "click to ended"
INLINE, COMMAND = "inline runner", "memtend run"


def make_store(path: Path, rows: int) -> Store:
    """Make a store in which nothing is due."""
    store, _ = create_store(path, clock=NOW)
    with store.write() as writer:
        ensure_namespace(writer, DEFAULT_NAMESPACE)
        insert_memories(writer, make_memories(rows))
    return store


def run_inline(store: Store) -> None:
    """Run the idle sweep in this process."""
    request = JobRequest(
        store=store.path,
        job="sweep",
        policy=_IDLE,
        now=NOW,
        clock=read_clock,
        new_run_id=new_run_id,
        mode="apply",
    )
    (result,) = run_job(request)
    _check(result.end.outcome)


def run_command(store: Store) -> None:
    """Run the idle sweep as a command."""
    words = ["--store", str(store.path), "run", "sweep", "--now", NOW.isoformat()]
    words += [word for one in _SETS for word in ("--set", one)]
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", _PROGRAM, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def run_flow(served: Served, figures: Figures) -> None:
    """Order the idle sweep and note when it ran and ended, as the server saw it."""
    clicked = time.time()
    policy = _IDLE.model_dump(mode="json")
    run_id = served.order("sweep", mode="apply", policy=policy, now=NOW.isoformat())
    _check(served.end(run_id))
    run = served.call("GET", f"/flow_runs/{run_id}")
    began, ended = (datetime.fromisoformat(run[name]) for name in ("start_time", "end_time"))
    figures.note(RUNNING, began.timestamp() - clicked)
    figures.note(WORKED, (ended - began).total_seconds())
    figures.note(ENDED, ended.timestamp() - clicked)


def measure(directory: Path, *, rows: int, repeat: int) -> Figures:
    """Measure all parts; what is compared takes turns."""
    figures, store = Figures(), make_store(directory / "store", rows)
    started = time.perf_counter()
    with serve(store.path) as served:
        figures.note(SERVED, time.perf_counter() - started)
        with urlopen(f"{served.url}/v2/", timeout=60) as page:  # noqa: S310 - our own server
            page.read()
        figures.note(SHOWN, time.perf_counter() - started)
        run_flow(served, Figures())  # the first run fills the caches of all
        for _ in range(repeat):
            run_flow(served, figures)
            figures.clock(INLINE, lambda: run_inline(store))
            figures.clock(COMMAND, lambda: run_command(store))
    return figures


def tabulate(figures: Figures) -> Table:
    """Show the figures and the two differences."""
    table = Table("part", "median s", "best s", "worst s", box=None)
    for part, seconds in figures.parts.items():
        shown = median(seconds), min(seconds), max(seconds)
        table.add_row(part, *(f"{one:.2f}" for one in shown))
    overhead = figures.middle(WORKED) - figures.middle(INLINE)
    verdict = "met" if overhead <= TARGET_S else "missed"
    name = f"overhead of an unchanged run; target {TARGET_S:.0f} s {verdict}"
    table.add_row(name, f"{overhead:.2f}")
    whole = figures.middle(ENDED) - figures.middle(COMMAND)
    table.add_row("the same from click to end, against a command", f"{whole:.2f}")
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure what serving costs.")
    parser.add_argument("--rows", type=int, default=1_000, help="memories of the store")
    parser.add_argument("--repeat", type=int, default=5, help="how often each run is made")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        figures = measure(Path(directory), rows=asked.rows, repeat=asked.repeat)
    console = Console()
    console.print(tabulate(figures))
    console.print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def _check(outcome: str) -> None:
    if outcome != "unchanged":
        message = f"the run ended {outcome}"
        raise SystemExit(message)


if __name__ == "__main__":
    main()
