"""Read the members of a snapshot a page at a time, each with all that a payload says of it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from storage.errors import LimitExceededError
from storage.gateway import StoreReader
from storage.queries import read_statements
from storage.snapshot_profiles import DEFAULT_PROFILE, PROFILES, encode_memory

NODES = "namespace snapshot nodes"
BYTES = "namespace snapshot bytes"
INSTANT = "%Y-%m-%dT%H:%M:%S.%fZ"
# A page is one scan of the table (0.1 s at a million rows) and the most that is held at a time.
_PAGE_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 500
_SQL = read_statements("storage.sql", "snapshots")

Row = Mapping[str, Any]
Limits = Mapping[str, object]


def plan_pages(
    reader: StoreReader, scope: Limits, *, max_nodes: int, with_history: bool = False
) -> list[tuple[str, str, int]]:
    """Plan (first id, last id, least bytes) ranges of about 16 MiB of a namespace's memories.

    Raises:
        LimitExceededError: More memories with these statuses than `max_nodes`.
    """
    count = reader.rows(_SQL["count_members"], dict(scope))[0][0]
    if count > max_nodes:
        raise LimitExceededError(NODES, limit=max_nodes, actual=count)
    params = {**scope, "with_history": with_history, "page_bytes": _PAGE_BYTES}
    return reader.rows(_SQL["plan_pages"], params)


def read_rows(
    reader: StoreReader, scope: Limits, limits: Limits, *, with_history: bool = False
) -> Iterator[Row]:
    """Read the memories of a page in id order, with evidence, edges and earlier states."""
    params = {**scope, **limits, "with_history": with_history, "instant": INSTANT}
    table = reader.table(_SQL["read_page"], params)
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        yield from map(_complete_row, batch.to_pylist())


def read_texts(reader: StoreReader, scope: Limits, limits: Limits, owner: str) -> Iterator[bytes]:
    """Encode the memories of a page in the default profile, each with a comma before it."""
    profile = PROFILES[DEFAULT_PROFILE]
    for row in read_rows(reader, scope, limits):
        yield ("," + "".join(encode_memory(profile, row, owner))).encode()


def _complete_row(row: dict[str, Any]) -> Row:
    """Give a stored memory and its earlier states the evidence and the edges of each revision."""
    evidence, edges = row["evidence"] or (), row["relations"] or ()
    past = sorted(row["history"] or (), key=lambda state: int(state["revision"]))
    row["history"] = (_complete_state(state, evidence, edges) for state in past)
    return _complete_state(row, evidence, edges)


def _complete_state(state: dict[str, Any], evidence: Iterable[Row], edges: Iterable[Row]) -> Row:
    revision = state["revision"]
    state["evidence"] = [item for item in evidence if item["since_revision"] <= revision]
    state["relations"] = [edge for edge in edges if _holds(edge, revision)]
    return state


def _holds(edge: Row, revision: int) -> bool:
    until = edge["until_revision"]
    return bool(edge["since_revision"] <= revision and (until is None or revision < until))
