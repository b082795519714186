"""Refine one cluster and stand still on the way, to be killed.

Says "asked" when the refiner has answered, before the answer is stored, and "stored" after that;
waits for the end of stdin at the first, for ever at the second.
Arguments: the store's directory, the cluster as JSON.
"""

import signal
import sys

from helpers.refiners import ScriptedRefiner
from helpers.rows import NOW

from storage import StoreWriter, open_store
from tasks.providers.refiner import RefineRequest
from tasks.refine_calls import RefineLimits
from tasks.refining import refine_clusters


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def wait(_: StoreWriter) -> None:
    say("asked")
    sys.stdin.read()


refine_clusters(
    open_store(sys.argv[1]),
    ScriptedRefiner(),
    [RefineRequest.model_validate_json(sys.argv[2])],
    limits=RefineLimits(),
    now=NOW,
    clock=lambda: NOW,
    guard=wait,
)
say("stored")
signal.pause()
