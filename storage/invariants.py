"""What always holds in a store, as statements that list what breaks it; reading changes nothing."""

from dataclasses import dataclass

from storage.gateway import StoreReader
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "invariants")
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: its name, how many rows break it, and the first of their ids."""

    name: str
    broken: int
    examples: tuple[str, ...]


def check_invariants(reader: StoreReader) -> list[Check]:
    """Check every rule and give all results, in the order of the rules."""
    checks = []
    for name, statement in _SQL.items():
        rows = reader.rows(statement)
        examples = tuple(str(row[1]) for row in rows[:_EXAMPLES])
        checks.append(Check(name, len(rows), examples))
    return checks
