"""What an embedder is, and the only errors that it raises on purpose.

The texts of the errors are fixed: nothing that a provider said is ever in them.

* ProviderError
  - ProviderTimeoutError
  - ProviderRateLimitedError
  - ProviderUnavailableError
  - ProviderDeniedError
  - ProviderInputError
  - ProviderResponseError
"""

import unicodedata
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from storage.errors import MaintenanceError

Vector = NDArray[np.float32]
MAX_NAME_BYTES = 256
MAX_DIMENSION = 65_536


def _check_name(text: str) -> str:
    size = len(text.encode())
    if not 1 <= size <= MAX_NAME_BYTES:
        raise ValueError(f"1 to {MAX_NAME_BYTES} bytes, found {size}")
    if text != text.strip() or any(unicodedata.category(char) == "Cc" for char in text):
        raise ValueError("no blanks around it and no control characters")
    return text


Name = Annotated[str, AfterValidator(_check_name)]


class EmbeddingIdentity(BaseModel):
    """What shapes the vectors of a provider; a part of the serving generation.

    Two embedders with equal identities give the same text the same vector.

    Source: spec/recall.md 4.2 for the bounds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    provider: Name = Field(description="Who computes the vectors")
    model: Name = Field(description="Name of the model")
    revision: Name = Field(description="Version of the model, its weights included")
    dimension: int = Field(ge=1, le=MAX_DIMENSION, description="Components of a vector")
    normalisation: Literal["unit", "none"] = Field(
        default="none", description="unit: the provider promises vectors of length one"
    )


class Embedder(Protocol):
    """Turns texts into vectors; one text's vector does not depend on the others beyond rounding."""

    @property
    def identity(self) -> EmbeddingIdentity:
        """Tell what shapes the vectors; it never changes."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vector | Sequence[Vector]:
        """Embed texts that are not blank; an empty list is one without rows.

        Returns:
            float32 [len(texts), dimension] in the order of the texts; or one array a text, so that
            a row of another length can be told from its neighbours.

        Raises:
            ProviderError: See the classes; whatever else is raised is blamed on single texts.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed what somebody asks; float32 [dimension]."""
        ...


class ProviderError(MaintenanceError):
    """A provider did not do what was asked of it."""

    code = "provider_error"
    text = "the provider failed"

    def __init__(self, **facts: object) -> None:
        """Keep figures only; the text is that of the class."""
        super().__init__(self.text, **facts)


class ProviderTimeoutError(ProviderError):
    """No answer in time."""

    code = "timeout"
    text = "the provider did not answer in time"
    retryable = True


class ProviderRateLimitedError(ProviderError):
    """Too many requests; perhaps with the wait that the provider asks for."""

    code = "rate_limited"
    text = "the provider limits the rate of requests"
    retryable = True

    def __init__(self, retry_after_s: float | None = None) -> None:
        """Keep the wait in seconds, if one is known."""
        super().__init__(retry_after_s=retry_after_s)
        self.retry_after_s = retry_after_s


class ProviderUnavailableError(ProviderError):
    """The provider cannot be reached, or is out of order for now."""

    code = "unavailable"
    text = "the provider is not available"
    retryable = True

    def __init__(self, retry_after_s: float | None = None) -> None:
        """Keep the wait in seconds, if one is known."""
        super().__init__(retry_after_s=retry_after_s)
        self.retry_after_s = retry_after_s


class ProviderDeniedError(ProviderError):
    """The provider refuses to work for us: no key, a wrong one, or nothing of that name."""

    code = "denied"
    text = "the provider refused access"


class ProviderInputError(ProviderError):
    """The provider refuses what it was given; perhaps one text is to blame."""

    code = "input_refused"
    text = "the provider refused the input"


class ProviderResponseError(ProviderError):
    """The answer as a whole is not one to what was asked."""

    code = "response_invalid"
    text = "the provider's answer is not valid"
