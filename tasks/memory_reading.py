"""Give a host the items that it reads, and count one use of each in the same breath.

What was chosen is compared again when its use is counted, so that choosing needs no exclusive lock.
Source: spec/recall.md R25.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from storage import Store, StoreReader, StoreWriter
from storage.errors import StorageError, StoreBusyError
from storage.items import Chosen, count_reads
from storage.memories import read_memories
from storage.models import Namespace
from storage.namespaces import find_namespace
from tasks.memory_protocol import MemoryItem

_TRIES = 5
Choose = Callable[[StoreReader, int, datetime], Sequence[Chosen]]


@dataclass(frozen=True, slots=True)
class Served:
    """The items of one read, as they are after it, and whether their use was counted."""

    items: list[MemoryItem]
    is_recorded: bool = True


@dataclass(frozen=True, slots=True)
class _Read:
    """One read: how memories are chosen, where, and for which instant."""

    namespace: Namespace
    choose: Choose
    now: datetime

    def find(self, reader: StoreReader) -> tuple[int, Sequence[Chosen]]:
        owner = find_namespace(reader, self.namespace)
        if owner is None:
            return 0, ()
        return owner.namespace_id, self.choose(reader, owner.namespace_id, self.now)


def serve_items(
    store: Store, namespace: Namespace, choose: Choose, *, now: datetime, is_slow: bool
) -> Served:
    """Choose memories, count their use, and give them as they are after it.

    If what was chosen has changed in between, or cannot be written, all is done again. In the end
    the items are given without it: a lost count is better than a failed read.

    Args:
        store: The store; no lock may be held.
        namespace: Where to read; one that does not exist has no items.
        choose: Gives ids and revisions from (reader, namespace_id, now).
        now: The instant of the read.
        is_slow: Choose under the shared lock, so that others can read meanwhile.

    Raises:
        StoreBusyError: The lock was not free in time, not even for reading.
    """
    read = _Read(namespace, choose, now)
    for _ in range(_TRIES):
        try:
            return Served(_count_uses(store, read, is_slow=is_slow))
        except StoreBusyError:
            break  # that took its time already
        except StorageError:
            continue
    with store.read() as reader:
        owner, chosen = read.find(reader)
        return Served(_read_chosen(reader, owner, chosen), is_recorded=False)


def read_items(reader: StoreReader, namespace_id: int, ids: Sequence[str]) -> list[MemoryItem]:
    """Read memories that exist as items, in the order of their ids."""
    if not ids:
        return []
    rows = {row["id"]: row for row in read_memories(reader, namespace_id, ids)}
    names = [name for name in MemoryItem.__dataclass_fields__ if name != "tags"]
    return [
        MemoryItem(**{name: rows[one][name] for name in names}, tags=tuple(rows[one]["tags"]))
        for one in ids
    ]


def _count_uses(store: Store, read: _Read, *, is_slow: bool) -> list[MemoryItem]:
    if not is_slow:
        with store.write() as writer:
            return _count_chosen(writer, *read.find(writer), read.now)
    with store.read() as reader:
        owner, chosen = read.find(reader)
    if not chosen:
        return []
    with store.write() as writer:
        return _count_chosen(writer, owner, chosen, read.now)


def _count_chosen(
    writer: StoreWriter, owner: int, chosen: Sequence[Chosen], now: datetime
) -> list[MemoryItem]:
    if chosen:
        count_reads(writer, owner, chosen, now=now)
    return _read_chosen(writer, owner, chosen)


def _read_chosen(reader: StoreReader, owner: int, chosen: Sequence[Chosen]) -> list[MemoryItem]:
    return read_items(reader, owner, [memory_id for memory_id, _ in chosen])
