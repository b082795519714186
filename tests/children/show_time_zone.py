"""Say for each door the time zone of its connection and the epoch of a naive midnight.

Argument: the store's directory.
"""

import sys
from contextlib import nullcontext
from datetime import datetime

from storage import open_store

ZONE = "SELECT current_setting('TimeZone')"
EPOCH = "SELECT epoch_us($instant::TIMESTAMPTZ)"
MIDNIGHT = datetime(2026, 9, 30)  # noqa: DTZ001 - naive on purpose

store = open_store(sys.argv[1])
for burst in (nullcontext(), store.session()):
    with burst:
        for door in (store.read, store.write):
            with door() as handle:
                zone, epoch = handle.rows(ZONE)[0][0], handle.rows(EPOCH, {"instant": MIDNIGHT})
                sys.stdout.write(f"{zone} {epoch[0][0]}\n")
