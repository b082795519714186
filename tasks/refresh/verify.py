"""Read a flipped publication back: exactly the staged rows, or it is taken back.

Source: spec/refresh.md R30, R31.
"""

from collections import Counter

import pyarrow as pa

from storage.identities import digest_row, digest_set
from storage.index_errors import (
    IndexRevisionChangedError,
    VerifyFailedError,
)
from storage.leases import keep_lease
from storage.partitions import Observation
from storage.publications import Publication, invalidate
from tasks.refresh.rows import slice_vectors
from tasks.refresh.work import Work


def take_back(work: Work, publication: Publication) -> None:
    """Invalidate a flipped publication.

    Raises:
        IndexConflictError: Another writer has moved the pointer since.
    """
    with work.store.write() as writer:
        keep_lease(writer, work.lease, clock=work.clock(), is_committed=True)
        invalidate(
            writer,
            publication,
            revision=publication.base_revision + 1,
            scope=work.settings.cas_scope,
            clock=work.clock(),
        )
    work.counters.invalidated += 1


def verify(work: Work, publication: Publication) -> Observation:
    """Read a flipped publication back and compare it with what was staged (R30).

    Returns:
        The index as it is now.

    Raises:
        IndexRevisionChangedError: Another writer moved the pointer; it is theirs.
        VerifyFailedError: The rows are others; the pointer was emptied.
        IndexUnreadableError: The index could not be observed; nothing was taken back.
    """
    work.on_step("before_verify")
    work.on_step("observe_final")
    seen = work.observe()
    is_ours = seen.pointer.publication_id == publication.publication_id
    if seen.revision != publication.base_revision + 1 or not is_ours:
        raise IndexRevisionChangedError
    if not holds_rows(work, publication):
        take_back(work, publication)
        raise VerifyFailedError
    return seen


def holds_rows(work: Work, publication: Publication) -> bool:
    """Tell whether exactly the staged rows are there, every vector bit for bit.

    Raises:
        IndexUnreadableError: The rows could not be read, which says nothing about them.
    """
    pairs: list[tuple[str, str]] = []
    columns = ("record_id", "row_digest", "vector")
    for batch in work.vectors.read(publication.vector_table, publication.publication_id, columns):
        names = batch.column("record_id").to_pylist()
        vectors = slice_vectors(pa.chunked_array([batch.column("vector")]))
        pairs += [(name, digest_row(name, one)) for name, one in zip(names, vectors, strict=True)]
    is_unique = max(Counter(name for name, _ in pairs).values(), default=1) == 1
    return (
        is_unique
        and len(pairs) == publication.record_count
        and digest_set(pairs) == publication.set_digest
    )
