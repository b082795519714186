"""Policies compared on the command line: what --what-if says, and the table that answers it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column
from rich.text import Text

from deployments.desk import Desk
from deployments.options import parse_limits, parse_moment, parse_values
from deployments.tables import make_table
from flows.edge import read_clock
from storage.errors import AdmissionError
from storage.models import format_namespace
from tasks.whatif import Variant

OPTION = "--what-if"


def list_variants(  # noqa: PLR0913 - the options of the verb
    desk: Desk,
    job: str,
    asked: Sequence[str],
    *,
    sets: Sequence[str] | None,
    limits: Sequence[str] | None,
    namespace: str | None,
    now: str | None,
) -> list[Variant]:
    """List the policies to compare: one field at a time differs from what --set says."""
    at, judged = parse_moment(now, read_clock()), parse_limits(limits)
    return [
        Variant(
            field,
            value,
            desk.request(
                job,
                mode="plan",
                now=at,
                values=parse_values([*(sets or ()), text], OPTION),
                namespace=namespace,
                limits=judged,
            ),
        )
        for field, value, text in _read_choices(asked)
    ]


def _read_choices(asked: Sequence[str]) -> Iterator[tuple[str, object, str]]:
    """Yield each field with one of its values, and both as --set would be given them."""
    for pair in asked:
        field, found, texts = pair.partition("=")
        if not found or not field:
            raise AdmissionError(OPTION, "must be FIELD=VALUE,VALUE")
        for text in split_values(texts):
            value = parse_values([f"value={text}"], OPTION)["value"]
            yield field, value, f"{field}={text}"


def split_values(texts: str) -> list[str]:
    """Split values at commas, but not at those inside of a JSON value."""
    values, start = [], 0
    while True:
        end = _find_end(texts, start)
        values.append(texts[start:end])
        if end == len(texts):
            return values
        start = end + 1


def _find_end(texts: str, start: int) -> int:
    """Find the comma, or the end, after the value that begins at `start`."""
    try:
        _, end = json.JSONDecoder().raw_decode(texts, start)
    except (ValueError, RecursionError):
        end = start
    if end < len(texts) and texts[end] != ",":
        end = start
    comma = texts.find(",", end)
    return comma if comma >= 0 else len(texts)


def render_comparison(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a line for each policy: what it would find, and whether a limit would refuse it."""
    counts = [Column(name, justify="right") for name in ("found", "carried", "share")]
    spaces = {format_namespace(row["namespace"]) for row in rows}
    where = ["namespace"] if len(spaces) > 1 else []
    table = make_table("field", "value", *where, *counts, "reasons", "refused by")
    for row in rows:
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        reasons = ", ".join(f"{reason} {count}" for reason, count in row["reasons"].items())
        table.add_row(
            row["field"],
            Text(_show_value(row["value"])),
            *([format_namespace(row["namespace"])] if where else []),
            str(row["found"]),
            str(row["carried"]),
            share,
            reasons,
            row["refused_by"] or "",
            style="red" if row["refused_by"] else "",
        )
    console.print(table)
    console.print("nothing was stored or applied")


def _show_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
