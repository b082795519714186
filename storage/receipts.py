"""Refresh receipts: stored proof of a verified run, and checkpoints, their portable form.

No text, memory id, vector or provider is in them. Source: spec/refresh.md R57-R61.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StrictInt, ValidationError

from storage.errors import AdmissionError
from storage.gateway import StoreReader, StoreWriter
from storage.identities import CasScope, RecordProfile, is_digest
from storage.models import MAX_COUNT, Row
from storage.partitions import Observation
from storage.publications import Counts
from storage.queries import read_statements
from storage.snapshot_profiles import DEFAULT_PROFILE, UPSTREAM_PROFILE

_SQL = read_statements("storage.sql", "receipts")

REFRESH_PROFILE = "memtend.semantic-refresh.full-snapshot.v1"
CHECKPOINT_SCHEMA = "memtend.refresh-checkpoint.v1"
INDEX_PROFILE = "memtend.index-change-token.v1"
CONSISTENCY = "revision_cas"
MAX_SNAPSHOT_BYTES = 268_435_456
MAX_ACTIVE = 100_000


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a run verified: which memories, which vectors, under which generation."""

    receipt_id: str
    run_id: str
    namespace_id: int
    partition: str
    snapshot_profile: str
    snapshot_digest: str
    snapshot_bytes: int
    source_token: int | None
    store_history: str
    binding_schema: str
    generation: str
    record_profile: RecordProfile
    cas_scope: CasScope
    publication_id: str | None
    counts: Counts
    index_history: str
    index_revision: int
    partition_count: int
    record_count: int
    byte_count: int
    verified_at: datetime

    def proves(self, seen: Observation, *, generation: str, store_history: str) -> bool:
        """Tell whether this is evidence about what was observed (R58)."""
        return (
            self.store_history == store_history
            and self.generation == generation
            and self.index_history == seen.history
            and self.index_revision == seen.revision
            and self.partition_count == seen.partition_count
            and self.record_count == seen.record_count
            and self.byte_count == seen.byte_count
        )


def insert_receipt(writer: StoreWriter, receipt: Receipt) -> None:
    """Store a receipt; receipts are only ever added."""
    values = asdict(receipt)
    counts = values.pop("counts")
    values["active_count"] = counts.pop("active")
    fixed = {"profile": REFRESH_PROFILE, "mutation_consistency": CONSISTENCY}
    writer.execute(_SQL["insert_receipt"], {**values, **counts, **fixed})


def read_receipt(reader: StoreReader, receipt_id: str | None) -> Receipt | None:
    """Read the receipt that a pointer names; None: there is no proof."""
    if receipt_id is None:
        return None
    rows = reader.records(_SQL["read_receipt"], {"receipt_id": receipt_id})
    if not rows:
        return None
    values = rows[0]
    names = ("published", "failed", "permanent", "quarantined", "deferred")
    counts = Counts(values.pop("active_count"), *(values.pop(name) for name in names))
    del values["profile"], values["mutation_consistency"]
    return Receipt(counts=counts, **values)


Whole = Annotated[StrictInt, Field(ge=0, le=MAX_COUNT)]


class IndexToken(Row):
    """Which revision of which index history a checkpoint speaks of."""

    profile: str
    history_digest: str
    revision: Whole


class IndexStatus(Row):
    """What was in the index."""

    revision: Whole
    partition_count: Whole
    record_count: Whole
    byte_count: Whole


class Checkpoint(Row):
    """A receipt without its source token, for a store that was injected from elsewhere."""

    schema_name: str = Field(alias="schema")
    refresh_profile: str
    snapshot_profile: str
    snapshot_digest: str
    snapshot_bytes: Whole
    generation: str
    active_count: Whole
    published_count: Whole
    mutation_consistency: str
    index_token: IndexToken | None = None
    index_status: IndexStatus

    def find_fault(self) -> str | None:
        """Name the first field with a wrong value; None: the checkpoint can be used."""
        status, token = self.index_status, self.index_token
        checks = (
            ("schema", self.schema_name == CHECKPOINT_SCHEMA),
            ("refresh_profile", self.refresh_profile == REFRESH_PROFILE),
            ("snapshot_profile", self.snapshot_profile in {DEFAULT_PROFILE, UPSTREAM_PROFILE}),
            ("snapshot_digest", is_digest(self.snapshot_digest)),
            ("snapshot_bytes", 1 <= self.snapshot_bytes <= MAX_SNAPSHOT_BYTES),
            ("generation", is_digest(self.generation)),
            ("active_count", self.active_count <= MAX_ACTIVE),
            ("published_count", self.published_count <= self.active_count),
            ("mutation_consistency", self.mutation_consistency == CONSISTENCY),
            ("index_token", token is None or _fits(token, status)),
            ("record_count", self.published_count <= status.record_count),
            ("partition_count", self.published_count == 0 or status.partition_count > 0),
        )
        return next((name for name, holds in checks if not holds), None)


def _fits(token: IndexToken, status: IndexStatus) -> bool:
    is_ours = token.profile == INDEX_PROFILE and is_digest(token.history_digest)
    return is_ours and token.revision == status.revision


def parse_checkpoint(values: dict[str, Any]) -> Checkpoint:
    """Read a checkpoint and check it.

    Raises:
        AdmissionError: Malformed (field `parse_error`), or the first wrong field by its name.
    """
    try:
        checkpoint = Checkpoint.model_validate(values)
    except ValidationError:
        raise AdmissionError("parse_error", "is no checkpoint") from None
    fault = checkpoint.find_fault()
    if fault is not None:
        raise AdmissionError(fault, "has a value that no checkpoint has")
    return checkpoint


def export_checkpoint(receipt: Receipt) -> Checkpoint:
    """Give the portable form of a receipt."""
    token = IndexToken(
        profile=INDEX_PROFILE, history_digest=receipt.index_history, revision=receipt.index_revision
    )
    status = IndexStatus(
        revision=receipt.index_revision,
        partition_count=receipt.partition_count,
        record_count=receipt.record_count,
        byte_count=receipt.byte_count,
    )
    return Checkpoint(
        schema=CHECKPOINT_SCHEMA,
        refresh_profile=REFRESH_PROFILE,
        snapshot_profile=receipt.snapshot_profile,
        snapshot_digest=receipt.snapshot_digest,
        snapshot_bytes=receipt.snapshot_bytes,
        generation=receipt.generation,
        active_count=receipt.counts.active,
        published_count=receipt.counts.published,
        mutation_consistency=CONSISTENCY,
        index_token=token,
        index_status=status,
    )
