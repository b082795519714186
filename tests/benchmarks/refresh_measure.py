"""Measure one part of the refresh benchmark, in a process of its own.

Run as `python -m benchmarks.refresh_measure PART STORE EMBEDDER COUNT`: prints one JSON object.
COUNT says how many texts have to be embedded, or how many queries are asked. Loading, reading back
and checking are outside the clocks.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import read_peak_rss
from benchmarks.refresh_queries import measure_queries
from benchmarks.refresh_runs import EXPECTED, Sample, measure_runs, read_index
from benchmarks.refresh_steps import measure_steps

from storage import open_store

QUERIES, STEPS = "queries", "steps"
_OTHERS: dict[str, Callable[[Path, str, int], Iterator[Sample]]] = {
    QUERIES: measure_queries,
    STEPS: measure_steps,
}


def main(arguments: list[str]) -> None:
    """Measure what the arguments name."""
    part, path, name, count = arguments[0], Path(arguments[1]), arguments[2], int(arguments[3])
    if part in EXPECTED:
        samples = list(measure_runs(part, path, name, count))
    else:
        samples = list(_OTHERS[part](path, name, count))
    process = {"peak_rss_bytes": read_peak_rss(), "load_1m": os.getloadavg()[0]}
    index = asdict(read_index(open_store(path)))
    said = {"samples": [asdict(sample) for sample in samples], "index": index, **process}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
