"""From prepared rows to a verified publication: stage, flip, read back, prove.

Every step that decides is one transaction of the store. Source: spec/refresh.md R24-R35.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from storage.attempts import forget_departed, forget_embedded, record_failures
from storage.errors import FenceLostError
from storage.gateway import StoreWriter
from storage.identities import digest_set
from storage.index_errors import (
    CancelledError,
    IndexConflictError,
    IndexRevisionChangedError,
    PublicationLostError,
    SourceChangedError,
    StageFailedError,
)
from storage.leases import keep_lease
from storage.partitions import Observation, prove_pointer, switch_serving
from storage.publications import (
    Counts,
    Publication,
    end_publication,
    finish_staging,
    flip,
    mark_verified,
    publish_nothing,
    stage_publication,
)
from storage.receipts import Receipt, insert_receipt
from storage.run_errors import RunCancelledError
from storage.runs import finish_run
from storage.vectors import vector_schema
from tasks.refresh.ending import end_refreshed
from tasks.refresh.rows import Prepared
from tasks.refresh.source import View
from tasks.refresh.work import Refreshed, Work

_LOST = (
    CancelledError,
    FenceLostError,
    RunCancelledError,
    SourceChangedError,
    PublicationLostError,
    IndexConflictError,
)


@dataclass(frozen=True, slots=True)
class Proof:
    """What a receipt says beside the index: which snapshot, which rows, which counts."""

    snapshot_digest: str
    snapshot_bytes: int
    source_token: int | None
    counts: Counts
    publication: Publication | None = None
    records: pa.Table | None = None
    failures: pa.Table | None = None


def prove_view(view: View, counts: Counts, publication: Publication | None = None) -> Proof:
    """Take the proof of a snapshot."""
    token = view.token.sequence if view.token is not None else None
    return Proof(view.digest, view.byte_count, token, counts, publication)


def stage(work: Work, seen: Observation, view: View, prepared: Prepared) -> Publication:
    """Write the rows of a publication, invisible until its flip (R24).

    Raises:
        StageFailedError: Not all rows are there.
    """
    pairs = zip(
        prepared.rows.column("record_id").to_pylist(),
        prepared.rows.column("row_digest").to_pylist(),
        strict=True,
    )
    publication = Publication(
        publication_id=f"pub_{work.new_id()}",
        partition=work.partition.name,
        namespace_id=work.target.namespace_id,
        run_id=work.lease.holder,
        vector_table=work.vector_table,
        record_profile=work.settings.record_profile,
        lease_fence=work.lease.fence,
        base_revision=seen.revision,
        index_history=seen.history,
        store_history=work.settled_history.digest,
        snapshot_digest=view.digest,
        snapshot_bytes=view.byte_count,
        source_token=view.token.sequence if view.token is not None else None,
        counts=prepared.counts,
        record_count=prepared.rows.num_rows,
        byte_count=count_bytes(prepared.rows, work.partition.dimension),
        set_digest=digest_set(pairs),
        staged_at=work.clock(),
    )
    work.on_step("before_stage")
    with work.store.write() as writer:
        stage_publication(writer, publication)
    work.vectors.add(work.vector_table, _as_vectors(prepared.rows, publication))
    if (
        work.vectors.count(work.vector_table, publication.publication_id)
        != publication.record_count
    ):
        raise StageFailedError
    with work.store.write() as writer:
        rows = prepared.rows.select(["memory_id", "revision", "content_digest"])
        finish_staging(writer, publication.publication_id, rows)
    work.on_step("after_stage")
    return publication


def count_bytes(rows: pa.Table, dimension: int) -> int:
    """Count the bytes of prepared rows: ids, digests and vectors (R19)."""
    count: int = 4 * dimension * rows.num_rows
    for name in ("record_id", "memory_id", "content_digest"):
        count += int(pc.sum(pc.binary_length(rows.column(name))).as_py() or 0)
    return count


def _as_vectors(rows: pa.Table, publication: Publication) -> pa.Table:
    count = rows.num_rows
    fixed = {
        "partition": pa.array([publication.partition] * count, pa.string()),
        "publication_id": pa.array([publication.publication_id] * count, pa.string()),
        "staged_at": pa.array([publication.staged_at] * count, pa.timestamp("us", tz="UTC")),
        "memory_revision": rows.column("revision"),
    }
    schema = vector_schema(rows.schema.field("vector").type.list_size)
    columns = [fixed[name] if name in fixed else rows.column(name) for name in schema.names]
    return pa.table(columns, schema=schema)


def publish(work: Work, publication: Publication, prepared: Prepared) -> None:
    """Flip to a staged publication; the commit point of the run.

    Raises:
        CancelledError: Somebody asked for it in time.
        SourceChangedError: The memories moved on; another round may publish.
        FenceLostError: The lease was taken over.
        PublicationLostError: Somebody gave the publication up.
        IndexConflictError: Another writer was first.
    """
    work.on_step("before_publish")
    try:
        work.check_cancelled()
        work.counters.publication_attempts += 1
        work.counters.publication_records += publication.record_count
        if work.source.is_co_transactional:
            work.on_step("token_3")
        with work.store.write() as writer:
            _flip(work, writer, publication, prepared)
    except _LOST:
        abandon(work, publication)
        raise
    work.on_step("after_flip")


def _flip(work: Work, writer: StoreWriter, publication: Publication, prepared: Prepared) -> None:
    scope, clock, name = work.settings.cas_scope, work.clock(), work.partition.name
    keep_lease(writer, work.lease, clock=clock)
    _count_third_token(work)
    flip(writer, publication, scope=scope, clock=clock)
    record_failures(writer, name, prepared.failures, work.settings.retry, clock=clock)
    forget_embedded(writer, name, prepared.rows.select(["record_id"]))


def _count_third_token(work: Work) -> None:
    """Count the reading of the token that the publishing transaction compares (R14)."""
    if work.source.is_co_transactional:
        work.counters.token_requests += 1
        work.counters.token_observations += 1


def abandon(work: Work, publication: Publication) -> None:
    """Give a staged publication up; its rows are collected later."""
    with work.store.write() as writer:
        end_publication(writer, publication.publication_id, "abandoned", clock=work.clock())


def prove(work: Work, seen: Observation, proof: Proof, ended: Refreshed) -> Receipt:
    """Store the receipt of what is served now, and the run's end, in one transaction (R32).

    Raises:
        FenceLostError: The lease was taken over.
        IndexRevisionChangedError: Another writer moved the pointer.
    """
    work.on_step("before_receipt")
    clock = work.clock()
    with work.store.write() as writer:
        keep_lease(writer, work.lease, clock=clock, is_committed=True)
        if proof.publication is not None and proof.publication.phase != "verified":
            mark_verified(writer, proof.publication, clock=clock)
        receipt = _write_receipt(work, writer, seen, proof)
        if ended.reason != "adopted":
            finish_run(writer, work.lease.holder, end_refreshed(work, ended), clock=clock)
    work.on_step("after_receipt")
    return receipt


def prove_nothing(work: Work, seen: Observation, proof: Proof, ended: Refreshed) -> Receipt:
    """Serve no row and store the receipt of that, in one transaction (R34)."""
    work.on_step("before_publish")
    work.check_cancelled()
    work.counters.publication_attempts += 1
    clock, scope = work.clock(), work.settings.cas_scope
    if work.source.is_co_transactional:
        work.on_step("token_3")
    with work.store.write() as writer:
        keep_lease(writer, work.lease, clock=clock)
        _count_third_token(work)
        publish_nothing(
            writer,
            work.partition,
            source_token=proof.source_token,
            expected=seen.revision,
            scope=scope,
            clock=clock,
        )
        emptied = seen.pointer.phase != "empty"
        now_seen = _without_rows(seen, emptied=emptied)
        receipt = _write_receipt(work, writer, now_seen, proof)
        finish_run(writer, work.lease.holder, end_refreshed(work, ended), clock=clock)
    work.on_step("after_receipt")
    return receipt


def _without_rows(seen: Observation, *, emptied: bool) -> Observation:
    """Say what the index shows once the pointer of the partition is empty."""
    own = seen.pointer
    return Observation(
        pointer=own,
        history=seen.history,
        revision=seen.revision + emptied,
        partition_count=seen.partition_count - emptied,
        record_count=seen.record_count - (own.record_count if emptied else 0),
        byte_count=seen.byte_count - (own.byte_count if emptied else 0),
    )


def _write_receipt(work: Work, writer: StoreWriter, seen: Observation, proof: Proof) -> Receipt:
    settings, counts, clock = work.settings, proof.counts, work.clock()
    served = proof.publication.publication_id if proof.publication else None
    receipt = Receipt(
        receipt_id=f"rcp_{work.new_id()}",
        run_id=work.lease.holder,
        namespace_id=work.target.namespace_id,
        partition=work.partition.name,
        snapshot_profile=settings.snapshot_profile,
        snapshot_digest=proof.snapshot_digest,
        snapshot_bytes=proof.snapshot_bytes,
        source_token=proof.source_token,
        store_history=work.settled_history.digest,
        binding_schema=str(work.partition.binding["schema"]),
        generation=work.partition.generation,
        record_profile=settings.record_profile,
        cas_scope=settings.cas_scope,
        publication_id=served,
        counts=counts,
        index_history=seen.history,
        index_revision=seen.revision,
        partition_count=seen.partition_count,
        record_count=seen.record_count,
        byte_count=seen.byte_count,
        verified_at=clock,
    )
    insert_receipt(writer, receipt)
    proven = prove_pointer(
        writer,
        work.partition.name,
        expected=seen.revision,
        scope=settings.cas_scope,
        publication_id=served,
        receipt_id=receipt.receipt_id,
    )
    if not proven:
        raise IndexRevisionChangedError
    is_complete = counts.deferred == 0 and counts.failed == 0
    name, owner = work.partition.name, work.target.namespace_id
    switch_serving(writer, owner, name, is_complete=is_complete, clock=clock)
    if proof.failures is not None:
        record_failures(writer, name, proof.failures, settings.retry, clock=clock)
    if proof.records is not None:
        forget_departed(writer, name, proof.records, clock=clock)
    return receipt
