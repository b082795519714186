"""What a run finds first: the history of the store, and what killed runs left behind.

Source: spec/refresh.md R10, R52, 3.2; spec/maintenance.md R17.
"""

from storage.attempts import count_crashes
from storage.gateway import StoreReader
from storage.history import count_rebuild, settle_history
from storage.identities import name_vector_table
from storage.partitions import Observation, ensure_partition, read_pointer
from storage.publications import Publication, abandon_leftovers, read_publication
from storage.runs import count_settled
from tasks.refresh.publish import Proof, prove
from tasks.refresh.verify import holds_rows, take_back
from tasks.refresh.work import Refreshed, Work


def recover(work: Work) -> None:
    """Settle the store's history and what runs with lower fences left; make the tables."""
    clock = work.clock()
    work.kept_at = clock
    with work.store.write() as writer:
        work.history = settle_history(writer, work.store.path, clock=clock)
        work.vector_table = _name_table(work)
        if work.settings.recreate_index and _is_in_use(work, writer):
            work.history = count_rebuild(writer, work.history, work.store.path)
            work.vector_table = _name_table(work)
        work.vectors.ensure(work.vector_table, work.partition.dimension)
        ensure_partition(writer, work.partition)
        abandon_leftovers(writer, work.lease, clock=clock)
        count_crashes(writer, work.partition.name, lease_fence=work.lease.fence, clock=clock)
        work.counters.abandoned = count_settled(writer, work.lease.holder)


def _name_table(work: Work) -> str:
    history = work.settled_history
    return name_vector_table(history.digest, work.partition.dimension, history.rebuilds)


def _is_in_use(work: Work, reader: StoreReader) -> bool:
    """Tell whether the partition lives in the current table, or nowhere yet.

    One that lives in an earlier table moves to the current one, which was made anew already: a
    rebuild of many namespaces makes one table.
    """
    pointer = read_pointer(reader, work.partition.name)
    return pointer is None or pointer.vector_table in {None, work.vector_table}


def adopt(work: Work, seen: Observation) -> Publication | None:
    """Adopt a publication that was flipped by a run that died before it was verified (W5).

    Rows that are not the staged ones are taken back; another history's are left to be replaced.
    """
    pointer = seen.pointer
    is_unproven = pointer.phase == "published" and pointer.publication_id is not None
    if not is_unproven or work.owner is not None or work.settings.recreate_index:
        return None
    with work.store.read() as reader:
        found = read_publication(reader, pointer.publication_id or "")
    is_ours = (
        found is not None
        and found.index_history == seen.history
        and found.store_history == work.settled_history.digest
        and found.base_revision + 1 == seen.revision
    )
    if found is None or not is_ours:
        return None
    if not holds_rows(work, found) or not _is_current(work, found):
        take_back(work, found)
        return None
    proof = Proof(
        found.snapshot_digest, found.snapshot_bytes, found.source_token, found.counts, found
    )
    ended = Refreshed("adopted", found.counts, affected=found.counts.published)
    prove(work, seen, proof, ended)
    work.counters.adopted += 1
    return found


def _is_current(work: Work, found: Publication) -> bool:
    """Ask a source outside of the store again: its token proves nothing across processes."""
    if work.source.is_co_transactional:
        return True
    return work.take_view(with_token=False).digest == found.snapshot_digest
