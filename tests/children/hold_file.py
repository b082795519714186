"""Open the database file of a store past its lock, as a forgotten notebook does, until stdin ends.

Says "held" once it is open. Argument: the store's directory.
"""

import sys
from pathlib import Path

import duckdb

with duckdb.connect(str(Path(sys.argv[1]) / "memory.duckdb"), read_only=True):
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()
