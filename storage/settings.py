"""Machine facts from the environment; the only reader of it, called at the edge."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_STORE = "memtend-store"


class Settings(BaseModel):
    """Where the store is, how long to wait for it, and which models work on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: Path = Field(default=Path(DEFAULT_STORE), description="Directory of the store")
    lock_wait_s: float = Field(
        default=30.0, gt=0, le=3600, description="Longest wait for the store's lock, in seconds"
    )
    lease_ttl_s: int = Field(
        default=300, ge=30, le=3600, description="How long a killed run keeps its lease, in seconds"
    )
    embedder: str = Field(
        default="use",
        min_length=1,
        description="Embedder of the index: a built-in name, or module:factory",
    )
    refiner: str | None = Field(
        default=None,
        min_length=1,
        description="Who writes one text for several memories: openai, or module:factory",
    )
    fleet: Path | None = Field(
        default=None, description="File that lists the stores which maintain_fleet works on"
    )
    scheduled_mode: Literal["plan", "apply"] = Field(
        default="plan",
        description="What scheduled runs of prune, sweep and consolidate do; apply: really remove",
    )
    schedules: str | None = Field(
        default=None, description="JSON: when jobs run by themselves, other than as shipped"
    )
    approval_timeout_s: int = Field(
        default=86_400,
        ge=10,
        le=2_592_000,
        description="How long a plan over a limit waits for a decision, in seconds",
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "Settings":
        """Read MEMTEND_<FIELD> for each field; absent or empty values keep the default."""
        names = {field: f"MEMTEND_{field.upper()}" for field in cls.model_fields}
        given = {field: environ[name] for field, name in names.items() if environ.get(name)}
        return cls.model_validate(given)
