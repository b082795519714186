"""How pairs of memories look on a terminal: contradictions, groups and near misses of a plan."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from deployments.tables import make_table


def render_pairs(console: Console, pairs: Sequence[Mapping[str, Any]], *, shown: int) -> None:
    """Print what a plan reports beside its decisions, if there is anything."""
    if not pairs:
        return
    table = make_table("found", "memory", "other", "why")
    for pair in pairs[:shown]:
        table.add_row(
            pair["result"], Text(pair["id"]), Text(pair["partner_id"] or ""), Text(_explain(pair))
        )
    console.print(table)
    if len(pairs) > shown:
        console.print(f"… and {len(pairs) - shown} more (--rows 0)")


def _explain(pair: Mapping[str, Any]) -> str:
    """Say in one line why a pair, or a group, is reported."""
    figures = pair["figures"]
    said = [figures.get("conflict_class"), *pair["reasons"]]
    if figures.get("union"):
        said.append(f"{figures['shared']} of {figures['union']} tokens")
    if "cosine" in figures:
        said.append(f"cosine {figures['cosine']:.3f}")
    if "new_id" in figures:
        said.append(f"{figures['new_id']} is newer than {figures['old_id']}")
    if "superseded_by" in figures:
        said.append(f"superseded by {figures['superseded_by']}")
    if "texts" in figures and pair["result"] == "series":
        said.append(f"{figures['texts']} texts that differ in {figures['key']}")
    if "partners" in figures:
        said.append(f"{figures['partners']} partners: too many")
    return ", ".join(word for word in said if word)
