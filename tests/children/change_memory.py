"""Annotate memory n1 again and again, each time expecting the revision read before.

A conflict is read again and repeated under a fresh key. Says "ready", waits for the end of stdin,
then says how many conflicts there were. Arguments: the store's directory, a name, how many turns.
"""

import sys

from helpers.sets import SPACE, change, change_set

from storage import open_store
from storage.errors import RevisionConflictError
from storage.repository import apply_change_set, read_state

store, name, turns = open_store(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read()
conflicts = 0
for turn in range(turns):
    while True:
        with store.read() as reader:
            record = read_state(reader, SPACE, "n1")
        assert record is not None
        operation = change("annotate", "n1", record.revision, tags=[name, str(turn)])
        try:
            apply_change_set(store, change_set(f"{name}-{turn}-{conflicts}", 1, operation))
        except RevisionConflictError:
            conflicts += 1
        else:
            break
sys.stdout.write(f"{conflicts}\n")
