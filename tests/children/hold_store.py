"""Open a store by one of its doors and hold it until stdin ends.

Says "held" once it is open, then the monotonic instant just before it lets go.
Arguments: the store's directory and read, write or session.
"""

import sys
import time

from storage import open_store

directory, door = sys.argv[1:]
with getattr(open_store(directory), door)():
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()
    sys.stdout.write(f"{time.monotonic()}\n")
