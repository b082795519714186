"""Apply a change set and stand still after one of its writes, or after the commit, to be killed.

Says "ready", waits for the end of stdin, says the table that each statement has written, and
"committed" when the set has come back; the store is open until the end.
Arguments: the store's directory, the change set as JSON, and after how many writes to stand still
(0: none).
"""

import json
import re
import signal
import sys
from itertools import count
from typing import Any

from storage import StoreWriter, open_store
from storage.changes import parse_change_set
from storage.repository import commit_change_set

store, sent, stop_after = open_store(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
writes = count(1)
WRITES = re.compile(r"^(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)", re.MULTILINE)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class TellingWriter(StoreWriter):
    """A write transaction that tells each statement and may stand still after it."""

    def execute(self, statement: str, *params: Any) -> int:  # noqa: ANN401
        rows = super().execute(statement, *params)
        written = WRITES.search(statement)
        say(written[1] if written else "another")
        if next(writes) == stop_after:
            signal.pause()
        return rows


say("ready")
sys.stdin.read()
with store.session():
    with store.write() as writer:
        writer.__class__ = TellingWriter
        commit_change_set(writer, parse_change_set(sent))
    say("committed")
    signal.pause()
