"""How an answer over HTTP is read: pure functions of status, headers and body."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

from storage.models import MAX_COUNT
from tasks.providers.embedder import (
    ProviderDeniedError,
    ProviderError,
    ProviderInputError,
    ProviderRateLimitedError,
    ProviderResponseError,
    ProviderTimeoutError,
    ProviderUnavailableError,
    Vector,
)

_OK = 200
_TIMEOUT = 408
_TOO_MANY = 429
# No key, a wrong one, no credit, no such address or model, no way through the proxy: all for good.
_DENIED = (401, 402, 403, 404, 405, 407)
_CLIENT_FAULTS = range(400, 500)
_SERVER_FAULTS = range(500, 600)


class _Item(BaseModel):
    model_config = ConfigDict(strict=True)

    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Item]


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message


class _Usage(BaseModel):
    total_tokens: StrictInt | None = Field(default=None, ge=0, le=MAX_COUNT)


class _ChatAnswer(BaseModel):
    model_config = ConfigDict(strict=True)

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


class Completion(NamedTuple):
    """What a model wrote, if anything, and how many tokens that took, if it says so."""

    text: str | None
    tokens: int | None


def classify_status(status: int, headers: Mapping[str, str]) -> ProviderError | None:
    """Say what a status means; None when the body is the answer."""
    if status == _OK:
        return None
    if status == _TOO_MANY:
        return ProviderRateLimitedError(read_retry_after_s(headers))
    if status in _SERVER_FAULTS:
        return ProviderUnavailableError(read_retry_after_s(headers))
    if status == _TIMEOUT:
        return ProviderTimeoutError()
    if status not in _CLIENT_FAULTS:
        return ProviderResponseError(reason="status", status=status)
    refused = ProviderDeniedError if status in _DENIED else ProviderInputError
    return refused(status=status)


def read_retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read how long to wait, in seconds; None when the header is absent or makes no sense.

    A date is counted from the answer's own Date header, so that our clock does not matter.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        until, sent = (parsedate_to_datetime(text) for text in (value, headers.get("date", "")))
        return max(0.0, (until - sent).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


def read_embeddings(body: bytes, *, count: int, dimension: int) -> list[Vector]:
    """Read the vectors of an answer in the order of the texts.

    Single vectors of another length, or with components that are no numbers, are left to the
    executor, which blames their rows; when all have another length, it is another model.

    Raises:
        ProviderResponseError: No JSON of that form, wrong count, unknown or repeated index,
            wrong dimension.
    """
    items = _parse_items(body)
    if items is None:
        raise ProviderResponseError(reason="form")
    if len(items) != count:
        raise ProviderResponseError(reason="count", expected=count, found=len(items))
    ordered = sorted(items, key=lambda item: item.index)
    if [item.index for item in ordered] != list(range(count)):
        raise ProviderResponseError(reason="index")
    if all(len(item.embedding) != dimension for item in items):
        raise ProviderResponseError(reason="dimension", expected=dimension)
    with np.errstate(over="ignore"):
        return [np.array(item.embedding, dtype=np.float32) for item in ordered]


def read_completion(body: bytes) -> Completion:
    """Read what a model wrote; of several choices the first.

    Raises:
        ProviderResponseError: No JSON of that form.
    """
    try:
        answer = _ChatAnswer.model_validate_json(body)
    except ValidationError:
        answer = None
    if answer is None:
        raise ProviderResponseError(reason="form")
    tokens = answer.usage.total_tokens if answer.usage else None
    return Completion(answer.choices[0].message.content, tokens)


def _parse_items(body: bytes) -> list[_Item] | None:
    try:
        return _Answer.model_validate_json(body).data
    except ValidationError:
        return None
