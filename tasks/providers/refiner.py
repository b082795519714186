"""What a refiner is: it writes one text for several memories.

It raises `tasks.providers.embedder.ProviderError` on purpose. What it answers is any value: whether
it is a text that may stand for its sources is judged by `tasks.rules.refined`.
Source: spec/consolidate.md R90-R92.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt

from storage.models import MAX_COUNT, Content, Identifier, Kind, Namespace, Revision
from tasks.providers.embedder import Name

LEAST_SOURCES = 2
MOST_SOURCES = 8


class RefinerIdentity(BaseModel):
    """Who writes; noted on every memory that comes of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Name = Field(description="Who runs the model")
    model: Name = Field(description="Name of the model")
    revision: Name = Field(default="1", description="Version of the model and of its instructions")

    def describe(self) -> str:
        """Write the identity in one line."""
        return f"{self.provider} {self.model} {self.revision}"


class RefineSource(BaseModel):
    """A memory as it was read: its content belongs to its revision."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    memory_id: Identifier
    revision: Revision
    content: Content = Field(repr=False)


def _check_sources(sources: tuple[RefineSource, ...]) -> tuple[RefineSource, ...]:
    if len({source.memory_id for source in sources}) != len(sources):
        raise ValueError("a memory occurs once")
    return sources


def _check_kind(kind: Kind) -> Kind:
    if kind == Kind.WORKING:
        raise ValueError("working memories are not durable here")
    return kind


class RefineRequest(BaseModel):
    """Memories of one namespace and kind that say about the same."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    namespace: Namespace
    kind: Annotated[Kind, AfterValidator(_check_kind)]
    sources: Annotated[
        tuple[RefineSource, ...],
        Field(min_length=LEAST_SOURCES, max_length=MOST_SOURCES),
        AfterValidator(_check_sources),
    ]

    @property
    def texts(self) -> dict[str, str]:
        """The contents by memory id."""
        return {source.memory_id: source.content for source in self.sources}


class RefineResponse(BaseModel):
    """What a refiner answered, unjudged, and what it cost."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    output: object = Field(
        repr=False, description='Meant is {"content": text, "sources": [memory ids]}'
    )
    tokens: Annotated[StrictInt, Field(ge=0, le=MAX_COUNT)] | None = Field(
        default=None, description="Tokens in and out; None if the provider does not say"
    )


class Refiner(Protocol):
    """Writes one text for several memories."""

    @property
    def identity(self) -> RefinerIdentity:
        """Tell who writes; it never changes."""
        ...

    def refine(self, request: RefineRequest) -> RefineResponse:
        """Ask once, without retries of its own: those are counted by the caller.

        Raises:
            ProviderError: No answer, or none to what was asked.
        """
        ...


@dataclass(frozen=True, slots=True)
class RefinerChoice:
    """Which refiner a request uses; `load` makes it when it is needed, with the edge's secrets."""

    name: str
    load: Callable[[], Refiner] = field(repr=False)
