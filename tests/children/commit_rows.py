"""Commit numbered rows one by one until killed, each with a step of the namespace's sequence.

Says "ready", waits for the end of stdin, then says each number once its commit has returned.
Arguments: the store's directory and the namespace's number.
"""

import sys
from datetime import UTC, datetime

from storage import open_store
from storage.namespaces import read_sequence, step_sequence

INSERT = """
INSERT INTO access_events (namespace_id, event_kind, event_id, memory_id, revision, occurred_at)
VALUES ($namespace_id, 'use', $event_id, 'm1', $number, $occurred_at)
"""

store, namespace_id = open_store(sys.argv[1]), int(sys.argv[2])
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read()
while True:
    with store.write() as writer:
        number = read_sequence(writer, namespace_id) + 1
        row = {"event_id": str(number), "number": number}
        owner = {"namespace_id": namespace_id, "occurred_at": datetime(2026, 9, 30, tzinfo=UTC)}
        writer.execute(INSERT, owner | row)
        step_sequence(writer, namespace_id)
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()
