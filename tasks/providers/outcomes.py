"""How a round of the embedding executor ends: with an outcome a row, or failed as a whole.

* EmbeddingRoundError
  - EmbeddingFailedError
  - EmbeddingUnavailableError
  - EmbeddingRefusedError
  - ProviderResponseInvalidError
  - RowFailuresOverBudgetError
  - EmbeddingCancelledError
"""

from dataclasses import dataclass
from typing import NamedTuple

from storage.errors import MaintenanceError
from tasks.providers.checks import RowFailure
from tasks.providers.embedder import Vector


@dataclass(slots=True)
class EmbeddingCounters:
    """What a round did; true for failed rounds too (spec/refresh.md R70)."""

    embed_inputs: int = 0
    embed_input_bytes: int = 0
    provider_requests: int = 0
    provider_inputs: int = 0
    provider_input_bytes: int = 0
    rows_failed: int = 0


class EmbeddingResult(NamedTuple):
    """The outcome of every row: its vector of length one, or why it has none."""

    vectors: dict[str, Vector]
    failures: dict[str, RowFailure]
    counters: EmbeddingCounters


class EmbeddingRoundError(MaintenanceError):
    """A round failed as a whole; no vector of it may be used.

    The text is fixed (spec/refresh.md 3.3), `counters` says what had been done.
    """

    code = "embedding_failed"
    text = "embedding did not succeed"

    def __init__(self, counters: EmbeddingCounters) -> None:
        """Keep the counters."""
        super().__init__(self.text)
        self.counters = counters


class EmbeddingFailedError(EmbeddingRoundError):
    """A row failed, and the first one is to fail the run."""


class EmbeddingUnavailableError(EmbeddingRoundError):
    """The provider did not answer in any of the tries."""

    code = "embedding_unavailable"
    retryable = True


class EmbeddingRefusedError(EmbeddingRoundError):
    """The provider refused access; trying again would not help."""

    code = "embedding_refused"


class ProviderResponseInvalidError(EmbeddingRoundError):
    """An answer as a whole was wrong; no single row is to blame."""

    code = "provider_response_invalid"
    text = "embedding answer was not valid"


class RowFailuresOverBudgetError(EmbeddingRoundError):
    """More rows failed than the budget allows."""

    code = "row_failures_over_budget"
    text = "too many rows failed"


class EmbeddingCancelledError(EmbeddingRoundError):
    """The caller asked to stop."""

    code = "cancelled"
    text = "run was cancelled"
