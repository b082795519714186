"""The embedders by name, and what was measured about each.

`load_embedder` imports an embedder only when it is asked for. Names: `use` (default), `wordllama`,
`e5`, `http`, `hash`, or `module:factory` for a host's own.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, cast

from tasks.providers.embedder import Embedder, EmbeddingIdentity
from tasks.providers.setup import call_factory, explain_missing
from tasks.providers.weights import EmbedderSetupError

DEFAULT_EMBEDDER = "use"


class RecallDefaults(NamedTuple):
    """How many candidates to fetch, and the cosine from which one counts."""

    candidate_limit: int
    min_score: float


class EmbedderTraits(NamedTuple):
    """What is known about an embedder without loading it."""

    recall: RecallDefaults
    # Native code, or code that is not ours: one text may end the process (spec/refresh.md R52).
    may_crash: bool = False
    extra: str | None = None


# The lowest score that keeps most questions that have an answer and drops most that have none.
# Measured on the public evaluation sets and on 60 titles against their own and other texts, cosine
# own (10 %, median) / other (median, 95 %): use .24 .48 / .12 .28, wordllama .32 .53 / .13 .29,
# e5 .87 .91 / .81 .85, hash .25 .46 / .10 .27. Questions in another language than the answer lie
# lower: .22 and more with use, unanswerable ones at most .19.
TRAITS: Mapping[str, EmbedderTraits] = MappingProxyType(
    {
        "use": EmbedderTraits(RecallDefaults(32, 0.20)),
        "wordllama": EmbedderTraits(RecallDefaults(32, 0.25), extra="fast"),
        "e5": EmbedderTraits(RecallDefaults(32, 0.82), may_crash=True, extra="quality"),
        # Nothing is known about the model: the order counts, not the score.
        "http": EmbedderTraits(RecallDefaults(32, 0.0), extra="http"),
        "hash": EmbedderTraits(RecallDefaults(32, 0.20)),
    }
)
_HOST_TRAITS = EmbedderTraits(RecallDefaults(32, 0.0), may_crash=True)
_FACTORIES = {
    "use": ("tasks.providers.use", "UseEmbedder"),
    "wordllama": ("tasks.providers.wordllama", "WordLlamaEmbedder"),
    "e5": ("tasks.providers.e5", "E5Embedder"),
    "hash": ("tasks.providers.hashing", "HashingEmbedder"),
}


def find_traits(name: str) -> EmbedderTraits:
    """Find what is known about an embedder; a host's own gets careful defaults."""
    return TRAITS.get(name, _HOST_TRAITS)


def load_embedder(
    name: str = DEFAULT_EMBEDDER,
    environ: Mapping[str, str] | None = None,
    *,
    request_timeout_s: float = 30.0,
) -> Embedder:
    """Make the embedder of a name.

    Args:
        name: A built-in name, or `module:factory`; the factory takes no arguments.
        environ: Where `http` finds its address, model and key; the caller's environment.
        request_timeout_s: How long `http` waits for an answer.

    Raises:
        EmbedderSetupError: The name is unknown, or something is missing or wrong.
    """
    if name == "http":
        return _load_http(environ or {}, request_timeout_s)
    if name in _FACTORIES:
        return _make(name, *_FACTORIES[name])
    module, colon, factory = name.partition(":")
    if not (module and colon and factory):
        known = ", ".join(TRAITS)
        reason = f"unknown; there are {known}, and module:factory for your own"
        raise EmbedderSetupError(repr(name), reason)
    return _check_embedder(name, _make(name, module, factory))


def _load_http(environ: Mapping[str, str], request_timeout_s: float) -> Embedder:
    try:
        from tasks.providers.http import HttpEmbedder, HttpSettings  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        refuse = partial(EmbedderSetupError, "http")
        raise explain_missing(error, refuse, extra=find_traits("http").extra) from None
    return HttpEmbedder(HttpSettings.from_env(environ, timeout_s=request_timeout_s))


def _make(name: str, module: str, factory: str) -> Embedder:
    refuse = partial(EmbedderSetupError, name)
    return cast("Embedder", call_factory(module, factory, refuse, extra=find_traits(name).extra))


def _check_embedder(name: str, made: Embedder) -> Embedder:
    """Refuse what a host's factory made if it is no embedder."""
    if not isinstance(getattr(made, "identity", None), EmbeddingIdentity):
        raise EmbedderSetupError(name, "it has no identity of the class EmbeddingIdentity")
    missing = [
        method
        for method in ("embed_documents", "embed_query")
        if not callable(getattr(made, method, None))
    ]
    if missing:
        raise EmbedderSetupError(name, f"it has no method {missing[0]}")
    return made
