"""Read a store over and over, 100 ms each time with no pause between, until killed.

Says "reading" in the first read. Argument: the store's directory.
"""

import sys
import time

from storage import open_store

HOLD_S = 0.1

store = open_store(sys.argv[1])
has_said = False
while True:
    with store.read():
        if not has_said:
            sys.stdout.write("reading\n")
            sys.stdout.flush()
            has_said = True
        time.sleep(HOLD_S)
