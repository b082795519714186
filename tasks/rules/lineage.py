"""Which superseded ancestors go with the heads of a plan.

An ancestor is carried if every row that supersedes it is a head or carried itself: a least fixed
point, so a cycle is never carried and a live successor keeps the whole chain behind it.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from storage import StoreReader
from storage.queries import read_statements

_SQL = read_statements("tasks.rules", "lineage")


def carry_ancestors(heads: Sequence[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Find the carried ancestors, each with the place of the last head in `heads` that reaches it.

    Source: spec/sweep.md R11. `edges` are (successor, ancestor) and must hold every successor of
    each ancestor. The work grows with the number of edges.
    """
    place = {head: index for index, head in enumerate(heads)}
    missing: dict[str, int] = defaultdict(int)
    ancestors: dict[str, list[str]] = defaultdict(list)
    for successor, ancestor in edges:
        if ancestor not in place:
            missing[ancestor] += 1
            ancestors[successor].append(ancestor)
    carried: dict[str, int] = {}
    last = dict(place)
    waiting = deque(head for head in heads if head in ancestors)
    while waiting:
        successor = waiting.popleft()
        for ancestor in ancestors[successor]:
            last[ancestor] = max(last.get(ancestor, 0), last[successor])
            missing[ancestor] -= 1
            if missing[ancestor] == 0:
                carried[ancestor] = last[ancestor]
                waiting.append(ancestor)
    return carried


def read_carried(reader: StoreReader, namespace_id: int, heads: pa.Table) -> pa.Table:
    """Read the rows that `heads` carry, ordered by head and id.

    Args:
        reader: An open handle; nothing is written.
        namespace_id: The namespace of the plan.
        heads: Decisions that remove rows, in the order of apply.

    Returns:
        The decision columns of each carried row plus `head_id` and `place`, the row of its head in
        `heads`; 0 rows when nothing is carried.
    """
    found = reader.table(
        _SQL["read_ancestry"], {"namespace_id": namespace_id}, incoming=heads.select(["memory_id"])
    )
    ids = heads.column("memory_id").to_pylist() if found.num_rows else []
    pairs = zip(
        found.column("successor_id").to_pylist(), found.column("memory_id").to_pylist(), strict=True
    )
    carried = carry_ancestors(ids, pairs)
    names = pa.array(sorted(carried), pa.string())
    place = pa.array([carried[name] for name in names.to_pylist()], pa.int64())
    head_id = pa.array([ids[index] for index in place.to_pylist()], pa.string())
    chosen = pa.table({"memory_id": names, "place": place, "head_id": head_id})
    rows = found.drop_columns(["successor_id"])
    first = pc.index_in(names, value_set=rows.column("memory_id"))
    picked = rows.take(first).append_column("place", place).append_column("head_id", head_id)
    return picked.take(
        pc.sort_indices(chosen, sort_keys=[("place", "ascending"), ("memory_id", "ascending")])
    )
