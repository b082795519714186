"""Run refreshes on orders, one for each line of stdin, and say each step.

Says "ready", then for each order the steps as they begin and at last "ended " with what came of it.
At the step that an order names it waits for another line.
"""

import json
import sys

import lancedb  # noqa: F401 - loaded before anybody waits for it
from helpers.refresh_processes import ENDED, Order, run_refresh


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def follow(order: Order) -> None:
    def on_step(name: str) -> None:
        say(name)
        if name == order.stop_at:
            sys.stdin.readline()

    say(f"{ENDED}{run_refresh(order, on_step)}")


say("ready")
for line in iter(sys.stdin.readline, ""):
    follow(Order(**json.loads(line)))
