"""Whose the tables of a vector directory are: of this history, an older one, or foreign.

A table's name says its history and how often the tables of that were given up. Source:
spec/refresh.md R2, R33, R66; DESIGN 10.21.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from storage.gateway import StoreReader
from storage.history import list_past, read_history_of_store

_NAME = re.compile(r"mv_([0-9a-f]{16})_d[0-9]+(?:_r([0-9]+))?")


@dataclass(frozen=True, slots=True)
class SortedTables:
    """Tables by what can be done with them; `own` may hold given-up ones, too.

    `own` are of the current history. `left` were given up, by a rebuild or with an older history
    that ended before the grace. Others are foreign: nothing of them is ever touched.
    """

    own: list[str]
    left: list[str]
    foreign: list[str]


def sort_tables(
    reader: StoreReader, store_path: Path, tables: list[str], *, before: datetime
) -> SortedTables:
    """Sort the tables of a store's vector directory.

    Args:
        reader: An open handle of the store.
        store_path: Its directory, whose database file may be a copy that nobody has settled yet.
        tables: The names that are in its vector directory.
        before: Now less the grace.
    """
    history = read_history_of_store(reader, store_path)
    current = _short(history.digest) if history.is_current else None
    past = {_short(digest) for digest, ended_at in list_past(reader) if ended_at <= before}
    found = SortedTables([], [], [])
    for name in tables:
        match = _NAME.fullmatch(name)
        digest, rebuild = match.groups() if match else ("", None)
        if digest == current:
            found.own.append(name)
            if int(rebuild or 0) < history.rebuilds:
                found.left.append(name)
        elif digest in past:
            found.left.append(name)
        else:
            found.foreign.append(name)
    return found


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:16]
