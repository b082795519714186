"""Increment the row `counter` of store_meta by compare-and-swap: one write, then a session of four.

The expected value is that of the write before, so the other process may have moved it since:
then the swap changes no row, the value is read again and the swap repeated.
Says "ready", waits for the end of stdin, then says how many expectations had become stale.
Arguments: the store's directory and the number of increments, a multiple of five.
"""

import sys
from contextlib import nullcontext

from storage import StoreReader, open_store

READ = "SELECT value::INTEGER FROM store_meta WHERE name = 'counter'"
SWAP = "UPDATE store_meta SET value = $new WHERE name = 'counter' AND value = $expected"

store, times = open_store(sys.argv[1]), int(sys.argv[2])


def read_counter(reader: StoreReader) -> int:
    return int(reader.rows(READ)[0][0])


def increment(expected: int) -> int:
    with store.write() as writer:
        while not writer.execute(SWAP, {"new": str(expected + 1), "expected": str(expected)}):
            expected = read_counter(writer)
    return expected + 1


with store.read() as reader:
    counter = read_counter(reader)
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read()
stale = 0
for burst in (1, 4) * (times // 5):
    with store.session() if burst > 1 else nullcontext():
        for _ in range(burst):
            before, counter = counter, increment(counter)
            stale += counter != before + 1
sys.stdout.write(f"{stale}\n")
