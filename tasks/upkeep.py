"""The steps of the janitor: each looks for what is due and does it, whatever the others do.

To look reads only. To do asks again inside the transaction that writes, under the lease; vectors
go after the transaction that says so, and before the one that says they are gone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from storage import Store, StoreReader, StoreWriter
from storage.compaction import compact_database, find_leftovers, read_space, remove_leftovers
from storage.leases import Lease, keep_lease
from storage.publications import (
    Collectable,
    Unserved,
    begin_collecting,
    begin_leaving,
    end_collecting,
    end_leaving,
    give_up_generation,
    list_collectable,
    list_known,
    list_left_tables,
    list_unserved,
)
from storage.retention import Kind, count_old, count_terms, delete_old
from storage.terms import compact_terms
from storage.vector_tables import SortedTables, sort_tables
from storage.vectors import VectorStore

# How many publications are collected under one look at the lease.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something is due: the policy of a run, as instants and figures."""

    grace: timedelta
    before: datetime
    generations_before: datetime
    collects_generations: bool
    configured: frozenset[str]
    optimize_after: int
    kept_since: dict[Kind, datetime]
    dead_terms_ratio: float
    dead_terms: int
    free_ratio: float
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """What the steps of one run work with; the lease is that of the run, if it may write."""

    store: Store
    vectors: VectorStore
    limits: Limits
    clock: Callable[[], datetime]
    lease: Lease | None = None
    unreadable: set[str] = field(default_factory=set)

    def held(self) -> Lease:
        """Give the lease of a run that may write."""
        if self.lease is None:
            message = "a run without a lease only looks"
            raise RuntimeError(message)
        return self.lease

    def keep(self, writer: StoreWriter) -> None:
        """Check the lease and prolong it, first in each transaction."""
        keep_lease(writer, self.held(), clock=self.clock())

    def hold(self) -> None:
        """Check the lease before something slow that is no transaction."""
        with self.store.write() as writer:
            self.keep(writer)

    def sort_tables(self, reader: StoreReader) -> SortedTables:
        """Sort the tables that are there."""
        names, before = self.vectors.tables(), self.limits.before
        return sort_tables(reader, self.store.path, names, before=before)

    def list_readable(self) -> list[str]:
        """List the tables of the current history that can be worked on."""
        with self.store.read() as reader:
            own = self.sort_tables(reader).own
        return [name for name in own if name not in self.unreadable]


class Found(NamedTuple):
    """How many things are due, and what else there is to say about them."""

    due: int
    figures: dict[str, int]


class Step(NamedTuple):
    """One step; `act` is called only where `find` found something, and counts what it did."""

    name: str
    find: Callable[[Work], Found]
    act: Callable[[Work], int]


def _find_leftovers(work: Work) -> Found:
    left = find_leftovers(work.store.path)
    return Found(len(left), {"bytes": sum(file.stat().st_size for file in left)})


def _remove_leftovers(work: Work) -> int:
    work.hold()
    return remove_leftovers(work.store)


def _find_generations(work: Work) -> Found:
    """Report every generation that nobody serves; only with consent one of them is due."""
    with work.store.read() as reader:
        unserved = list_unserved(reader, before=work.limits.generations_before)
    figures = {
        "unserved": len(unserved),
        "rows": sum(one.record_count for one in unserved),
        "bytes": sum(one.byte_count for one in unserved),
    }
    return Found(sum(_is_due(work, one) for one in unserved), figures)


def _is_due(work: Work, one: Unserved) -> bool:
    limits = work.limits
    return limits.collects_generations and one.is_due and one.generation not in limits.configured


def _give_up_generations(work: Work) -> int:
    with work.store.write() as writer:
        work.keep(writer)
        unserved = list_unserved(writer, before=work.limits.generations_before)
        due = [one for one in unserved if _is_due(work, one)]
        for one in due:
            give_up_generation(writer, one.partition, expected=one.revision)
    return len(due)


def _list_collectable(work: Work, reader: StoreReader) -> list[Collectable]:
    tables = work.sort_tables(reader).own
    found = list_collectable(reader, tables, before=work.limits.before)
    return [one for one in found if one.vector_table not in work.unreadable]


def _find_publications(work: Work) -> Found:
    with work.store.read() as reader:
        found = _list_collectable(work, reader)
    return Found(len(found), {"rows": sum(one.record_count for one in found)})


def _collect_publications(work: Work) -> int:
    done = 0
    while True:
        with work.store.write() as writer:
            work.keep(writer)
            some = _list_collectable(work, writer)[:_BATCH]
            begin_collecting(writer, [one.publication_id for one in some])
        for table in sorted({one.vector_table for one in some}):
            ids = [one.publication_id for one in some if one.vector_table == table]
            work.vectors.delete_publications(table, ids)
        with work.store.write() as writer:
            work.keep(writer)
            end_collecting(writer, [one.publication_id for one in some])
        done += len(some)
        if len(some) < _BATCH:
            return done


def _list_orphans(work: Work) -> dict[str, dict[str, int]]:
    """List the rows that no publication owns; what is known is read after what is there."""
    found = {
        table: work.vectors.list_publications(table, before=work.limits.before)
        for table in work.list_readable()
    }
    with work.store.read() as reader:
        known = list_known(reader)
    unknown = {
        table: {name: rows for name, rows in owners.items() if name not in known}
        for table, owners in found.items()
    }
    return {table: owners for table, owners in unknown.items() if owners}


def _find_orphans(work: Work) -> Found:
    orphans = _list_orphans(work)
    rows = sum(sum(owners.values()) for owners in orphans.values())
    return Found(sum(map(len, orphans.values())), {"rows": rows})


def _delete_orphans(work: Work) -> int:
    work.hold()
    orphans = _list_orphans(work)
    for table, owners in orphans.items():
        work.vectors.delete_publications(table, sorted(owners))
    return sum(map(len, orphans.values()))


def _list_left(work: Work, reader: StoreReader) -> list[tuple[str, int]]:
    return list_left_tables(reader, work.sort_tables(reader).left, before=work.limits.before)


def _find_left_tables(work: Work) -> Found:
    with work.store.read() as reader:
        left = _list_left(work, reader)
        foreign = work.sort_tables(reader).foreign
    return Found(len(left), {"rows": sum(rows for _, rows in left), "foreign": len(foreign)})


def _drop_left_tables(work: Work) -> int:
    with work.store.write() as writer:
        work.keep(writer)
        left = [table for table, _ in _list_left(work, writer)]
        for table in left:
            begin_leaving(writer, table)
    for table in left:
        work.vectors.drop_table(table)
    with work.store.write() as writer:
        work.keep(writer)
        for table in left:
            end_leaving(writer, table)
    return len(left)


def _list_overgrown(work: Work) -> list[str]:
    """List the tables with old versions, or with too many fragments for a search."""
    limits, vectors = work.limits, work.vectors
    return [
        table
        for table in work.list_readable()
        if vectors.count_old_versions(table, grace=limits.grace)
        or vectors.figures(table).fragments > limits.optimize_after
    ]


def _optimize(work: Work) -> int:
    overgrown = _list_overgrown(work)
    for table in overgrown:
        work.hold()
        work.vectors.optimize(table, grace=work.limits.grace)
    return len(overgrown)


def _list_unindexed(work: Work) -> list[str]:
    return [table for table in work.list_readable() if work.vectors.lacks_index(table)]


def _index_rows(work: Work) -> int:
    unindexed = _list_unindexed(work)
    for table in unindexed:
        work.hold()
        work.vectors.index_rows(table)
    return len(unindexed)


def _keep_rows(kind: Kind) -> Step:
    def find(work: Work) -> Found:
        with work.store.read() as reader:
            return Found(count_old(reader, kind, before=work.limits.kept_since[kind]), {})

    def act(work: Work) -> int:
        done = 0
        while True:
            with work.store.write() as writer:
                work.keep(writer)
                count = delete_old(writer, kind, before=work.limits.kept_since[kind])
            done += count
            if not count:
                return done

    return Step(kind, find, act)


def _find_terms(work: Work) -> Found:
    with work.store.read() as reader:
        terms = count_terms(reader)
    limits = work.limits
    is_due = terms.dead >= max(limits.dead_terms, limits.dead_terms_ratio * terms.held)
    return Found(int(is_due), {"held": terms.held, "dead": terms.dead})


def _compact_terms(work: Work) -> int:
    with work.store.write() as writer:
        work.keep(writer)
        compact_terms(writer)
    return 1


def _find_space(work: Work) -> Found:
    with work.store.read() as reader:
        space = read_space(reader)
    limits = work.limits
    is_due = space.free_bytes >= limits.free_bytes and space.free_ratio >= limits.free_ratio
    return Found(int(is_due), {"bytes": space.byte_count, "free_bytes": space.free_bytes})


def _compact_database(work: Work) -> int:
    compact_database(work.store, work.held(), clock=work.clock())
    return 1


# In this order: what one step leaves is what the next one finds.
STEPS = (
    Step("leftovers", _find_leftovers, _remove_leftovers),
    Step("generations", _find_generations, _give_up_generations),
    Step("vectors", _find_publications, _collect_publications),
    Step("orphans", _find_orphans, _delete_orphans),
    Step("tables", _find_left_tables, _drop_left_tables),
    Step("versions", lambda work: Found(len(_list_overgrown(work)), {}), _optimize),
    Step("indexes", lambda work: Found(len(_list_unindexed(work)), {}), _index_rows),
    _keep_rows("receipts"),
    _keep_rows("publications"),
    _keep_rows("apply_receipts"),
    _keep_rows("plans"),
    _keep_rows("runs"),
    Step("terms", _find_terms, _compact_terms),
    Step("database", _find_space, _compact_database),
)
