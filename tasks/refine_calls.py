"""Asks a refiner about clusters within the calls and tokens of one run; knows no store.

Every call counts, retries included, and nothing that a provider said is in what is told of it.
Source: spec/consolidate.md R92, R93.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from tasks.providers.bounds import ExecutionBounds
from tasks.providers.checks import RowFailure
from tasks.providers.embedder import (
    ProviderDeniedError,
    ProviderError,
    ProviderInputError,
    ProviderRateLimitedError,
    ProviderResponseError,
    ProviderUnavailableError,
)
from tasks.providers.refiner import Refiner, RefineRequest, RefineResponse
from tasks.rules.refined import RefinedText, RefineFault, judge_output

Stop = Literal["done", "budget"]
# The same request would be refused again.
_FINAL = (ProviderDeniedError, ProviderInputError)
# Nothing was written, so nothing is to be paid.
_UNPAID = (*_FINAL, ProviderRateLimitedError, ProviderUnavailableError)
_WAITS = ExecutionBounds()


class RefineLimits(BaseModel):
    """How often a refiner may be asked in one run, and how much it may read and write."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: int = Field(default=3, ge=1, le=10, description="Calls for one cluster")
    max_calls: int = Field(default=12, ge=0, description="Calls of a run, retries included")
    max_tokens: int = Field(
        default=200_000, ge=0, description="Tokens of a run; no call is begun once they are used"
    )


class RefineFailure(NamedTuple):
    """Why a call gave nothing; after how long another one may help, None if none would."""

    code: str
    wait_s: float | None = 0.0


@dataclass(slots=True)
class RefinerCalls:
    """The calls of one run: what they may come to, and what they came to so far."""

    refiner: Refiner
    limits: RefineLimits
    before_call: Callable[[], None]
    sleep: Callable[[float], None]
    calls: int = 0
    tokens: int = 0
    stop: Stop = "done"

    def ask(self, request: RefineRequest) -> RefinedText | RefineFailure | None:
        """Ask until an answer is valid; else give the last failure, None without any call."""
        failure: RefineFailure | None = None
        for attempt in range(self.limits.attempts):
            if self._is_used_up():
                self.stop = "budget"
                break
            if failure is not None and failure.wait_s:
                self.sleep(failure.wait_s)
            answer = self._ask_once(request, attempt)
            if isinstance(answer, RefinedText):
                return answer
            failure = answer
            if failure.wait_s is None:
                break
        return failure

    def _is_used_up(self) -> bool:
        return self.calls >= self.limits.max_calls or self.tokens >= self.limits.max_tokens

    def _ask_once(self, request: RefineRequest, attempt: int) -> RefinedText | RefineFailure:
        self.before_call()
        self.calls += 1
        try:
            response = self.refiner.refine(request)
        except Exception as error:  # noqa: BLE001 - a host's refiner may raise anything
            return self._explain(error, request, attempt)
        if not isinstance(response, RefineResponse):
            self._count_tokens(request, None)
            return RefineFailure(ProviderResponseError.code)
        self._count_tokens(request, response.tokens)
        judged = judge_output(response.output, request.texts)
        return RefineFailure(judged.value) if isinstance(judged, RefineFault) else judged

    def _explain(self, error: Exception, request: RefineRequest, attempt: int) -> RefineFailure:
        if not isinstance(error, _UNPAID):
            self._count_tokens(request, None)
        if isinstance(error, _FINAL):
            return RefineFailure(error.code, None)
        wait_s = _WAITS.choose_delay_s(attempt, getattr(error, "retry_after_s", None))
        if isinstance(error, ProviderError):
            return RefineFailure(error.code, wait_s)
        return RefineFailure(RowFailure.PROVIDER_EXCEPTION.value, wait_s)

    def _count_tokens(self, request: RefineRequest, used: int | None) -> None:
        """Count what a call used; unless that is known, the most that its texts can be: bytes."""
        if used is None:
            used = 2 * sum(len(text.encode()) for text in request.texts.values())
        self.tokens += used
