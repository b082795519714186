"""Replace an export again and again until killed; says "exporting" after the first round.

Every row of a round holds its number. Arguments: the store's directory.
"""

import sys
from itertools import count
from pathlib import Path

import pyarrow as pa

from storage.exports import write_exports

ROWS = 100_000

store_path = Path(sys.argv[1])
for number in count():
    table = pa.table(
        {"round": pa.array([number] * ROWS), "text": [f"row {n}" for n in range(ROWS)]}
    )
    write_exports(store_path, [("rounds", table)], run_id=f"run-{number}")
    if number == 0:
        sys.stdout.write("exporting\n")
        sys.stdout.flush()
