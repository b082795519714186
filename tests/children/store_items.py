"""Use the store API in turns with others: store copies of one text, or search for it.

Says "ready", waits for the end of stdin, then says how often it was done. Arguments: the store's
directory, "store" or "search", a name, how many turns.
"""

import sys

from helpers.store_contract import START

from storage import open_store
from storage.models import DEFAULT_NAMESPACE
from tasks.memory_store import DuckMemoryStore, MemoryItem

path, what, name, turns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
numbers = iter(range(turns))
memory = DuckMemoryStore(
    open_store(path),
    DEFAULT_NAMESPACE,
    clock=lambda: START,
    new_id=lambda: f"{name}-{next(numbers)}",
)
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read()
done = 0
for _ in range(turns):
    if what == "store":
        memory.store(MemoryItem("Run careful ledger archive checks after parser changes."))
        done += 1
    else:
        done += len(memory.search("ledger", 10))
sys.stdout.write(f"{done - memory.access_not_recorded}\n")
