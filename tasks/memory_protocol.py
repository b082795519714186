"""The store API: what a host's memory store offers, whoever implements it.

A store of one's own inherits from `CustomMemoryStore` and defines the nine calls that have no
default. Source: spec/recall.md R20, R21, R24, R28.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Protocol

from pydantic import Field, ValidationError

from storage.changes import Tags, explain_refusal
from storage.errors import AdmissionError, LimitExceededError, MaintenanceError
from storage.models import (
    MAX_METADATA,
    Content,
    Expiry,
    Identifier,
    Instant,
    Kind,
    MetadataKey,
    MetadataValue,
    Row,
    UnitNumber,
)
from tasks.policies import PrunePolicy
from tasks.report import RunResult

MAX_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """A memory as a host writes and reads it; nothing is checked before it is stored.

    The store fills in what is None: `id` and `created_at`. The last three fields are what it knows
    about an item; it ignores them when one is written.
    """

    content: str
    id: str | None = None
    created_at: datetime | None = None
    importance: float = 0.5
    tags: Sequence[str] = ()
    kind: str = Kind.EPISODIC.value
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires_at: datetime | None = None
    revision: int | None = None
    access_count: int = 0
    last_accessed_at: datetime | None = None

    def with_importance(self, importance: float) -> "MemoryItem":
        """Give the item with another importance, moved to the nearer end of 0..1."""
        return replace(self, importance=min(max(importance, 0.0), 1.0))


class ItemDraft(Row):
    """An item that may be stored."""

    id: Identifier
    content: Content
    created_at: Instant
    importance: UnitNumber
    tags: Tags
    kind: Kind
    metadata: dict[MetadataKey, MetadataValue] = Field(max_length=MAX_METADATA)
    expires_at: Expiry | None


def parse_item(item: MemoryItem, *, new_id: str, now: datetime) -> ItemDraft:
    """Check an item before it is stored; nothing is clamped.

    Args:
        item: As the host made it.
        new_id: The id of an item that has none.
        now: When an item without a time was created.

    Raises:
        AdmissionError: A field is malformed; it is named `memory.…`.
        LimitExceededError: A field is longer than a limit allows.
    """
    values = {name: getattr(item, name) for name in ItemDraft.model_fields}
    values["id"] = new_id if item.id is None else item.id
    values["created_at"] = now if item.created_at is None else item.created_at
    try:
        return ItemDraft.model_validate(values)
    except ValidationError as error:
        raise explain_refusal(error, "memory") from None


def check_limit(limit: int) -> int:
    """Refuse a limit that no list call takes; 0 is one that gives nothing.

    Raises:
        AdmissionError: Negative or not a number.
        LimitExceededError: Above 1,000.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise AdmissionError("limit", "must be a whole number from 0")
    if limit > MAX_LIMIT:
        raise LimitExceededError("limit", limit=MAX_LIMIT, actual=limit)
    return limit


class MemoryStore(Protocol):
    """What a host's memory store offers; ids, times and orders are those of spec/recall.md."""

    def store(self, item: MemoryItem) -> None:
        """Store an item."""
        ...

    def store_and_return(self, item: MemoryItem) -> MemoryItem:
        """Store an item and give what stands for it now."""
        ...

    def retrieve(self, memory_id: str) -> MemoryItem | None:
        """Give one visible item."""
        ...

    def search(self, query: str, limit: int) -> list[MemoryItem]:
        """Give the items that match a text best."""
        ...

    def search_by_tags(self, tags: Sequence[str], limit: int) -> list[MemoryItem]:
        """Give items that have any of the tags."""
        ...

    def get_recent(self, limit: int) -> list[MemoryItem]:
        """Give the items that were created last."""
        ...

    def get_important(self, threshold: float, limit: int) -> list[MemoryItem]:
        """Give the items of at least this importance."""
        ...

    def delete(self, memory_id: str) -> bool:
        """Remove one item; False if there was none."""
        ...

    def clear(self) -> int:
        """Remove everything and give how many items that were."""
        ...

    def count(self) -> int:
        """Count the visible items."""
        ...

    def prune(self, policy: PrunePolicy) -> int:
        """Retire what is old and unimportant and give how many items that were."""
        ...

    @property
    def supports_prune(self) -> bool:
        """Whether `prune` does anything."""
        ...


class CustomMemoryStore(ABC):
    """A host's own store: nine calls to define, the rest is inherited."""

    @abstractmethod
    def store(self, item: MemoryItem) -> None:
        """Store an item."""

    @abstractmethod
    def retrieve(self, memory_id: str) -> MemoryItem | None:
        """Give one visible item."""

    @abstractmethod
    def search(self, query: str, limit: int) -> list[MemoryItem]:
        """Give the items that match a text best."""

    @abstractmethod
    def search_by_tags(self, tags: Sequence[str], limit: int) -> list[MemoryItem]:
        """Give items that have any of the tags."""

    @abstractmethod
    def get_recent(self, limit: int) -> list[MemoryItem]:
        """Give the items that were created last."""

    @abstractmethod
    def get_important(self, threshold: float, limit: int) -> list[MemoryItem]:
        """Give the items of at least this importance."""

    @abstractmethod
    def delete(self, memory_id: str) -> bool:
        """Remove one item; False if there was none."""

    @abstractmethod
    def clear(self) -> int:
        """Remove everything and give how many items that were."""

    @abstractmethod
    def count(self) -> int:
        """Count the visible items."""

    def store_and_return(self, item: MemoryItem) -> MemoryItem:
        """Store an item and give it back as it came: this store merges nothing."""
        self.store(item)
        return item

    def prune(self, policy: PrunePolicy) -> int:  # noqa: ARG002 - what a store that can would read
        """Do nothing and give 0: this store cannot prune, and `supports_prune` says so."""
        return 0

    @property
    def supports_prune(self) -> bool:
        """False: the prune job ends refused on this store."""
        return False


class UnsupportedError(MaintenanceError):
    """A store cannot do what a job needs."""

    code: ClassVar[str] = "unsupported"

    def __init__(self, job: str) -> None:
        """Name the job."""
        super().__init__(f"this store does not support {job}", job=job)


class PruneNotAppliedError(MaintenanceError):
    """The prune job ended without applying its plan."""

    code: ClassVar[str] = "prune_not_applied"

    def __init__(self, result: RunResult) -> None:
        """Keep the run; name it, its outcome and why."""
        end = result.end
        super().__init__(
            f"run {result.run_id} ended {end.outcome}" + (f": {end.error}" if end.error else ""),
            run_id=result.run_id,
            outcome=end.outcome,
            reason=end.code,
            plan_id=end.plan_id,
        )
        self.result = result
