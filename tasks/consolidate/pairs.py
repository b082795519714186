"""A pair of memories, and what was found about it."""

from typing import NamedTuple

PASSING = frozenset({"exact", "near", "semantic"})


class JudgedPair(NamedTuple):
    """A pair, the older memory first, and what was found about it.

    `shared` and `union_size` count tokens; `cosine` is known of pairs that vectors show.
    """

    memory_id: str
    partner_id: str
    result: str
    reasons: tuple[str, ...]
    conflict_class: str | None
    shared: int
    union_size: int
    cosine: float | None = None

    @property
    def ids(self) -> tuple[str, str]:
        """Both memories."""
        return self.memory_id, self.partner_id

    def refuse(self, reason: str) -> "JudgedPair":
        """Give a passing pair as one that is listed, and not merged."""
        return self._replace(result="similar", reasons=(*self.reasons, reason))
