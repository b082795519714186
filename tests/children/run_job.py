"""Apply a stored plan, saying each batch; the process may stop itself after some of them.

Says "ready", waits for the end of stdin, then says "batch" after each transaction of the apply and
at last the outcome and the code of the run. The clock starts at the given second after the plan's
now and moves by a millisecond each time it is read.
Arguments: the store's directory, the plan's job and id, the run's id, the second, and after how
many batches to stop (0: never).
"""

import os
import signal
import sys
from datetime import timedelta
from itertools import count
from pathlib import Path

from storage import open_store
from storage.plans import read_plan
from tasks.inline import run_job
from tasks.jobs import find_job
from tasks.limits import SafetyLimits
from tasks.requests import JobRequest

directory, job, plan_id, run_id, second, stop_after = sys.argv[1:]
with open_store(directory).read() as reader:
    now = read_plan(reader, plan_id).now
ticks, batches = count(), count(1)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def on_batch(_done: int) -> None:
    say("batch")
    if next(batches) == int(stop_after):
        os.kill(os.getpid(), signal.SIGSTOP)


request = JobRequest(
    store=Path(directory),
    job=job,
    policy=find_job(job).policy_type(),
    now=now,
    clock=lambda: now + timedelta(seconds=int(second), milliseconds=next(ticks)),
    new_run_id=lambda: run_id,
    mode="apply",
    limits=SafetyLimits(max_fraction=1.0),
    plan_id=plan_id,
)
say("ready")
sys.stdin.read()
(result,) = run_job(request, on_batch=on_batch)
say(f"{result.end.outcome} {result.end.code}")
