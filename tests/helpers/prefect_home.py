"""A home for Prefect in tests; importing this comes before prefect, which makes its home then."""

import atexit
import os
import shutil
from tempfile import mkdtemp

_HOME = mkdtemp(prefix="memtend-prefect-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
os.environ |= {
    "PREFECT_HOME": _HOME,
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
