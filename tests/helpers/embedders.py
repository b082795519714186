"""An embedder whose faults a test chooses, by text or by call."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np

from tasks.providers.bounds import FailureBudget
from tasks.providers.embedder import EmbeddingIdentity, Vector

IDENTITY = EmbeddingIdentity(
    provider="fixture",
    model="refresh-v1",
    revision="fixture-r1",
    dimension=2,
    normalisation="unit",
)


class Options(TypedDict, total=False):
    """What a test may tell `embed_rows` beside who, what and the bounds."""

    suspects: Collection[str]
    budget: FailureBudget
    before_batch: Callable[[Sequence[str]], None]
    after_batch: Callable[[Sequence[str]], None]
    should_stop: Callable[[], bool]


def vector_of(text: str) -> Vector:
    """Give the vector of a text: a direction that depends on its bytes."""
    angle = sum(text.encode()) % 360 * math.pi / 180
    return np.array([math.cos(angle), math.sin(angle)], dtype=np.float32)


class ScriptedEmbedder:
    """Answers with `vector_of`, unless a text or the next call is to go wrong."""

    def __init__(
        self,
        *,
        identity: EmbeddingIdentity = IDENTITY,
        vectors: Mapping[str, Sequence[float]] | None = None,
        raising: Iterable[str] = (),
        script: Iterable[BaseException | Callable[[list[Vector]], object] | None] = (),
    ) -> None:
        """Take vectors by text, texts that raise, and what the next calls do.

        A step of the script raises its error, changes the answer, or lets the call work (None).
        """
        self.identity = identity
        self.calls: list[list[str]] = []
        self._vectors = {text: np.array(v, dtype=np.float32) for text, v in (vectors or {}).items()}
        self._raising = frozenset(raising)
        self._script = list(script)

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Embed texts; an array a text."""
        self.calls.append(list(texts))
        step = self._script.pop(0) if self._script else None
        if isinstance(step, BaseException):
            raise step
        if self._raising & set(texts):
            raise RuntimeError(f"cannot embed {texts}")
        answer = [self._vectors.get(text, vector_of(text)) for text in texts]
        return answer if step is None else step(answer)  # type: ignore[return-value]

    def embed_query(self, text: str) -> Vector:
        """Embed a query like any text."""
        return self.embed_documents([text])[0]
