"""Query memories of a namespace by text, kind and status; reading changes nothing.

Source: spec/repository.md R32: filters come before the limit, scores are coverage under the
lexical profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, ValidationError

from storage.changes import explain_refusal
from storage.errors import AdmissionError, LimitExceededError
from storage.gateway import StoreReader
from storage.lexical import WORD_CJK_BIGRAM_V1, is_searchable
from storage.models import Content, Instant, Kind, Namespace, Row, Status
from storage.namespaces import find_namespace
from storage.terms import search_terms

MAX_HITS = 100


class MemoryQuery(Row):
    """What to look for; without text every memory in the filter has score 0."""

    namespace: Namespace
    text: Content | None = None
    kinds: tuple[Kind, ...] = ()
    statuses: Annotated[tuple[Status, ...], Field(min_length=1)] = (Status.ACTIVE,)
    limit: Annotated[StrictInt, Field(ge=1)] = 20
    live_at: Instant | None = None
    decided_only: StrictBool = False
    profile: Literal["a3s.memory.lexical.word.v1", "a3s.memory.lexical.word-cjk-bigram.v1"] = (
        WORD_CJK_BIGRAM_V1
    )


@dataclass(frozen=True, slots=True)
class QueryHit:
    """One memory found; `score` is a 32-bit float."""

    memory_id: str
    revision: int
    score: float
    kind: str
    content: str
    updated_at: datetime


def query_memories(reader: StoreReader, values: Mapping[str, Any]) -> list[QueryHit]:
    """Run a query given as plain values.

    Raises:
        AdmissionError: Malformed; the field is named `query.…`.
        LimitExceededError: A limit above 100, or a text that is too long.
    """
    query = parse_query(values)
    owner = find_namespace(reader, query.namespace)
    if owner is None:
        return []
    rows = search_terms(
        reader,
        owner.namespace_id,
        query.text,
        kinds=[kind.value for kind in query.kinds],
        statuses=[status.value for status in query.statuses],
        limit=query.limit,
        live_at=query.live_at,
        decided_only=query.decided_only,
        profile=query.profile,
    )
    return [
        QueryHit(
            memory_id=row["id"],
            revision=row["revision"],
            score=row["score"],
            kind=row["kind"],
            content=row["content"],
            updated_at=row["updated_at"],
        )
        for row in rows
    ]


def parse_query(values: Mapping[str, Any]) -> MemoryQuery:
    """Read a query from plain values.

    Raises:
        AdmissionError: Malformed; the field is named `query.…`.
        LimitExceededError: A limit above 100, or a text that is too long.
    """
    try:
        query = MemoryQuery.model_validate(values)
    except ValidationError as error:
        raise explain_refusal(error, "query") from None
    if query.limit > MAX_HITS:
        raise LimitExceededError("query limit", limit=MAX_HITS, actual=query.limit)
    if query.text is not None and not is_searchable(query.text):
        raise AdmissionError("query.text", "has no letter or digit")
    return query
