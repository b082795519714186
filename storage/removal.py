"""Remove memories with every row about them; no edge keeps one end.

Neighbours lose their edges in the same transaction, one revision step each. Source:
spec/repository.md R42. What to remove stands in the temporary table `removed`.
"""

from collections.abc import Iterable
from datetime import datetime

from storage.duplicate_texts import delete_tokens
from storage.errors import ConflictError
from storage.gateway import StoreWriter
from storage.namespaces import step_sequence
from storage.queries import read_statements
from storage.semantic_searches import delete_searches
from storage.terms import delete_terms

_SQL = read_statements("storage.sql", "removal")
_TABLES = ("revisions", "evidence", "relations", "access_events", "merge_sources")


def remove_memories(
    writer: StoreWriter, namespace_id: int, ids: Iterable[str], *, now: datetime
) -> int:
    """Remove the memories with these ids that exist; give how many there were."""
    owner = {"namespace_id": namespace_id}
    writer.execute(_SQL["mark_removed"], {**owner, "ids": list(ids)})
    count = int(writer.rows(_SQL["count_removed"])[0][0])
    if count:
        remove_marked(writer, namespace_id, now=now)
        step_sequence(writer, namespace_id)
    return count


def remove_marked(writer: StoreWriter, namespace_id: int, *, now: datetime) -> bool:
    """Remove what the table `removed` names, at the revisions that it names.

    Returns:
        Whether neighbours lost an edge; they then stand in the temporary table `neighbours`.

    Raises:
        ConflictError: A memory is not there at its revision.
    """
    owner = {"namespace_id": namespace_id}
    writer.execute(_SQL["collect_neighbours"], owner)
    has_neighbours = bool(writer.rows(_SQL["count_neighbours"])[0][0])
    if has_neighbours:
        writer.execute(_SQL["keep_neighbours"], owner)
        writer.execute(_SQL["end_edges"], owner)
        writer.execute(_SQL["step_neighbours"], {**owner, "now": now})
    delete_tokens(writer, namespace_id)
    delete_searches(writer, namespace_id)
    delete_terms(writer, namespace_id)
    marked = writer.rows(_SQL["count_removed"])[0][0]
    removed = writer.execute(_SQL["delete_memories"], owner)
    if removed != marked:
        message = f"{marked} memories were to be removed and {removed} were there"
        raise ConflictError(message, expected=marked, found=removed)
    for table in _TABLES:
        writer.execute(_SQL[f"delete_{table}"], owner)
    return has_neighbours
