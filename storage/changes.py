"""Change sets: 1 to 128 operations on the memories of one namespace, applied wholly or not at all.

Here is their shape: types, bounds and unknown fields are judged before anything is looked up.
Source: spec/repository.md R11, 4.1.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, ValidationError

from storage.errors import AdmissionError, LimitExceededError
from storage.models import (
    MAX_COUNT,
    MAX_METADATA,
    MAX_TAGS,
    Content,
    Evidence,
    Expiry,
    Identifier,
    Instant,
    Kind,
    MetadataKey,
    MetadataValue,
    Namespace,
    Relation,
    Row,
    Salience,
    Status,
    Tag,
    UnitNumber,
    without_repeats,
)

MAX_OPERATIONS = 128
ExpectedRevision = Annotated[StrictInt, Field(ge=0, le=MAX_COUNT)]
Tags = Annotated[tuple[Tag, ...], AfterValidator(without_repeats), Field(max_length=MAX_TAGS)]
Items = tuple[Evidence, ...]


def _refuse_working(kind: object) -> object:
    if kind == Kind.WORKING:
        message = "working memories are not durable here"
        raise ValueError(message)
    return kind


class Draft(Row):
    """A memory as a create operation gives it."""

    id: Identifier
    namespace: Namespace | None = None
    kind: Annotated[Kind, BeforeValidator(_refuse_working)]
    status: Status
    content: Content
    confidence: UnitNumber = 0.5
    importance: UnitNumber = 0.5
    salience: Salience | None = None
    tags: Tags = ()
    metadata: dict[MetadataKey, MetadataValue] = Field(default={}, max_length=MAX_METADATA)
    pinned: StrictBool = False
    expires_at: Expiry | None = None
    evidence: Items = ()
    relations: tuple[Relation, ...] = ()
    created_at: Instant


class Create(Row):
    """Add a memory as candidate or, with decision evidence, as active."""

    op: Literal["create"]
    memory: Draft


class _Change(Row):
    memory_id: Identifier
    expected_revision: ExpectedRevision


class Activate(_Change):
    """Make a candidate active; needs decision evidence."""

    op: Literal["activate"]
    evidence: Items


class Corroborate(_Change):
    """Add evidence; content and status stay."""

    op: Literal["corroborate"]
    evidence: Items


class Revise(_Change):
    """Give new content."""

    op: Literal["revise"]
    content: Content
    mode: Literal["refinement", "correction"]
    evidence: Items
    confidence: UnitNumber | None = None
    importance: UnitNumber | None = None


class AddRelation(_Change):
    """Add one end of an edge; the set must add the other end, too."""

    op: Literal["add_relation"]
    relation: Relation


class RemoveRelation(_Change):
    """Remove one end of an edge; the set must remove the other end, too."""

    op: Literal["remove_relation"]
    relation: Relation


class SetStatus(_Change):
    """Make a memory superseded, conflicted or tombstoned."""

    op: Literal["set_status"]
    status: Literal[Status.SUPERSEDED, Status.CONFLICTED, Status.TOMBSTONED]


class Restore(_Change):
    """Take back a tombstone."""

    op: Literal["restore"]


class Annotate(_Change):
    """Change the fields that are given; metadata merges, null removes a key."""

    op: Literal["annotate"]
    tags: Tags = ()
    metadata: dict[MetadataKey, MetadataValue | None] = Field(default={})
    pinned: StrictBool = False
    expires_at: Expiry | None = None
    importance: UnitNumber = 0.5
    salience: Salience | None = None

    @property
    def given(self) -> set[str]:
        """The fields that the caller named."""
        return self.model_fields_set - {"op", "memory_id", "expected_revision"}


Change = (
    Activate | Corroborate | Revise | AddRelation | RemoveRelation | SetStatus | Restore | Annotate
)
Operation = Annotated[Create | Change, Field(discriminator="op")]


class ChangeSet(Row):
    """Operations under one idempotency key; `occurred_at` is when all of them happened."""

    idempotency_key: Identifier
    namespace: Namespace
    occurred_at: Instant
    operations: Annotated[tuple[Operation, ...], Field(min_length=1, max_length=MAX_OPERATIONS)]


def parse_change_set(values: Mapping[str, Any]) -> ChangeSet:
    """Read a change set from plain values.

    Raises:
        AdmissionError: Malformed; the field is named.
        LimitExceededError: Longer than a limit allows.
    """
    try:
        return ChangeSet.model_validate(values)
    except ValidationError as error:
        raise explain_refusal(error) from None


def explain_refusal(
    error: ValidationError, owner: str = "change_set"
) -> AdmissionError | LimitExceededError:
    """Turn the first fault of a validation into the repository's error."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = fault["loc"][:-1] if fault["type"] == "extra_forbidden" else fault["loc"]
    field = name_field(place, owner)
    context = fault.get("ctx", {})
    if fault["type"] == "too_big":
        return LimitExceededError(field, limit=context["limit"], actual=context["actual"])
    if fault["type"] == "too_long":
        limit, actual = context["max_length"], context["actual_length"]
        return LimitExceededError(_RESOURCES.get(field, field), limit=limit, actual=actual)
    if fault["type"].startswith("union_tag"):
        field = "operation.op"
    return AdmissionError(field, fault["msg"].removeprefix("Value error, "))


_RESOURCES = {
    "change_set.operations": "change-set operations",
    "memory.tags": "memory tags",
    "memory.metadata": "memory metadata",
    "operation.tags": "memory tags",
    "operation.metadata": "memory metadata",
}


def name_field(place: Sequence[str | int], owner: str) -> str:
    """Name a field as the errors of the repository do.

    ``operations, 0, create, memory, content`` is ``memory.content``, a field of another operation
    ``operation.…``; entries of a list go without their number.
    """
    words = [str(part) for part in place if not isinstance(part, int)]
    if words[:1] == ["operations"] and len(words) > 1:
        owner, words = "operation", words[2:]
        if words[:1] == ["memory"]:
            owner, words = "memory", words[1:]
    for group in ("namespace", "evidence", "relation", "relations"):
        if words[:1] == [group] and len(words) > 1:
            return f"{group.removesuffix('s')}.{words[1]}"
    if words[:1] == ["metadata"] and len(words) > 1:
        return f"memory.metadata.{'key' if words[-1] == '[key]' else 'value'}"
    return ".".join([owner, *words[:1]])
