"""What is written beside the memories of a merge: its receipt, and the ids that were taken in."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from storage import StoreReader, StoreWriter
from storage.merge_receipts import MergeReceipt, count_change_sets, insert_receipts, read_adoptions
from storage.merge_sources import Sources, add_sources, read_sources
from storage.merging import MergeStage, commit_stage, read_stage
from storage.served_texts import find_waiting
from tasks.consolidate.absorbing import Cluster, Merging, describe_former, merge_cluster
from tasks.rules.merging import Merged


@dataclass(frozen=True, slots=True)
class Author:
    """Who merges: a run with its plan, or a person, whose request has a name like a plan's."""

    namespace_id: int
    plan_id: str | None
    run_id: str
    now: datetime
    clock: datetime
    is_forced: bool = False


@dataclass(slots=True)
class Ledger:
    """The merges of one transaction, on their way to be written.

    `waiting` are canonicals whose text semantic search does not find yet; None where no generation
    is serving. `at` is when the merges happen.
    """

    author: Author
    stage: MergeStage
    held: dict[str, tuple[str, ...]]
    waiting: set[str] | None
    adoptions: Mapping[str, MergeReceipt]
    counts: dict[str, int]
    at: datetime
    sources: list[Sources] = field(default_factory=list)
    receipts: list[MergeReceipt] = field(default_factory=list)

    def merge(self, canonical_id: str, loser_ids: Iterable[str]) -> Merging:
        """Merge losers into a canonical, on the stage."""
        memories = self.stage.memories
        losers = tuple(memories[name].current for name in loser_ids)
        cluster = Cluster(memories[canonical_id].current, losers)
        done = merge_cluster(self.stage, cluster, self.held, waiting=self.waiting, at=self.at)
        if done.merged is not None:
            self._note(cluster, done, done.merged)
        return done

    def commit(self, writer: StoreWriter) -> None:
        """Write the merges, if there are any, as one change of the namespace."""
        if not self.receipts:
            return
        owner = self.author.namespace_id
        commit_stage(writer, owner, self.stage, occurred_at=self.at)
        add_sources(writer, owner, self.sources)
        insert_receipts(writer, owner, self.receipts)

    def _note(self, cluster: Cluster, done: Merging, merged: Merged) -> None:
        canonical, revision = cluster.canonical, merged.record.revision
        if done.absorbed:
            losses = {"kind": merged.replaced_kind, "metadata": merged.losses}
            said = json.dumps(losses, ensure_ascii=False)
            self.sources.append(Sources(canonical.id, revision, merged.source_ids, said))
            known = (*self.held.get(canonical.id, ()), *merged.source_ids)
            self.held[canonical.id] = tuple(dict.fromkeys(known))
        figures = describe_former(canonical, merged)
        adoption = self.adoptions.get(canonical.id)
        if adoption is not None and adoption.revision == canonical.revision:
            # An undo goes back before the text was adopted.
            figures |= {name: adoption.figures[name] for name in _FORMER & adoption.figures.keys()}
        if not done.absorbed:
            figures["awaiting"] = [one.id for one in cluster.losers]
        if self.author.is_forced:
            figures["forced"] = True
        place = self.counts.get(canonical.id, 0)
        self.counts[canonical.id] = place + 1
        author = self.author
        self.receipts.append(
            MergeReceipt(
                receipt_id=_name_change_set(author.plan_id or author.run_id, canonical.id, place),
                plan_id=author.plan_id,
                run_id=author.run_id,
                canonical_id=canonical.id,
                revision=revision,
                losers={name: self.stage.memories[name].current.revision for name in done.absorbed},
                figures=figures,
                applied_at=author.clock,
            )
        )


_FORMER = {
    "former_revision",
    "former_uses",
    "created_at",
    "content_at",
    "last_accessed_at",
    "replaced_kind",
}


def open_ledger(
    reader: StoreReader, author: Author, canonicals: set[str], losers: set[str]
) -> Ledger:
    """Read what merging these memories needs."""
    owner = author.namespace_id
    stage = read_stage(reader, owner, canonicals | losers)
    return Ledger(
        author,
        stage,
        held=read_sources(reader, owner, canonicals | losers),
        waiting=find_waiting(reader, owner, canonicals),
        adoptions=read_adoptions(reader, owner, canonicals),
        counts=count_change_sets(reader, author.plan_id or "", canonicals),
        at=stage.find_instant(author.now),
    )


def _name_change_set(name: str, canonical_id: str, place: int) -> str:
    """Name a change set as spec/consolidate.md R57 does; `place` counts those of one canonical."""
    parts = [name, canonical_id, *([str(place)] if place else [])]
    return "plan-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()
