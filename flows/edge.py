"""The clock, random ids and settings of this process; nothing below this layer has its own."""

import os
import uuid
from datetime import UTC, datetime
from functools import partial

from pydantic import ValidationError

from storage.errors import AdmissionError
from storage.settings import Settings
from tasks.providers.refiner import RefinerChoice
from tasks.providers.refiners import load_refiner
from tasks.providers.registry import load_embedder
from tasks.requests import EmbedderChoice


def read_clock() -> datetime:
    """Read wall time."""
    return datetime.now(UTC)


def read_settings() -> Settings:
    """Read the settings of this process.

    Raises:
        AdmissionError: Names the variable that is wrong, and not its value.
    """
    try:
        return Settings.from_env(os.environ)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = f"MEMTEND_{first['loc'][0]}".upper()
        raise AdmissionError(name, first["msg"]) from None


def new_run_id() -> str:
    """Make a fresh id for a run."""
    return f"run_{uuid.uuid4().hex[:12]}"


def choose_embedder(name: str) -> EmbedderChoice:
    """Choose an embedder by name; what it needs of the environment is read when it is loaded."""
    return EmbedderChoice(name, partial(load_embedder, name, os.environ))


def choose_refiner(name: str | None) -> RefinerChoice | None:
    """Choose a refiner by name, if there is one; the environment is read when it is loaded."""
    return None if name is None else RefinerChoice(name, partial(load_refiner, name, os.environ))


def new_event_id() -> str:
    """Make a fresh id for an access event."""
    return f"use_{uuid.uuid4().hex}"
