"""What every format reader yields: values to validate, or the reason why there are none."""

from dataclasses import dataclass, field
from typing import Any

from storage.admission import Reject

MAX_TEXT_FIELD = 128  # longest field name that a report quotes


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a file: where it stands, its values, and what was refused while reading it.

    `ledger` is what a store knew of the memory beside its record, as it stands in the file.
    """

    ref: str | int
    values: dict[str, Any] | None
    rejects: tuple[Reject, ...] = field(default=())
    ledger: object = None


def refuse(ref: str | int, name: str, reason: str) -> Entry:
    """Yield a record that could not be read at all."""
    return Entry(ref, None, (Reject(ref, name[:MAX_TEXT_FIELD], reason),))
