"""How a refresh works: what is embedded, how much may fail, what is compared, and its counters."""

from dataclasses import dataclass, field, fields
from typing import Literal

from storage.attempts import RetryPolicy
from storage.identities import CasScope, RecordProfile
from storage.snapshot_profiles import DEFAULT_PROFILE
from tasks.providers.bounds import FailureBudget

# Steps of a run, in order; a host can follow them (spec/refresh.md 3.1).
Step = Literal[
    "observe",
    "token_1",
    "token_2",
    "snapshot_1",
    "before_stage",
    "after_stage",
    "before_publish",
    "after_flip",
    "token_3",
    "before_verify",
    "observe_final",
    "before_receipt",
    "after_receipt",
]
_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RefreshSettings:
    """Everything that decides how a run goes, apart from the embedder and its bounds.

    The defaults are the product's; `max_embed_per_run` None: no budget. The record profile, the
    scope and the snapshot profile have other values for conformance runs only.
    """

    record_profile: RecordProfile = "memtend.record.v1"
    cas_scope: CasScope = "partition"
    snapshot_profile: str = DEFAULT_PROFILE
    source_rounds: int = 3
    max_embed_per_run: int | None = None
    on_budget: Literal["defer", "fail"] = "defer"
    max_rows: int = 5_000_000
    max_bytes: int = 64 * 1024**3
    failures: FailureBudget = field(default_factory=FailureBudget)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    recreate_index: bool = False


@dataclass(slots=True)
class RefreshCounters:
    """What a run did; recorded for failed runs too (spec/refresh.md R70)."""

    token_requests: int = 0
    token_observations: int = 0
    snapshot_requests: int = 0
    snapshot_rows: int = 0
    snapshot_bytes: int = 0
    reuse_hits: int = 0
    reuse_rejected: int = 0
    pool_hits: int = 0
    embed_inputs: int = 0
    embed_input_bytes: int = 0
    provider_requests: int = 0
    provider_inputs: int = 0
    provider_input_bytes: int = 0
    rows_failed: int = 0
    publication_attempts: int = 0
    publication_records: int = 0
    adopted: int = 0
    invalidated: int = 0
    abandoned: int = 0

    def add(self, other: object) -> None:
        """Add the counters of another record that have a name here; saturating."""
        for one in fields(self):
            more = getattr(other, one.name, 0)
            setattr(self, one.name, min(getattr(self, one.name) + more, _MAX))

    def describe(self) -> dict[str, int]:
        """Give the counters by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}
