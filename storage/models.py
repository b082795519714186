"""The memory model: frozen pydantic rows with bounds; whatever passes them may be stored.

Field names are the column names. Input is hostile: every text is checked for size in UTF-8 bytes,
lone surrogates, NUL and (identifiers) control characters; numbers are never clamped.
"""

import math
import re
import struct
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from storage.instants import format_instant, parse_expiry, parse_instant

MAX_COUNT = 2**63 - 1
MAX_CONTENT_BYTES = 65_536
MAX_ID_BYTES = 256
MAX_TAG_BYTES = 128
MAX_VALUE_BYTES = 1_024
MAX_URI_BYTES = 2_048
MAX_TAGS = 64
MAX_METADATA = 64
MAX_EVIDENCE = 64
MAX_RELATIONS = 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def check_text(value: object, limit: int, *, may_be_empty: bool = False) -> str:
    """Refuse text that is blank, too long in bytes, or has NUL or a lone surrogate.

    Raises:
        ValueError: With the reason; the text itself is not in it.
    """
    if not isinstance(value, str):
        message = "must be text"
        raise ValueError(message)  # noqa: TRY004 - pydantic collects ValueErrors only
    if "\0" in value:
        message = "must not contain NUL"
        raise ValueError(message)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        message = "must not contain a lone surrogate"
        raise ValueError(message) from None
    if size > limit:
        message = "must be at most {limit} bytes, has {actual}"
        raise PydanticCustomError("too_big", message, {"limit": limit, "actual": size})
    if not value.strip() and not (may_be_empty and not value):
        message = "must not be blank"
        raise ValueError(message)
    return value


def check_identifier(value: object, limit: int) -> str:
    """Refuse text that `check_text` refuses, and control characters."""
    text = check_text(value, limit)
    if _CONTROL.search(text):
        message = "must not contain control characters"
        raise ValueError(message)
    return text


def round_to_f32(value: float) -> float:
    """Round to the nearest 32-bit float; -0.0 becomes 0.0."""
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded + 0.0


def _check_number(value: object, low: float, high: float) -> float:
    # Compared with inf: math.isfinite() raises for an int beyond the floats.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        message = "must be a finite number"
        raise ValueError(message)
    if not low <= value <= high:
        message = f"must be from {low:g} to {high:g}"
        raise ValueError(message)
    return round_to_f32(value)


def _identifier(limit: int) -> BeforeValidator:
    return BeforeValidator(lambda value: check_identifier(value, limit))


def _number(low: float, high: float) -> BeforeValidator:
    return BeforeValidator(lambda value: _check_number(value, low, high))


_AS_TEXT = PlainSerializer(format_instant, when_used="json")
Identifier = Annotated[str, _identifier(MAX_ID_BYTES)]
Tag = Annotated[str, _identifier(MAX_TAG_BYTES)]
MetadataKey = Annotated[str, _identifier(MAX_TAG_BYTES)]
MetadataValue = Annotated[
    str, BeforeValidator(lambda value: check_text(value, MAX_VALUE_BYTES, may_be_empty=True))
]
Content = Annotated[str, BeforeValidator(lambda value: check_text(value, MAX_CONTENT_BYTES))]
UnitNumber = Annotated[float, _number(0.0, 1.0)]
Salience = Annotated[float, _number(0.25, 2.0)]
Count = Annotated[StrictInt, Field(ge=0, le=MAX_COUNT)]
Revision = Annotated[StrictInt, Field(ge=1, le=MAX_COUNT)]
Instant = Annotated[datetime, BeforeValidator(parse_instant), _AS_TEXT]
Expiry = Annotated[datetime, BeforeValidator(parse_expiry), _AS_TEXT]


class Kind(StrEnum):
    """What sort of memory it is, in canonical order."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    WORKING = "working"


class Status(StrEnum):
    """Where a memory is in its life, in canonical order."""

    CANDIDATE = "candidate"
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    CONFLICTED = "conflicted"
    TOMBSTONED = "tombstoned"


class EvidenceKind(StrEnum):
    """What sort of source an evidence names, in canonical order."""

    USER_STATEMENT = "user_statement"
    TOOL_RESULT = "tool_result"
    ARTIFACT = "artifact"
    SESSION_TURN = "session_turn"
    VERIFICATION = "verification"
    MANUAL = "manual"


class RelationKind(StrEnum):
    """What an edge says, in canonical order."""

    SUPERSEDES = "supersedes"
    SUPERSEDED_BY = "superseded_by"
    CONFLICTS_WITH = "conflicts_with"
    RELATED_TO = "related_to"

    @property
    def inverse(self) -> "RelationKind":
        """The kind of the edge that the target holds."""
        pairs = {
            RelationKind.SUPERSEDES: RelationKind.SUPERSEDED_BY,
            RelationKind.SUPERSEDED_BY: RelationKind.SUPERSEDES,
        }
        return pairs.get(self, self)


class RevisionKind(StrEnum):
    """Which operation made a revision."""

    CREATED = "created"
    ACTIVATED = "activated"
    CORROBORATED = "corroborated"
    REFINED = "refined"
    CORRECTED = "corrected"
    RELATION_CHANGED = "relation_changed"
    STATUS_CHANGED = "status_changed"
    RESTORED = "restored"
    ANNOTATED = "annotated"
    MERGED = "merged"


class Origin(StrEnum):
    """Which door a memory came through."""

    CHANGE_SET = "change_set"
    STORE_API = "store_api"
    IMPORT = "import"


class Row(BaseModel):
    """The base of all stored rows: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Namespace(Row):
    """The unit of isolation; the three parts are compared byte for byte."""

    tenant: Identifier
    principal: Identifier
    scope: Identifier


DEFAULT_NAMESPACE = Namespace(tenant="default", principal="default", scope="default")


class Evidence(Row):
    """A reference to a source that is kept elsewhere."""

    uri: Annotated[str, _identifier(MAX_URI_BYTES)]
    digest: Identifier
    kind: EvidenceKind
    occurred_at: Instant


class Relation(Row):
    """A directed edge to another memory of the namespace."""

    kind: RelationKind
    target_id: Identifier


def count_relations(relations: Iterable[Relation]) -> int:
    """Count the edges that the limit is about: not those to what a memory has replaced."""
    return sum(edge.kind != RelationKind.SUPERSEDES for edge in relations)


def _check_relations(relations: tuple[Relation, ...]) -> tuple[Relation, ...]:
    actual = count_relations(relations)
    if actual > MAX_RELATIONS:
        limits = {"max_length": MAX_RELATIONS, "actual_length": actual}
        raise PydanticKnownError("too_long", {"field_type": "Tuple", **limits})
    return relations


_EVIDENCE_ORDER = {kind: place for place, kind in enumerate(EvidenceKind)}
_RELATION_ORDER = {kind: place for place, kind in enumerate(RelationKind)}


def order_evidence(item: Evidence) -> tuple[str, str, int, datetime]:
    """Order evidence canonically; code points sort like UTF-8 bytes."""
    return item.uri, item.digest, _EVIDENCE_ORDER[item.kind], item.occurred_at


def order_relation(edge: Relation) -> tuple[int, str]:
    """Order edges canonically."""
    return _RELATION_ORDER[edge.kind], edge.target_id


def without_repeats(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Keep the first of equal values, in order."""
    return tuple(dict.fromkeys(values))


class MemoryState(Row):
    """What a revision of a memory says."""

    revision: Revision = 1
    revision_kind: RevisionKind = RevisionKind.CREATED
    kind: Kind = Kind.EPISODIC
    status: Status = Status.ACTIVE
    content: Content
    confidence: UnitNumber = 0.5
    importance: UnitNumber = 0.5
    salience: Salience | None = None
    tags: Annotated[
        tuple[Tag, ...], AfterValidator(without_repeats), Field(max_length=MAX_TAGS)
    ] = ()
    metadata: Annotated[dict[MetadataKey, MetadataValue], Field(max_length=MAX_METADATA)] = {}
    pinned: StrictBool = False
    evidence: Annotated[tuple[Evidence, ...], Field(max_length=MAX_EVIDENCE)] = ()
    relations: Annotated[
        tuple[Relation, ...], AfterValidator(without_repeats), AfterValidator(_check_relations)
    ] = ()
    updated_at: Instant | None = None
    expires_at: Expiry | None = None

    @model_validator(mode="after")
    def _check_evidence(self) -> Self:
        if len({item.uri for item in self.evidence}) != len(self.evidence):
            message = "evidence: a uri occurs once per memory"
            raise ValueError(message)
        return self


class MemoryRecord(MemoryState):
    """One memory as it is imported and exported: its state, its times, its earlier revisions."""

    id: Identifier
    namespace: Namespace | None = None
    created_at: Instant | None = None
    content_at: Instant | None = None
    restored_at: Instant | None = None
    tombstoned_at: Instant | None = None
    last_accessed_at: Instant | None = None
    access_count: Count = 0
    origin: Origin = Origin.IMPORT
    history: tuple[MemoryState, ...] = ()

    @model_validator(mode="after")
    def _check_record(self) -> Self:
        states: list[MemoryState] = [*self.history, self]
        edges = [edge for state in states for edge in state.relations]
        if any(edge.target_id == self.id for edge in edges):
            message = "relations: a memory has no edge to itself"
            raise ValueError(message)
        steps = [state.revision for state in self.history] + [self.revision]
        if any(later <= earlier for earlier, later in pairwise(steps)):
            message = "history: revisions must grow and stay below the current one"
            raise ValueError(message)
        created, updated = self.created_at, self.updated_at
        if updated is not None and (created is None or updated < created):
            message = "updated_at: must not lie before created_at"
            raise ValueError(message)
        return self


def parse_namespace(text: str) -> Namespace:
    """Read ``tenant/principal/scope``; a slash inside a part is written %2F, a percent sign %25.

    Raises:
        ValueError: Not three non-blank parts.
    """
    parts = [part.replace("%2F", "/").replace("%25", "%") for part in text.split("/")]
    names = tuple(Namespace.model_fields)
    if len(parts) != len(names):
        message = "a namespace is tenant/principal/scope"
        raise ValueError(message)
    return Namespace.model_validate(dict(zip(names, parts, strict=True)))


def format_namespace(namespace: Namespace | Mapping[str, str]) -> str:
    """Write a namespace as `parse_namespace` reads it."""
    parts = namespace.model_dump() if isinstance(namespace, Namespace) else namespace
    escaped = (
        parts[name].replace("%", "%25").replace("/", "%2F") for name in Namespace.model_fields
    )
    return "/".join(escaped)
