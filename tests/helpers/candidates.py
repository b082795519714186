"""Numbered memories for the search for candidates, and what it finds by their ids."""

from datetime import timedelta
from typing import Any

from helpers.rows import NOW

from storage.candidates import Candidates, NearPairs

Row = dict[str, Any]
Found = dict[tuple[str, str], tuple[int, int]]


def number_texts(*contents: str, kind: str = "semantic", **fields: object) -> list[Row]:
    """Make memories m0000, m0001 … in the order of their creation."""
    return [
        {
            "id": f"m{number:04}",
            "content": content,
            "kind": kind,
            "created_at": NOW - timedelta(days=9) + timedelta(seconds=number),
            **fields,
        }
        for number, content in enumerate(contents)
    ]


def as_mapping(near: NearPairs) -> Found:
    """Give near pairs by their ids: shared and all tokens."""
    assert not near.is_over_budget
    rows = near.pairs.to_pylist()
    return {(row["memory_id"], row["partner_id"]): (row["shared"], row["union"]) for row in rows}


def find_open(candidates: Candidates) -> set[tuple[str, str]]:
    """Find the pairs to look at, by the ids of their memories."""
    candidates.find_pairs()
    numbers = candidates.reader.rows("SELECT text_number, memory_id FROM members")
    names = dict(numbers)
    return {
        (names[pair.text_number], names[pair.partner_number])
        for pair in candidates.list_open_pairs()
    }


def find_copies(candidates: Candidates) -> dict[str, str]:
    """Find who is represented by whom."""
    rows = candidates.list_copies().to_pylist()
    return {row["memory_id"]: row["representative_id"] for row in rows}
