"""A fleet: the stores that are maintained together, as a file lists them.

One entry is one store, or one namespace of it; none is listed twice, so none is maintained twice.
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from storage.errors import AdmissionError
from storage.models import Namespace, format_namespace, parse_namespace
from tasks.maintaining import Step, run_maintain
from tasks.requests import JobRequest


class FleetStore(BaseModel):
    """One store of a fleet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path = Field(description="The store's directory; relative: to the file of the fleet")
    namespace: Namespace | None = Field(default=None, description="The only one; absent: all")

    @field_validator("path")
    @classmethod
    def _is_named(cls, path: Path) -> Path:
        if path == Path():
            message = "must name a directory"
            raise ValueError(message)
        return path

    @field_validator("namespace", mode="before")
    @classmethod
    def _parse(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        try:
            return parse_namespace(given)
        except ValueError:  # its own text would quote what was given
            message = "must be tenant/principal/scope"
            raise ValueError(message) from None

    def describe(self) -> str:
        """Name the store, and the namespace if there is one."""
        where = "" if self.namespace is None else f" {format_namespace(self.namespace)}"
        return f"{self.path}{where}"


class Fleet(BaseModel):
    """The content of a fleet's file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stores: tuple[FleetStore, ...] = Field(min_length=1, max_length=10_000)


@dataclass(frozen=True, slots=True)
class Maintained:
    """What became of one store of a fleet."""

    store: FleetStore
    steps: Sequence[Step]


def read_fleet(file: Path) -> Fleet:
    """Read and check a fleet's file.

    Raises:
        AdmissionError: It cannot be read, or something in it is wrong: the line or the field.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
        fleet = Fleet.model_validate(values)
    except OSError as error:
        raise AdmissionError("fleet", f"{file}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise AdmissionError(f"fleet.{_name(first['loc'])}", first["msg"]) from None
    except ValueError as error:  # no TOML, with the line; or no UTF-8
        raise AdmissionError("fleet", f"{file}: {error}") from None
    folder = file.absolute().parent
    stores = tuple(
        one.model_copy(update={"path": (folder / one.path).resolve()}) for one in fleet.stores
    )
    _check_distinct(stores)
    return Fleet(stores=stores)


def run_fleet(
    fleet: Fleet,
    request: JobRequest,
    run: Callable[[JobRequest], list[Step]] = run_maintain,
) -> list[Maintained]:
    """Maintain the stores one after the other in this process; none stops the next one."""
    return [
        Maintained(one, run(replace(request, store=one.path, namespace=one.namespace)))
        for one in fleet.stores
    ]


def _name(place: Sequence[int | str]) -> str:
    """Name a field as people count: stores[1] is the first one."""
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place]
    return "".join(parts).removeprefix(".")


def _check_distinct(stores: Sequence[FleetStore]) -> None:
    known: dict[Path, list[Namespace | None]] = {}
    for number, one in enumerate(stores, start=1):
        others = known.setdefault(one.path, [])
        if others and (None in others or one.namespace is None or one.namespace in others):
            raise AdmissionError(f"fleet.stores[{number}].path", "is listed already")
        others.append(one.namespace)
