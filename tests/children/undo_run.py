"""Take back all merges since an instant, saying each batch.

Says "ready", waits for the end of stdin, then says "batch" after each transaction and at last the
outcome and the code of the run. The clock starts at the given instant and moves by a millisecond
each time it is read.
Arguments: the store's directory, the instant of the first merge, the run's id, and the instant.
"""

import sys
from datetime import timedelta
from itertools import count
from pathlib import Path

from storage.instants import parse_instant
from tasks.inline import run_job
from tasks.requests import JobRequest
from tasks.restoring import RestorePolicy

directory, since, run_id, instant = sys.argv[1:]
start, ticks = parse_instant(instant), count()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


request = JobRequest(
    store=Path(directory),
    job="restore",
    policy=RestorePolicy(since=parse_instant(since)),
    now=start,
    clock=lambda: start + timedelta(milliseconds=next(ticks)),
    new_run_id=lambda: run_id,
    mode="apply",
)
say("ready")
sys.stdin.read()
(result,) = run_job(request, on_batch=lambda _done: say("batch"))
say(f"{result.end.outcome} {result.end.code}")
