"""The semantic part of a binding: what a query is embedded with and searched in, free of secrets.

Source: spec/recall.md R17, 4.2.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, model_validator
from pydantic.alias_generators import to_camel

from storage.encoding import format_f32
from storage.identities import is_digest
from storage.models import UnitNumber
from tasks.fusion import FUSION_PROFILES
from tasks.providers.bounds import BYTES_PER_COMPONENT
from tasks.providers.embedder import MAX_DIMENSION, EmbeddingIdentity, Name
from tasks.refresh.binding import BINDING_SCHEMA


def _check_digest(text: str) -> str:
    if not is_digest(text):
        raise ValueError("must be sha256: and 64 lowercase hex digits")
    return text


def _check_fusion(text: str) -> str:
    if text not in FUSION_PROFILES:
        raise ValueError("no such fusion profile")
    return text


def _check_schema(text: str) -> str:
    if text != BINDING_SCHEMA:
        raise ValueError("no such schema")
    return text


_Digest = Annotated[str, AfterValidator(_check_digest)]
_Dimension = Annotated[StrictInt, Field(ge=1, le=MAX_DIMENSION)]


class BoundPart(BaseModel):
    """What all parts share: camelCase in JSON, frozen, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )


class BoundEmbedding(BoundPart):
    """What makes the vectors."""

    provider: Name
    model: Name
    revision: Name
    dimension: _Dimension
    normalization: Literal["unit", "none"]

    def is_made_by(self, identity: EmbeddingIdentity) -> bool:
        """Tell whether an embedder of this identity makes the same vectors."""
        said = self.model_dump()
        said["normalisation"] = said.pop("normalization")
        return said == identity.model_dump()


class BoundIndex(BoundPart):
    """What the vectors are searched in."""

    dimension: _Dimension
    metric: Literal["cosine"]
    normalization: Literal["unit"]
    max_records: Annotated[StrictInt, Field(gt=0)]
    max_bytes: StrictInt


class BoundSearch(BoundPart):
    """How many candidates are looked at, and the cosine from which one counts."""

    candidate_limit: Annotated[StrictInt, Field(ge=1, le=100)]
    min_score: UnitNumber


class SemanticBinding(BoundPart):
    """The semantic part as a whole."""

    schema_name: Annotated[str, AfterValidator(_check_schema), Field(alias="schema")]
    authority_digest: _Digest
    embedding: BoundEmbedding
    embedding_execution_digest: _Digest
    vector_index: BoundIndex
    policy: BoundSearch
    fusion_profile: Annotated[str, AfterValidator(_check_fusion)]

    @model_validator(mode="after")
    def _check_index(self) -> "SemanticBinding":
        if self.vector_index.dimension != self.embedding.dimension:
            raise ValueError("vectorIndex.dimension: must be that of the embedding")
        if self.vector_index.max_bytes < BYTES_PER_COMPONENT * self.embedding.dimension:
            raise ValueError("vectorIndex.maxBytes: must have room for one vector")
        return self

    def describe(self) -> dict[str, object]:
        """Give it as JSON values, its keys in the order that the serving generation hashes."""
        said: dict[str, object] = self.model_dump(by_alias=True)
        # The shortest text of a 32-bit float: 0.8, and not 0.800000011920929.
        min_score = float(format_f32(self.policy.min_score))
        said["policy"] = {"candidateLimit": self.policy.candidate_limit, "minScore": min_score}
        return said
