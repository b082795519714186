"""From the members of a snapshot to vector rows: copy what is proven, embed what is missing.

Source: spec/refresh.md R36-R56, T9, T10.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.attempts import (
    FAILURE_SCHEMA,
    MEMBER_SCHEMA,
    classify,
    clear_in_flight,
    mark_in_flight,
)
from storage.errors import LimitExceededError
from storage.identities import RECORD_PROFILE, digest_row, name_record
from storage.publications import Counts, Reusable, find_reusable
from tasks.providers.checks import UNSENT, check_text
from tasks.providers.embedder import Vector
from tasks.providers.executor import embed_rows
from tasks.providers.outcomes import EmbeddingResult, EmbeddingRoundError
from tasks.refresh.source import View
from tasks.refresh.work import Work

VECTOR_COLUMNS = ("memory_id", "content_digest", "record_id", "row_digest", "vector")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a round can publish, and what became of the rest.

    `rows`: memory_id, revision, content_digest, record_id, row_digest, vector. `failures`
    (FAILURE_SCHEMA) are those of this round. `is_whole`: every text was still there.
    """

    rows: pa.Table
    records: pa.Table
    failures: pa.Table
    counts: Counts
    is_whole: bool = True


def prepare(work: Work, view: View, pool: dict[str, Vector]) -> Prepared:
    """Make the vector rows of a snapshot; new vectors go into the pool.

    Raises:
        LimitExceededError: More rows to embed than the budget, and the policy says fail.
        EmbeddingRoundError: The embedder failed as a whole.
    """
    sorted_rows, reusable = _classify(work, view, pool)
    classes = sorted_rows.column("class")
    copied = _copy(work, reusable, _of_class(sorted_rows, "reuse"))
    pooled = _take_pooled(work, _of_class(sorted_rows, "pool"), pool)
    lacking = _without(_of_class(sorted_rows, "reuse"), copied)
    missing = pa.concat_tables([lacking, _of_class(sorted_rows, "miss")])
    made = _embed(work, missing, pool)
    rows = pa.concat_tables([copied, pooled, made.rows])
    tally = dict(zip(*_count(classes), strict=True))
    permanent = pc.sum(made.failures.column("is_permanent").cast(pa.int64())).as_py() or 0
    counts = Counts(
        active=view.members.num_rows,
        published=rows.num_rows,
        failed=tally.get("waiting", 0) + made.failures.num_rows - permanent,
        permanent=tally.get("permanent", 0) + permanent,
        quarantined=tally.get("quarantined", 0),
        deferred=made.deferred,
    )
    records = sorted_rows.select(["record_id"])
    return Prepared(rows, records, made.failures, counts, made.is_whole)


def foresee(work: Work, view: View) -> list[dict[str, Any]]:
    """Tell what would be done with each member, in the order in which misses are embedded.

    Returns:
        id, reason (embed, reuse, defer, skip), action (the same), expected_revision.
    """
    rows, _ = _classify(work, view, {})
    left = work.settings.max_embed_per_run
    said = []
    names = ("memory_id", "revision", "class")
    for memory_id, revision, found in zip(
        *(rows.column(n).to_pylist() for n in names), strict=True
    ):
        reason = {"reuse": "reuse", "miss": "embed"}.get(found, "skip")
        if reason == "embed" and left is not None:
            reason, left = ("embed", left - 1) if left else ("defer", 0)
        facts = {"id": memory_id, "reason": reason, "action": reason}
        said.append({**facts, "expected_revision": revision})
    return said


def _count(classes: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    counted = pc.value_counts(classes.combine_chunks())
    return counted.field("values").to_pylist(), counted.field("counts").to_pylist()


def _of_class(rows: pa.Table, name: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("class"), name))


def _classify(work: Work, view: View, pool: dict[str, Vector]) -> tuple[pa.Table, Reusable | None]:
    profile, partition = work.settings.record_profile, work.partition
    columns = (view.members.column(name).to_pylist() for name in ("memory_id", "revision"))
    digests = view.members.column("content_digest").to_pylist()
    ids = [
        name_record(profile, partition.name, memory_id, revision, digest)
        for memory_id, revision, digest in zip(*columns, digests, strict=True)
    ]
    known = work.know(pool)
    pooled = [record_id in known for record_id in ids] if known else [False] * len(ids)
    members = view.members.append_column("record_id", pa.array(ids, pa.string()))
    members = members.append_column("is_pooled", pa.array(pooled, pa.bool_()))
    with work.store.read() as reader:
        reusable = None
        if work.owner is None and not work.settings.recreate_index:
            across = profile == RECORD_PROFILE
            reusable = find_reusable(reader, partition, profile, across=across)
        rows = classify(
            reader,
            partition.name,
            members.select(MEMBER_SCHEMA.names).cast(MEMBER_SCHEMA),
            publication_id=reusable.publication_id if reusable else None,
            by_revision=profile != RECORD_PROFILE,
            clock=work.clock(),
        )
    return rows, reusable


def _copy(work: Work, reusable: Reusable | None, wanted: pa.Table) -> pa.Table:
    """Copy verified vectors bit for bit; a row whose digest does not recompute is left out."""
    schema = row_schema(work.partition.dimension)
    if reusable is None or wanted.num_rows == 0:
        return schema.empty_table()
    ids = wanted.column("memory_id").combine_chunks()
    copied = []
    for batch in work.vectors.read(reusable.vector_table, reusable.publication_id, VECTOR_COLUMNS):
        places = pc.index_in(batch.column("memory_id"), value_set=ids)
        match = wanted.take(places)
        is_wanted = pc.equal(match.column("content_digest"), batch.column("content_digest"))
        kept = pc.fill_null(pc.and_kleene(pc.is_valid(places), is_wanted), fill_value=False)
        found = pa.Table.from_batches([batch]).filter(kept)
        match = match.filter(kept)
        is_good = _check_digests(found)
        rejected = len(is_good) - sum(is_good)
        work.counters.reuse_rejected += rejected
        if rejected:
            found, match = found.filter(pa.array(is_good)), match.filter(pa.array(is_good))
        copied.append(_name_rows(found, match, schema, is_own=reusable.is_own))
    rows = pa.concat_tables([schema.empty_table(), *copied])
    work.counters.reuse_hits += rows.num_rows
    return rows


def _check_digests(rows: pa.Table) -> list[bool]:
    names = (rows.column(name).to_pylist() for name in ("record_id", "row_digest"))
    vectors = slice_vectors(rows.column("vector"))
    return [
        digest_row(record_id, vector) == digest
        for record_id, digest, vector in zip(*names, vectors, strict=True)
    ]


def _name_rows(found: pa.Table, match: pa.Table, schema: pa.Schema, *, is_own: bool) -> pa.Table:
    """Give copied vectors the ids and revisions of today."""
    digests = found.column("row_digest")
    if not is_own:
        pairs = zip(
            match.column("record_id").to_pylist(),
            slice_vectors(found.column("vector")),
            strict=True,
        )
        digests = pa.chunked_array(
            [[digest_row(name, vector) for name, vector in pairs]], pa.string()
        )
    columns = [
        match.column(name) for name in ("memory_id", "revision", "content_digest", "record_id")
    ]
    return pa.table([*columns, digests, found.column("vector")], schema=schema)


def _without(wanted: pa.Table, copied: pa.Table) -> pa.Table:
    have = pc.is_in(
        wanted.column("record_id"), value_set=copied.column("record_id").combine_chunks()
    )
    return wanted.filter(pc.invert(have))


def _take_pooled(work: Work, wanted: pa.Table, pool: dict[str, Vector]) -> pa.Table:
    known = work.know(pool)
    owned = 0
    if work.owner is not None:
        owned = sum(name not in pool for name in wanted.column("record_id").to_pylist())
    work.counters.reuse_hits += owned
    work.counters.pool_hits += wanted.num_rows - owned
    return build_rows(wanted, known, work.partition.dimension)


@dataclass(frozen=True, slots=True)
class _Embedded:
    rows: pa.Table
    failures: pa.Table
    deferred: int
    is_whole: bool


def _embed(work: Work, missing: pa.Table, pool: dict[str, Vector]) -> _Embedded:
    """Embed what has no vector, within the budget of the run."""
    texts = _read_texts(work, missing)
    names = [name for name in missing.column("record_id").to_pylist() if name in texts]
    longest = work.bounds.max_input_text_bytes
    refused = {name for name in names if check_text(texts[name], longest) is not None}
    sendable = [name for name in names if name not in refused]
    chosen = sendable[: work.settings.max_embed_per_run]
    deferred = len(sendable) - len(chosen)
    if deferred and work.settings.on_budget == "fail":
        resource = "rows to embed"
        raise LimitExceededError(resource, limit=len(chosen), actual=len(sendable))
    suspects = missing.filter(missing.column("is_suspect")).column("record_id").to_pylist()
    result = _send(work, [(name, texts[name]) for name in [*refused, *chosen]], suspects)
    pool.update(result.vectors)
    found = pa.array(list(result.vectors), pa.string())
    made = missing.filter(pc.is_in(missing.column("record_id"), value_set=found))
    is_last = pc.greater_equal(missing.column("attempts"), work.settings.retry.max_attempts - 1)
    last = set(missing.filter(is_last).column("record_id").to_pylist())
    failures = [
        {"record_id": name, "reason": str(why), "is_permanent": why in UNSENT or name in last}
        for name, why in result.failures.items()
    ]
    return _Embedded(
        rows=build_rows(made, result.vectors, work.partition.dimension),
        failures=pa.Table.from_pylist(failures, schema=FAILURE_SCHEMA),
        deferred=deferred,
        is_whole=len(texts) == missing.num_rows,
    )


def _read_texts(work: Work, missing: pa.Table) -> dict[str, str]:
    if missing.num_rows == 0:
        return {}
    found = work.source.read_texts(missing.select(["memory_id", "content_digest", "record_id"]))
    names = found.column("record_id").to_pylist()
    return dict(zip(names, found.column("content").to_pylist(), strict=True))


def _send(work: Work, rows: list[tuple[str, str]], suspects: list[str]) -> EmbeddingResult:
    """Send rows to the embedder; whatever comes of it is counted."""
    partition, fence = work.partition.name, work.lease.fence

    def before(ids: Sequence[str]) -> None:
        work.keep_alive()
        if work.marks_crashes:
            with work.store.write() as writer:
                mark_in_flight(writer, partition, ids, lease_fence=fence, clock=work.clock())

    def after(ids: Sequence[str]) -> None:
        if work.marks_crashes:
            with work.store.write() as writer:
                clear_in_flight(writer, partition, lease_fence=fence)
        if work.on_batch is not None:
            work.on_batch(len(ids))

    try:
        result = embed_rows(
            work.embedder,
            rows,
            work.bounds,
            suspects=suspects,
            budget=work.settings.failures,
            before_batch=before,
            after_batch=after,
            should_stop=work.should_stop,
            sleep=work.sleep or time.sleep,
        )
    except EmbeddingRoundError as error:
        work.counters.add(error.counters)
        raise
    work.counters.add(result.counters)
    return result


def row_schema(dimension: int) -> pa.Schema:
    """Give the schema of prepared rows."""
    return pa.schema(
        [
            ("memory_id", pa.string()),
            ("revision", pa.int64()),
            ("content_digest", pa.string()),
            ("record_id", pa.string()),
            ("row_digest", pa.string()),
            ("vector", pa.list_(pa.float32(), dimension)),
        ]
    )


def build_rows(members: pa.Table, vectors: Mapping[str, Vector], dimension: int) -> pa.Table:
    """Build prepared rows from members and vectors in memory, by record id."""
    names = members.column("record_id").to_pylist()
    found = [vectors[name] for name in names]
    digests = [
        digest_row(name, vector.tobytes()) for name, vector in zip(names, found, strict=True)
    ]
    flat = np.concatenate(found) if found else np.empty(0, np.float32)
    arrays = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dimension)
    columns = [members.column(name) for name in ("memory_id", "revision", "content_digest")]
    record_ids, row_digests = pa.array(names, pa.string()), pa.array(digests, pa.string())
    return pa.table([*columns, record_ids, row_digests, arrays], schema=row_schema(dimension))


def slice_vectors(column: pa.ChunkedArray) -> Iterator[memoryview]:
    """Give the bytes of each vector of a column."""
    for chunk in column.chunks:
        size = chunk.type.list_size * 4
        values = chunk.flatten()
        data = memoryview(values.buffers()[1])[values.offset * 4 :]
        for place in range(len(chunk)):
            yield data[place * size : (place + 1) * size]


def collect_vectors(rows: pa.Table) -> dict[str, Vector]:
    """Collect prepared vectors by record id."""
    names = rows.column("record_id").to_pylist()
    vectors = slice_vectors(rows.column("vector"))
    return {
        name: np.frombuffer(vector, np.float32) for name, vector in zip(names, vectors, strict=True)
    }
