"""The refiners by name; there is none by default.

`load_refiner` imports a refiner only when it is asked for. Names: `openai`, or `module:factory` for
a host's own.
"""

from collections.abc import Mapping
from functools import partial
from typing import cast

from tasks.providers.refiner import Refiner, RefinerIdentity
from tasks.providers.setup import ProviderSetupError, call_factory, explain_missing


class RefinerSetupError(ProviderSetupError):
    """A refiner cannot be made: something is not installed, not set or not what it should be."""

    code = "refiner_setup"
    role = "refiner"


def load_refiner(
    name: str, environ: Mapping[str, str], *, request_timeout_s: float = 60.0
) -> Refiner:
    """Make the refiner of a name.

    Args:
        name: `openai`, or `module:factory`; the factory takes no arguments.
        environ: Where `openai` finds its address, model and key; the caller's environment.
        request_timeout_s: How long `openai` waits for an answer.

    Raises:
        RefinerSetupError: The name is unknown, or something is missing or wrong.
    """
    if name == "openai":
        return _load_openai(environ, request_timeout_s)
    module, colon, factory = name.partition(":")
    if not (module and colon and factory):
        reason = "unknown; there is openai, and module:factory for your own"
        raise RefinerSetupError(repr(name), reason)
    return _check_refiner(name, call_factory(module, factory, partial(RefinerSetupError, name)))


def _load_openai(environ: Mapping[str, str], request_timeout_s: float) -> Refiner:
    try:
        from tasks.providers.openai_refiner import (  # noqa: PLC0415 - an extra
            OpenaiRefiner,
            OpenaiSettings,
        )
    except ModuleNotFoundError as error:
        raise explain_missing(error, partial(RefinerSetupError, "openai"), extra="http") from None
    return OpenaiRefiner(OpenaiSettings.from_env(environ, timeout_s=request_timeout_s))


def _check_refiner(name: str, made: object) -> Refiner:
    """Refuse what a host's factory made if it is no refiner."""
    if not isinstance(getattr(made, "identity", None), RefinerIdentity):
        raise RefinerSetupError(name, "it has no identity of the class RefinerIdentity")
    if not callable(getattr(made, "refine", None)):
        raise RefinerSetupError(name, "it has no method refine")
    return cast("Refiner", made)
