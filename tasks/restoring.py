"""restore: give back what a job took, tombstones and merged memories, by id, by run or by time.

Nothing is lost by it: what cannot come back stays as it is, with a reason. `restored_at` keeps the
next sweep from taking the same again; vectors come back with the next refresh. Source:
spec/sweep.md R23, spec/consolidate.md R59.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations, product
from typing import Any, Self

from pydantic import AwareDatetime, Field, model_validator

from storage import Store, StoreReader, StoreWriter
from storage.candidates import LARGEST_FAMILY
from storage.erasure_keys import Said, find_erased
from storage.errors import MemoryNotFoundError, RunNotFoundError
from storage.leases import Lease, keep_lease
from storage.memories import find_memory, read_status_before
from storage.merge_receipts import (
    MergeReceipt,
    drop_evidence,
    find_receipts,
    keep_apart,
    list_apart,
    move_marks,
    release_losers,
)
from storage.merge_sources import drop_sources, read_sources
from storage.merging import MergeStage, commit_stage, read_stage
from storage.models import MemoryRecord, RevisionKind, Status
from storage.namespaces import StoredNamespace, list_namespaces
from storage.restoring import find_tombstones, has_run, sha256_contents
from storage.runs import RunEnd
from tasks.consolidate.absorbing import step
from tasks.consolidate.histories import Histories, read_histories
from tasks.consolidate.releasing import Released, list_gone, release_merge
from tasks.policies import Policy
from tasks.report import Performed
from tasks.requests import JobRequest, OnBatch
from tasks.rules.merging import list_sources

_BATCH = 500


class RestorePolicy(Policy):
    """What to give back: memories, all that a run took, or all that was taken since an instant."""

    ids: tuple[str, ...] = Field(default=(), description="The memories to give back")
    run_id: str | None = Field(default=None, description="Give back all that this run took")
    since: AwareDatetime | None = Field(
        default=None, description="Give back all that was taken since this instant"
    )

    @model_validator(mode="after")
    def _is_selective(self) -> Self:
        if bool(self.ids) + (self.run_id is not None) + (self.since is not None) != 1:
            message = "name memories, a run or an instant: one of the three"
            raise ValueError(message)
        return self


@dataclass(frozen=True, slots=True)
class Selection:
    """What a restore is about in one namespace: tombstones, and merges with their losers."""

    tombstones: tuple[str, ...]
    merges: tuple[MergeReceipt, ...]
    losers: frozenset[str]
    idle: tuple[str, ...] = ()
    erased: tuple[str, ...] = ()

    @property
    def found(self) -> int:
        """How many memories are asked for."""
        groups = (self.tombstones, self.losers, self.adopted, self.idle, self.erased)
        return sum(map(len, groups))

    @property
    def adopted(self) -> list[str]:
        """Memories that took over a text from others, which have not been merged yet."""
        return sorted(receipt.canonical_id for receipt in self.merges if not receipt.losers)


@dataclass(slots=True)
class _Account:
    """What became of the memories that were asked for."""

    applied: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)

    def add(self, done: Released) -> None:
        """Count a merge that was taken back."""
        self.applied += len(done.released) or int(done.is_reverted)
        self.skipped.update(done.skipped.values())
        if done.warning is not None:
            self.figures[done.warning] += 1

    def end(self, selection: Selection) -> RunEnd:
        """End the run; what was there already is no change."""
        if selection.idle:
            self.skipped["not_taken"] += len(selection.idle)
        if selection.erased:
            self.skipped["erased"] += len(selection.erased)
        return RunEnd(
            "applied" if self.applied else "unchanged",
            found=selection.found,
            applied=self.applied,
            skipped=dict(sorted(self.skipped.items())),
            figures=dict(sorted(self.figures.items())),
        )


def check_known(store: Store, ids: Collection[str], run_id: str | None = None) -> None:
    """Check that some namespace has each of these memories, or that it was erased.

    Raises:
        MemoryNotFoundError: None has one of them.
        RunNotFoundError: There was no such run.
    """
    with store.read() as reader:
        if run_id is not None and not has_run(reader, run_id):
            raise RunNotFoundError(run_id)
        unknown = [memory_id for memory_id in ids if not find_memory(reader, memory_id)]
        said = [Said(memory_id, ()) for memory_id in unknown]
        owners = list_namespaces(reader) if unknown else []
        erased = [find_erased(reader, owner.namespace_id, said) for owner in owners]
    for memory_id in unknown:
        if not any(memory_id in some for some in erased):
            raise MemoryNotFoundError(memory_id)


def preview_restore(request: JobRequest, target: StoredNamespace) -> dict[str, Any]:
    """Tell what a restore would give back; nothing is written."""
    with request.handle().read() as reader:
        selection = _select(reader, target.namespace_id, _policy(request))
    taken = [("tombstone", name) for name in selection.tombstones]
    taken += [("merged", name) for name in sorted(selection.losers)]
    taken += [("adopted", name) for name in selection.adopted]
    return {
        "found": len(taken),
        "reasons": dict(Counter(reason for reason, _ in taken)),
        "decisions": [
            {"id": name, "reason": reason, "action": "restore"} for reason, name in taken
        ],
    }


def perform_restore(
    request: JobRequest, target: StoredNamespace, lease: Lease, on_batch: OnBatch | None = None
) -> Performed:
    """Give back what the policy names, batch by batch; a second run finds nothing to do."""
    store, owner = request.handle(), target.namespace_id
    with store.read() as reader:
        selection = _select(reader, owner, _policy(request))
    account = _Account()
    steps: list[Sequence[str] | MergeReceipt] = [*_split(selection.tombstones), *selection.merges]
    for each in steps:
        with store.write() as writer:
            clock = request.clock()
            keep_lease(writer, lease, clock=clock)
            if isinstance(each, MergeReceipt):
                done = _release(writer, owner, each, selection.losers, now=request.now, clock=clock)
                account.add(done)
                count = len(each.losers) or 1
            else:
                _restore(writer, owner, each, account, now=request.now)
                count = len(each)
        if on_batch is not None:
            on_batch(count)
    return Performed(account.end(selection))


def _policy(request: JobRequest) -> RestorePolicy:
    return RestorePolicy.model_validate(request.policy.model_dump())


def _split(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _BATCH):
        yield names[start : start + _BATCH]


def _select(reader: StoreReader, owner: int, policy: RestorePolicy) -> Selection:
    run_id, since = policy.run_id, policy.since
    tombstones = find_tombstones(reader, owner, ids=policy.ids, run_id=run_id, since=since)
    merges = find_receipts(reader, owner, loser_ids=policy.ids, run_id=run_id, since=since)
    in_merges = {name for receipt in merges for name in receipt.losers}
    losers = in_merges & set(policy.ids) if policy.ids else in_merges
    known = read_stage(reader, owner, policy.ids).memories.keys() & set(policy.ids)
    idle = sorted(known - losers - set(tombstones))
    absent = [Said(memory_id, ()) for memory_id in policy.ids if memory_id not in known]
    erased = sorted(find_erased(reader, owner, absent))
    return Selection(
        tuple(tombstones), tuple(merges), frozenset(losers), tuple(idle), tuple(erased)
    )


def _restore(
    writer: StoreWriter, owner: int, names: Sequence[str], account: _Account, *, now: datetime
) -> None:
    stage = read_stage(writer, owner, names)
    for name in names:
        staged = stage.memories.get(name)
        why = _refuse(staged.current if staged is not None else None, now)
        if why is not None or staged is None:
            account.skipped[why or "gone"] += 1
            continue
        status = read_status_before(writer, owner, name)
        at = max(now, staged.current.updated_at or now)
        changes = {"status": status, "restored_at": at, "tombstoned_at": None}
        changes |= step(staged.current, RevisionKind.RESTORED, at)
        staged.states.append(staged.current.model_copy(update=changes))
        account.applied += 1
    if stage.get_changed():
        commit_stage(writer, owner, stage, occurred_at=now)


def _refuse(memory: MemoryRecord | None, now: datetime) -> str | None:
    if memory is None:
        return "gone"
    if memory.status != Status.TOMBSTONED:
        return "not_taken"
    # It would be deleted for good by the next sweep, where the tombstone is kept.
    is_expired = memory.expires_at is not None and memory.expires_at <= now
    return "expired" if is_expired else None


def _release(  # noqa: PLR0913 - whose merge, what of it, and two clocks
    writer: StoreWriter,
    owner: int,
    receipt: MergeReceipt,
    wanted: Collection[str],
    *,
    now: datetime,
    clock: datetime,
) -> Released:
    histories = read_histories(writer, owner, receipt)
    members = {receipt.canonical_id, *receipt.losers, *histories.edges}
    edges = histories.own.union(*histories.edges.values())
    stage = read_stage(writer, owner, members | {edge.target_id for edge in edges})
    asked = [name for name in receipt.losers if name in wanted]
    gone, left = _divide_sources(writer, owner, stage, receipt.canonical_id, histories, asked=asked)
    at = stage.find_instant(now)
    done = release_merge(stage, receipt, histories, asked, left_sources=left, at=at)
    if stage.get_changed():
        commit_stage(writer, owner, stage, occurred_at=at)
        drop_sources(writer, owner, receipt.canonical_id, gone)
        if done.is_reverted:
            former = histories.undone[-1].former_revision
            drop_evidence(writer, owner, receipt.canonical_id, after_revision=former)
        _keep_apart(writer, owner, stage, receipt, done, clock=clock)
    settled = {*done.released, *list_gone(done.skipped)}
    if settled or done.is_reverted:
        for one in histories.undone[1:] if done.is_reverted else ():
            release_losers(writer, one, (), keeps_values=False, clock=clock)
        keeps = not done.is_reverted
        release_losers(writer, receipt, settled, keeps_values=keeps, clock=clock)
    return done


def _keep_apart(  # noqa: PLR0913 - a merge, what became of it, and where
    writer: StoreWriter,
    owner: int,
    stage: MergeStage,
    receipt: MergeReceipt,
    done: Released,
    *,
    clock: datetime,
) -> None:
    """Keep what was merged apart, so that the next run does not merge it again."""
    name = receipt.canonical_id
    others = done.released or receipt.figures.get("awaiting", ())
    earlier = list_apart(writer, owner, name)
    if len(earlier) > LARGEST_FAMILY:
        earlier = []  # So many are not merged with one another.
    digests = sha256_contents(writer, owner, [name, *others, *earlier])
    pairs = [*combinations((name, *others), 2), *product(others, set(earlier).difference(others))]
    known = [pair for pair in pairs if digests.keys() >= {*pair}]
    keep_apart(writer, owner, digests, pairs=known, clock=clock)
    states = stage.memories[name].states
    move_marks(writer, owner, name, states[0].content, states[-1].content)


def _divide_sources(  # noqa: PLR0913 - a merge as it is stored, staged and remembered
    reader: StoreReader,
    owner: int,
    stage: MergeStage,
    canonical_id: str,
    histories: Histories,
    *,
    asked: Collection[str],
) -> tuple[set[str], tuple[str, ...]]:
    """Divide what the canonical took in: what goes with the released losers, and what is left."""
    held = read_sources(reader, owner, [canonical_id, *histories.edges])

    def gather(names: Iterable[str]) -> set[str]:
        known = (stage.memories[name].current for name in names if name in stage.memories)
        return {*names}.union(*(list_sources(one, held) for one in known))

    canonical = stage.memories.get(canonical_id)
    own = list_sources(canonical.current, held) if canonical is not None else ()
    goes = gather(asked) - gather(histories.edges.keys() - asked)
    return goes, tuple(source for source in own if source not in goes)
