"""How a provider is made of a name, and the one error that says why it cannot be."""

from collections.abc import Callable
from importlib import import_module
from typing import ClassVar

from storage.errors import MaintenanceError


class ProviderSetupError(MaintenanceError, ValueError):
    """A provider cannot be made: something is not installed, not set or not what it should be."""

    code = "provider_setup"
    role: ClassVar[str] = "provider"

    def __init__(self, name: str, reason: str) -> None:
        """Name the provider and what is wrong."""
        super().__init__(f"{self.role} {name}: {reason}", **{self.role: name}, reason=reason)


Refuse = Callable[[str], ProviderSetupError]


def call_factory(module: str, factory: str, refuse: Refuse, *, extra: str | None = None) -> object:
    """Import a module and call its factory, which takes no arguments.

    Raises:
        ProviderSetupError: Neither worked; only the class of a host's error is told.
    """
    try:
        return getattr(import_module(module), factory)()
    except ProviderSetupError:
        raise
    except ModuleNotFoundError as error:
        raise explain_missing(error, refuse, extra=extra) from None
    except Exception as error:  # noqa: BLE001 - a host's code
        raise refuse(f"{factory} of {module} raised {type(error).__name__}") from None


def explain_missing(
    error: ModuleNotFoundError, refuse: Refuse, *, extra: str | None
) -> ProviderSetupError:
    """Say which module is not installed, and what would install it."""
    hint = f"; install memtend[{extra}]" if extra else ""
    return refuse(f"the module {error.name} is not installed{hint}")
