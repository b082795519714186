"""Parse what people type after options; every error names the option."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from pydantic import ValidationError

from storage.errors import AdmissionError
from storage.instants import parse_instant
from storage.models import Namespace, parse_namespace
from tasks.importing import explain_invalid
from tasks.limits import SafetyLimits

T = TypeVar("T", bound=str)
D = TypeVar("D", datetime, None)


def parse_moment(text: str | None, default: D, option: str = "--now") -> datetime | D:
    """Read an instant; text without an offset is UTC."""
    try:
        return default if text is None else parse_instant(text)
    except ValueError as error:
        raise AdmissionError(option, str(error)) from None


def parse_selector(text: str | None) -> Namespace | None:
    """Read ``--namespace``; absent means all, an empty one is refused."""
    if text is None:
        return None
    try:
        return parse_namespace(text)
    except ValidationError as error:
        fault = explain_invalid("--namespace", error)[0]
        raise AdmissionError("--namespace", f"{fault.field} {fault.reason}") from None
    except ValueError as error:
        raise AdmissionError("--namespace", str(error)) from None


def parse_values(pairs: Sequence[str] | None, option: str = "--set") -> dict[str, object]:
    """Read ``a.b=JSON`` pairs into nested values; what is no JSON is text."""
    values: dict[str, object] = {}
    for pair in pairs or ():
        name, found, text = pair.partition("=")
        if not found or not name:
            raise AdmissionError(option, "must be FIELD=VALUE")
        *path, last = name.split(".")
        place = values
        for part in path:
            deeper = place.setdefault(part, {})
            if not isinstance(deeper, dict):
                raise AdmissionError(option, f"{part} is given twice")
            place = deeper
        place[last] = _read_value(text)
    return values


def parse_limits(pairs: Sequence[str] | None) -> SafetyLimits:
    """Read ``--limit`` pairs."""
    try:
        return SafetyLimits.model_validate(parse_values(pairs, "--limit"))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise AdmissionError(f"--limit {name}", first["msg"]) from None


def parse_choice(text: str, choices: Sequence[T], option: str) -> T:
    """Read one of a few words."""
    for choice in choices:
        if choice == text:
            return choice
    raise AdmissionError(option, f"must be one of {', '.join(choices)}")


def parse_metadata(pairs: Sequence[str] | None) -> dict[str, str]:
    """Read ``--metadata KEY=TEXT`` pairs."""
    metadata = {}
    for pair in pairs or ():
        name, found, text = pair.partition("=")
        if not found or not name:
            raise AdmissionError("--metadata", "must be KEY=TEXT")
        metadata[name] = text
    return metadata


def _read_value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
