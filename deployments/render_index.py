"""How the vector index looks on a terminal: what a refresh would do, and how far it is."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from deployments.tables import make_table
from storage.instants import format_instant
from storage.models import format_namespace


def render_previews(console: Console, previews: Sequence[Mapping[str, Any]], *, shown: int) -> None:
    """Print what a job without a plan would do."""
    for one in previews:
        console.print(Text(one["job"], style="bold"))
        where = format_namespace(one["namespace"])
        console.print(f"namespace {where}, now {format_instant(one['now'])}")
        reasons = ", ".join(f"{reason} {count}" for reason, count in one["reasons"].items())
        console.print(f"found {one['found']}" + (f": {reasons}" if reasons else ""))
        changes = [row for row in one["decisions"] if row["reason"] != "reuse"]
        if not changes:
            continue
        table = make_table("id", "reason", "rev")
        for row in changes[:shown]:
            table.add_row(Text(row["id"]), row["reason"], str(row.get("expected_revision", "")))
        console.print(table)
        if len(changes) > shown:
            console.print(f"… and {len(changes) - shown} more (--rows 0)")
        if one["job"] == "refresh":  # others take a selector, which is typed once more
            console.print("do it: memtend run refresh")
