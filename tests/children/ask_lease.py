"""Ask for one lease over and over, once for each line of stdin, which gives the clock in seconds.

Says "ready", then for each line the fence that it got, or "busy".
Arguments: the store's directory and the name of the asking runs.
"""

import sys
from datetime import UTC, datetime, timedelta

from storage import open_store
from storage.errors import LeaseHeldError
from storage.leases import acquire_lease
from storage.models import DEFAULT_NAMESPACE
from storage.namespaces import ensure_namespace

START = datetime(2026, 9, 30, tzinfo=UTC)

store, name = open_store(sys.argv[1]), sys.argv[2]
sys.stdout.write("ready\n")
sys.stdout.flush()
for line in sys.stdin:
    clock = START + timedelta(seconds=int(line))
    try:
        with store.write() as writer:
            owner = ensure_namespace(writer, DEFAULT_NAMESPACE)
            said = str(acquire_lease(writer, owner, "prune", holder=name, clock=clock).fence)
    except LeaseHeldError:
        said = "busy"
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()
