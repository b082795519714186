"""The account of a consolidation: every loser that was found ends in exactly one counter.

Source: spec/consolidate.md R58.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the losers that a run found; `skipped` is by reason."""

    found: int
    planned: int
    is_dry_run: bool
    merged: int = 0
    already_applied: int = 0
    failed: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_balanced(self) -> bool:
        """Whether nothing is missing or counted twice; a dry run merges nothing."""
        skipped = sum(self.skipped.values())
        if self.is_dry_run:
            return self.merged == 0 and self.found == self.planned + skipped
        return self.found == self.merged + skipped + self.already_applied + self.failed
