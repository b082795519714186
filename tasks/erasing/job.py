"""erase: every trace of memories leaves both stores, and their files, and it is proved.

Rows go first, in one transaction, with the fingerprints that keep them from coming back: from then
on nothing of them is read or served. Vectors, exports and the bytes of both stores follow. Killed
at any point, the next erasure goes on; until it is proved, its row says so. What backups hold, and
what was sent elsewhere, is out of reach. Source: DESIGN 6, 10.11; spec/refresh.md R69.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from storage import Store, StoreReader, StoreWriter
from storage.compaction import compact_database
from storage.erasure_files import remove_exports
from storage.erasure_keys import Keyer, ensure_key, has_key, read_key
from storage.erasure_rows import erase_rows
from storage.erasure_vectors import VectorEraser
from storage.erasures import (
    Unproved,
    begin_erasure,
    end_erasure,
    find_marked,
    list_partitions,
    list_proofs,
    list_unproved,
    make_marks,
    note_doubt,
    read_contents,
)
from storage.errors import PlanRefusedError
from storage.leases import Lease, keep_lease
from storage.namespaces import StoredNamespace
from storage.runs import Outcome, RunEnd
from tasks.erasing.proof import (
    MOST_NEEDLES,
    Findings,
    Needles,
    describe_proof,
    open_eraser,
    verify,
)
from tasks.erasing.selection import Selection, read_policy, select_memories
from tasks.report import Performed
from tasks.requests import JobRequest, OnBatch

UNPROVED = "erase_unproved"
OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Work:
    """One run of erase: what it was asked for, and the lease that it holds."""

    request: JobRequest
    target: StoredNamespace
    lease: Lease
    store: Store
    on_step: OnStep

    def keep(self, writer: StoreWriter) -> None:
        """Check the lease and prolong it; the rows are gone, so the run goes on to its end."""
        keep_lease(writer, self.lease, clock=self.request.clock(), is_committed=True)

    def hold(self, step: str) -> None:
        """Check the lease before something slow that is no transaction."""
        with self.store.write() as writer:
            self.keep(writer)
        self.on_step(step)


def preview_erase(request: JobRequest, target: StoredNamespace) -> dict[str, Any]:
    """Tell what would be erased in a namespace: every memory, and why it goes along."""
    store = request.handle()
    left = _list_left(store, request, target)
    with store.read() as reader:
        selection = _select(reader, request, target, left)
        unproved = len(list_unproved(reader))
    return {**selection.describe(), "unproved": unproved}


def perform_erase(
    request: JobRequest,
    target: StoredNamespace,
    lease: Lease,
    on_batch: OnBatch | None = None,
    *,
    on_step: OnStep = lambda _: None,
) -> Performed:
    """Erase what the policy names, go on with erasures that were not proved, and prove all."""
    work = Work(request, target, lease, request.handle(), on_step)
    left = _list_left(work.store, request, target)
    with work.store.read() as reader:
        selection = _select(reader, request, target, left)
        is_resumed = bool(list_unproved(reader))
    if not selection.taken and not is_resumed:
        return Performed(_end_idle(work))
    try:
        needles = _take_rows(work, left) if selection.taken else Needles()
    except PlanRefusedError as error:
        return _refuse(selection, error)
    findings, proved = _erase_bytes(work, needles)
    if on_batch is not None:
        on_batch(len(selection.taken))
    return Performed(_end(selection, findings, proved))


def read_proofs(store: Store, run_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Read what these runs erased or went on with, each with its proof."""
    with store.read() as reader:
        return list_proofs(reader, run_ids)


def _select(
    reader: StoreReader, request: JobRequest, target: StoredNamespace, left: frozenset[str]
) -> Selection:
    is_chosen, policy = request.namespace is not None, read_policy(request)
    return select_memories(reader, policy, target, is_chosen=is_chosen, left=left)


def _refuse(selection: Selection, error: PlanRefusedError) -> Performed:
    found = len(selection.taken)
    end = RunEnd(
        "refused", code=error.code, error=str(error), found=found, skipped={"refused": found}
    )
    return Performed(end, error)


def _end_idle(work: Work) -> RunEnd:
    """End a run that found nothing: what was erased before is no change."""
    ids, owner = read_policy(work.request).ids, work.target
    with work.store.read() as reader:
        known: list[str] = []
        if ids and has_key(work.store.path):
            keyer = Keyer(read_key(work.store.path), owner.key)
            known = find_marked(reader, owner.namespace_id, keyer, ids)
    skipped = {"already_erased": len(known)} if known else {}
    return RunEnd("unchanged", found=len(known), skipped=skipped)


def _list_left(store: Store, request: JobRequest, target: StoredNamespace) -> frozenset[str]:
    """List the ids of a whole namespace that only its vectors name any more."""
    if not read_policy(request).whole_namespace:
        return frozenset()
    with store.read() as reader:
        partitions = list_partitions(reader)
    own = frozenset(
        name for name, (number, _) in partitions.items() if number == target.namespace_id
    )
    return frozenset(VectorEraser(store.path, {}).list_ids(own))


def _take_rows(work: Work, left: frozenset[str]) -> Needles:
    """Take the rows, as the store is now, with the state and the fingerprints of the erasure."""
    request, owner = work.request, work.target.namespace_id
    policy = read_policy(request)
    with work.store.write() as writer:
        keep_lease(writer, work.lease, clock=request.clock())
        keyer = Keyer(ensure_key(work.store.path), work.target.key)
        selection = _select(writer, request, work.target, left)
        selection.guard(request.limits, policy.plan_ids)
        ids = [one.memory_id for one in selection.taken]
        texts = read_contents(writer, owner, ids)
        removed = erase_rows(
            writer,
            owner,
            keyer,
            ids,
            texts,
            is_whole=policy.whole_namespace,
            now=request.now,
        )
        begin_erasure(
            writer,
            owner,
            work.lease.holder,
            marks=make_marks(keyer, ids, texts),
            memories=selection.memories,
            removed=removed,
            clock=request.clock(),
        )
    work.on_step("rows")
    return Needles(tuple(sorted({one.content for one in texts})))


def _erase_bytes(work: Work, needles: Needles) -> tuple[Findings, list[Unproved]]:
    """Take the bytes of all unproved erasures out of the files, and prove them."""
    store = work.store
    exports = remove_exports(store.path)
    eraser, unproved = open_eraser(store)
    rewritten = eraser.rewrite(
        on_table=lambda name: work.hold(f"table {name}"), most_vectors=MOST_NEEDLES
    )
    work.hold("vectors")
    freed = compact_database(store, work.lease, clock=work.request.clock(), on_step=work.on_step)
    work.hold("compacted")
    searched = Needles(needles.texts, frozenset(rewritten.vectors))
    findings = verify(store, eraser, unproved, searched)
    figures = {
        "exports_removed": exports + findings.exports_removed,
        "vector_tables": rewritten.tables,
        "vectors": rewritten.rows,
        "foreign_tables": rewritten.foreign,
        "bytes_freed": freed,
    }
    for one in unproved:
        clock = work.request.clock()
        proof = describe_proof(store, one, findings, figures, work.lease.holder, clock)
        with store.write() as writer:
            work.keep(writer)
            if findings.is_clean:
                end_erasure(writer, one.erasure_id, proof, clock=clock)
            else:
                note_doubt(writer, one.erasure_id, proof)
    work.on_step("proved")
    return findings, unproved


def _end(selection: Selection, findings: Findings, proved: list[Unproved]) -> RunEnd:
    found = len(selection.taken)
    outcome: Outcome = "applied" if findings.is_clean else "partial"
    figures = {
        "memories": selection.memories,
        "remaining": sum(findings.remaining.values()),
        "found_in_files": findings.found,
        "resumed": len(proved) - bool(found),
    }
    return RunEnd(
        outcome,
        code=None if findings.is_clean else UNPROVED,
        found=found,
        applied=found,
        figures={name: value for name, value in figures.items() if value},
    )
