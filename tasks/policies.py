"""The policies of the jobs: frozen, bounded and described; they are flow parameters and UI forms.

A bad value is refused before anything is read. Bounds are field bounds, so that a form refuses
them when a run is created.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_serializer

EvictableKind = Literal["episodic", "procedural", "working"]
AnyKind = Literal["episodic", "semantic", "procedural", "working"]
Days = Annotated[StrictInt, Field(ge=0, le=36_500)]
PositiveNumber = Annotated[float, Field(gt=0, strict=True)]


class Policy(BaseModel):
    """What all policies share: frozen, unknown fields and non-finite numbers refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PrunePolicy(Policy):
    """Which memories are old and unimportant, and how many a namespace may keep."""

    max_age_days: Days = Field(
        default=90, description="Unimportant memories older than this are stale, in days"
    )
    min_importance_to_keep: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        default=0.5, description="Memories below this importance (0..1) can become stale"
    )
    max_items: Annotated[StrictInt, Field(ge=0)] = Field(
        default=0,
        description="Most visible memories that a namespace keeps; 0: no cap",
    )
    cap_order: Literal["relevance", "importance_recency"] = Field(
        default="relevance", description="What ranks memories when the cap is exceeded"
    )
    protect_curated: StrictBool = Field(
        default=True, description="Keep curated memories: keep marks, links, three or more uses"
    )
    min_age_hours: Annotated[float, Field(ge=0, strict=True)] = Field(
        default=1.0, description="Memories written within this time are spared by the cap, in hours"
    )
    mode: Literal["tombstone", "delete"] = Field(
        default="tombstone", description="Tombstones can be restored until they are purged"
    )


class SweepPolicy(Policy):
    """What has expired, what nobody uses any more, and how long tombstones are kept."""

    cold_threshold: Annotated[float, Field(ge=0, strict=True)] = Field(
        default=0.20, description="Memories that score below this are cold; 0: never"
    )
    lambda_per_day: Annotated[float, Field(ge=0, strict=True)] = Field(
        default=0.02, description="Decay of the time term per day (half-life 34.7 days)"
    )
    half_life_days: dict[AnyKind, PositiveNumber] = Field(
        default={}, description="Half-life of the time term by kind, in days, instead of lambda"
    )
    sigma: Annotated[float, Field(ge=0, strict=True)] = Field(
        default=0.6, description="Weight of the access term"
    )
    mu: Annotated[float, Field(ge=0, strict=True)] = Field(
        default=0.04, description="Decay of the access term per day (half-life 17.3 days)"
    )
    salience_default: Annotated[float, Field(ge=0.25, le=2, strict=True)] = Field(
        default=1.0, description="Stands in for a memory without salience"
    )
    breadth_weight: Annotated[float, Field(ge=0, strict=True)] = Field(
        default=0.0, description="Weight of the number of distinct actors; 0: not counted"
    )
    hard_delete_after_days: Days = Field(
        default=180, description="Tombstones are purged after this time, in days"
    )
    evict_kinds: frozenset[EvictableKind] = Field(
        default=frozenset({"episodic"}), description="Kinds that can become cold"
    )
    ttl: StrictBool = Field(
        default=True, description="Delete memories whose expires_at has passed, pinned ones too"
    )

    @field_serializer("evict_kinds")
    def _in_order(self, kinds: frozenset[str]) -> list[str]:
        return sorted(kinds)


class RefreshPolicy(Policy):
    """How much a refresh may embed, and how many rows may fail."""

    on_row_failure: Literal["publish_partial", "fail_run"] = Field(
        default="publish_partial",
        description="Whether a memory that cannot be embedded stops the run",
    )
    max_embed_per_run: Annotated[StrictInt, Field(ge=0)] = Field(
        default=0,
        description="Most memories that a run embeds; 0: 4096 over HTTP, no limit in this process",
    )
    source_rounds: Annotated[StrictInt, Field(ge=1, le=10)] = Field(
        default=3, description="How often a run starts over because memories changed meanwhile"
    )
    max_failed_rows: Annotated[StrictInt, Field(ge=0)] = Field(
        default=100, description="A run fails as a whole if more memories than this fail"
    )
    max_failed_share: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        default=0.5, description="The same as a share of the memories sent, from ten on"
    )
    recreate_index: StrictBool = Field(
        default=False, description="Make the index anew from the memories alone"
    )


class ConsolidatePolicy(Policy):
    """Which memories say the same, what happens to contradictions, and who may write summaries."""

    profile: Literal["memtend.near-duplicate.v2", "seed.near-duplicate.v1"] = Field(
        default="memtend.near-duplicate.v2", description="The rules that detect duplicates"
    )
    allow_seed_profile: StrictBool = Field(
        default=False, description="Apply plans of the seed profile, which has known faults"
    )
    exact: StrictBool = Field(
        default=True, description="Merge memories that differ in letter case or punctuation only"
    )
    near: StrictBool = Field(
        default=True, description="Merge near duplicates that no guard keeps apart"
    )
    conflict_mode: Literal["report", "link", "mark"] = Field(
        default="report",
        description="What happens to contradictions: a line, an edge, or the status conflicted",
    )
    semantic_mode: Literal["off", "report", "merge"] = Field(
        default="report", description="What happens to duplicates that only vectors show"
    )
    semantic_threshold: Annotated[float, Field(gt=0, le=1, strict=True)] = Field(
        default=0.95, description="Least cosine of vectors that show a duplicate"
    )
    semantic_neighbours: Annotated[StrictInt, Field(ge=1, le=100)] = Field(
        default=10, description="Neighbours of a vector that are looked at"
    )
    max_pairs: Annotated[StrictInt, Field(ge=1, le=100_000_000)] = Field(
        default=2_000_000, description="Most near pairs of a namespace; with more, none is merged"
    )
    refine: StrictBool = Field(
        default=False, description="Let the refiner of the setting write summaries, as candidates"
    )
    refine_attempts: Annotated[StrictInt, Field(ge=1, le=10)] = Field(
        default=3, description="Most calls of the refiner for one cluster"
    )
    refine_max_calls: Annotated[StrictInt, Field(ge=0, le=10_000)] = Field(
        default=12, description="Most calls of the refiner in a run"
    )
    refine_max_tokens: Annotated[StrictInt, Field(ge=0)] = Field(
        default=100_000, description="Most tokens of the refiner in a run"
    )
