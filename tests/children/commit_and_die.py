"""Commit a row and die before the database is closed, so that the commit is in its log only.

Arguments: the store's directory.
"""

import os
import signal
import sys

from storage import open_store

store = open_store(sys.argv[1])
with store.session():
    with store.write() as writer:
        writer.execute("INSERT INTO store_meta VALUES ('last', 'commit')")
    sys.stdout.write("committed\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
