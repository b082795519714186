"""The proof of an erasure: both stores are read back, and every file is searched for its texts.

Figures and digests only. What a search finds is no fault where a memory that stays says the same.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from storage import Store
from storage.erasure_files import digest_files, remove_exports, scan_files
from storage.erasure_keys import Keyer, read_key
from storage.erasure_vectors import Marked, VectorEraser
from storage.erasures import (
    Unproved,
    digest_marks,
    is_said_elsewhere,
    list_named,
    list_partitions,
    list_unproved,
    list_unproved_marks,
)
from storage.gateway import DATABASE_FILE
from storage.instants import format_instant
from storage.namespaces import list_namespaces

# More texts than these are not searched for: reading the stores back covers all of them.
MOST_NEEDLES = 20_000


@dataclass(frozen=True, slots=True)
class Needles:
    """What the files are searched for; in memory of the run only."""

    texts: tuple[str, ...] = ()
    vectors: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Findings:
    """What a verification read and found, over the whole store.

    Attributes:
        remaining: Rows that still name an erased memory, by table; `vectors`: in the index.
        needles: Texts and vectors that were searched for.
        not_searched: Texts and vectors that are too short for it, or too many.
        shared: Texts that were found and that a memory which stays says, too.
        found: What was found and should not be there.
        found_in: The files that it was found in, by name, each with its SHA-256; also those in
            which an earlier run found something, and which are as they were.
        files: Files that were read.
        byte_count: Their size together.
        exports_removed: Exports that were taken away.
    """

    remaining: Mapping[str, int] = field(default_factory=dict)
    needles: int = 0
    not_searched: int = 0
    shared: int = 0
    found: int = 0
    found_in: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    byte_count: int = 0
    exports_removed: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left that anybody can find."""
        return not self.remaining and not self.found_in


def open_eraser(store: Store) -> tuple[VectorEraser, list[Unproved]]:
    """Open what takes the vectors of all unproved erasures out, and list these."""
    with store.read() as reader:
        unproved = list_unproved(reader)
        if not unproved:
            return VectorEraser(store.path, {}), []
        marked = {
            owner.namespace_id: (
                Keyer(read_key(store.path), owner.key),
                list_unproved_marks(reader, owner.namespace_id),
            )
            for owner in list_namespaces(reader)
        }
        owners: dict[str, Marked] = {
            partition: marked[number] for partition, (number, _) in list_partitions(reader).items()
        }
    others = tuple(one for one in marked.values() if one[1])
    return VectorEraser(store.path, owners, others), unproved


def verify(
    store: Store, eraser: VectorEraser, unproved: Collection[Unproved], needles: Needles
) -> Findings:
    """Read both stores back and search the files of all unproved erasures.

    Raises:
        StoreBusyError: Others held the store for too long.
    """
    removed = remove_exports(store.path)
    remaining = _count_remaining(store, unproved)
    vectors = eraser.count()
    if vectors:
        remaining["vectors"] = vectors
    by_bytes = {one.encode(): one for one in islice(needles.texts, MOST_NEEDLES)}
    scan = scan_files(store, [*by_bytes, *needles.vectors])
    with store.read() as reader:
        shared = {
            one
            for one in scan.found
            if one in by_bytes and is_said_elsewhere(reader, by_bytes[one])
        }
    names = {name for one, files in scan.found.items() if one not in shared for name in files}
    doubts = {name: digest for one in unproved for name, digest in one.doubt.items()}
    suspects = digest_files(store.path, {*names, *doubts} - {DATABASE_FILE})
    return Findings(
        remaining=remaining,
        needles=scan.needles,
        not_searched=len(needles.texts) + len(needles.vectors) - scan.needles,
        shared=len(shared),
        found=len(scan.found) - len(shared),
        found_in={
            name: digest
            for name, digest in suspects.items()
            if name in names or doubts[name] == digest
        }
        | ({DATABASE_FILE: ""} if DATABASE_FILE in names else {}),
        files=scan.files,
        byte_count=scan.byte_count,
        exports_removed=removed,
    )


def _count_remaining(store: Store, unproved: Collection[Unproved]) -> dict[str, int]:
    remaining: dict[str, int] = {}
    key = read_key(store.path)
    with store.read() as reader:
        for number, namespace_key in {(one.namespace_id, one.namespace_key) for one in unproved}:
            keyer, marks = Keyer(key, namespace_key), list_unproved_marks(reader, number)
            for name, places in list_named(reader, number):
                if keyer.sign_id(name) in marks:
                    for place in places:
                        remaining[place] = remaining.get(place, 0) + 1
    return remaining


def describe_proof(  # noqa: PLR0913, PLR0917 - what a proof says
    store: Store,
    one: Unproved,
    findings: Findings,
    figures: Mapping[str, int],
    run_id: str,
    clock: datetime,
) -> dict[str, Any]:
    """Put the proof of one erasure together.

    `unsearched` counts memories whose texts the files were not searched for: only the run that took
    them knew these, and `run_id` went on with its work.
    """
    with store.read() as reader:
        count, digest = digest_marks(reader, one.erasure_id)
    return {
        "run_id": run_id,
        "memories": one.memories,
        "unsearched": 0 if one.erasure_id == run_id else one.memories,
        "fingerprints": count,
        "fingerprints_digest": digest,
        "checked_at": format_instant(clock),
        **asdict(findings),
        **figures,
        "remaining": sum(findings.remaining.values()),
        "remaining_in": dict(findings.remaining),
    }
