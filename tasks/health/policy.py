"""What is still healthy: named thresholds, each the bound of one figure.

A threshold is named after its bound; `FIGURES` says which figure it is about. Source: DESIGN 10.24.
"""

from typing import Annotated

from pydantic import Field, StrictInt

from tasks.policies import Policy, PrunePolicy, SweepPolicy

Count = Annotated[StrictInt, Field(ge=0, le=2**53)]
Ratio = Annotated[float, Field(ge=0, le=1, strict=True)]
KeptDays = Annotated[StrictInt, Field(ge=1, le=36_500)]
MebiBytes = Annotated[StrictInt, Field(ge=1, le=1_073_741_824)]


class HealthPolicy(Policy):
    """From which figures on somebody should be told, and how long figures are kept."""

    min_coverage: Ratio = Field(
        default=0.95,
        description="Share of active memories that the index serves, where there is one",
    )
    max_retrying_rows: Count = Field(
        default=100, description="Memories whose embedding failed and is tried again"
    )
    max_departed_rows: Count = Field(
        default=10_000, description="Served vectors of memories that are active no more"
    )
    max_refresh_backlog: Count = Field(
        default=1_000, description="Memories that wait for a vector; hopeless ones do not"
    )
    max_sweep_backlog: Count = Field(
        default=10_000, description="Memories that a sweep would take now"
    )
    max_prune_backlog: Count = Field(
        default=10_000, description="Memories that a prune would take now"
    )
    max_consolidate_backlog: Count = Field(
        default=10_000, description="Texts that no consolidation has compared, and duplicates left"
    )
    max_janitor_backlog: Count = Field(
        default=100_000, description="Old rows about runs that a janitor would take now"
    )
    max_failed_jobs: Count = Field(
        default=0, description="Jobs whose last run failed, was refused or was killed"
    )
    max_stalled_jobs: Count = Field(
        default=0, description="Jobs that are overdue, or whose run has lost its process"
    )
    max_duplicate_ratio: Ratio = Field(
        default=0.05,
        description="Duplicates that the last consolidation left, as a share of active",
    )
    max_clock_anomalies: Count = Field(
        default=0, description="Memories with a stored instant that has not come yet"
    )
    max_pinned_expired: Count = Field(
        default=0, description="Pinned memories that have expired all the same"
    )
    max_unscorable: Count = Field(default=0, description="Memories that the sweep cannot score")
    max_cold_ratio: Ratio = Field(
        default=0.3, description="Share of active memories that goes cold within 30 days"
    )
    max_embedded: Count = Field(
        default=1_000_000, description="Texts that were embedded within 30 days"
    )
    max_database_mib: MebiBytes = Field(
        default=10_240, description="Size of the database file, in MiB"
    )
    max_database_growth_mib: MebiBytes = Field(
        default=1_024, description="Growth of the database file within 7 days, in MiB"
    )
    max_vectors_mib: MebiBytes = Field(
        default=51_200, description="Size of the vector tables, in MiB"
    )
    max_vector_versions: Count = Field(
        default=1_000, description="Versions of the vector tables that are kept"
    )
    max_vector_fragments: Count = Field(default=500, description="Fragments of the vector tables")
    sweep: SweepPolicy = Field(
        default=SweepPolicy(), description="The policy of the sweep that forecasts are made with"
    )
    prune: PrunePolicy = Field(
        default=PrunePolicy(), description="The policy of the prune that its backlog is found with"
    )
    keep_days: KeptDays = Field(
        default=400, description="Snapshots of the figures are kept for this time, in days"
    )
    export_days: KeptDays = Field(
        default=90, description="Decisions of plans of this time are exported, in days"
    )


# Which figure a threshold bounds: its path in what `memtend status --json` prints.
FIGURES = {
    "min_coverage": "index.served_coverage",
    "max_retrying_rows": "index.retrying",
    "max_departed_rows": "index.departed",
    "max_refresh_backlog": "jobs.refresh.backlog",
    "max_sweep_backlog": "jobs.sweep.backlog",
    "max_prune_backlog": "jobs.prune.backlog",
    "max_consolidate_backlog": "jobs.consolidate.backlog",
    "max_janitor_backlog": "jobs.janitor.backlog",
    "max_failed_jobs": "work.failed_jobs",
    "max_stalled_jobs": "work.stalled_jobs",
    "max_duplicate_ratio": "duplicates.ratio",
    "max_clock_anomalies": "anomalies.clock",
    "max_pinned_expired": "anomalies.pinned_expired",
    "max_unscorable": "anomalies.unscorable",
    "max_cold_ratio": "forecast.30.cold_ratio",
    "max_embedded": "cost.embedded",
    "max_database_mib": "files.database_mib",
    "max_database_growth_mib": "files.database_growth_mib",
    "max_vectors_mib": "files.vector_mib",
    "max_vector_versions": "files.vector_versions",
    "max_vector_fragments": "files.vector_fragments",
}
