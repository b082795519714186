"""A memory prepared for being judged: all that pairs need, computed once from its text.

Source: spec/consolidate.md 3.3-3.5.
"""

from dataclasses import dataclass

from tasks.rules.figures import find_figures
from tasks.rules.keys import figure_key, polarity_key, slot_key
from tasks.rules.lists import ARTICLES
from tasks.rules.marks import find_marks
from tasks.rules.names import Capitals, find_capitals
from tasks.rules.normal_form import normal_form
from tasks.rules.polarity import Side, count_negations, find_qualifiers, find_sides
from tasks.rules.tokens import find_tokens, list_units, split_runs


@dataclass(frozen=True, slots=True)
class Prepared:
    """What guards and conflict classes compare of one memory.

    `units` are without articles and in order; figures, marks, sides and qualifiers are sorted, so
    that equal ones are equal multisets. Keys are None where the memory has none.
    """

    namespace_id: int
    kind: str
    content: str
    fingerprint: str
    tokens: frozenset[str]
    units: tuple[str, ...]
    figures: tuple[str, ...]
    marks: tuple[str, ...]
    negations: int
    sides: tuple[Side, ...]
    qualifiers: tuple[str, ...]
    capitals: Capitals
    polarity_key: str | None
    figure_key: str | None
    slot_key: str | None
    declared_slot: str | None


def prepare(
    content: str, *, kind: str, namespace_id: int, declared_slot: str | None = None
) -> Prepared:
    """Prepare a memory, or a text of its lineage, for being judged.

    Args:
        content: The stored text.
        kind: The memory's kind.
        namespace_id: Whose memory it is; pairs of two namespaces are never alike.
        declared_slot: The value of its metadata key `slot`; a blank one declares nothing.
    """
    runs = split_runs(normal_form(content))
    units = tuple(unit for unit in list_units(runs) if unit not in ARTICLES)
    return Prepared(
        namespace_id=namespace_id,
        kind=kind,
        content=content,
        fingerprint=" ".join(runs),
        tokens=find_tokens(runs),
        units=units,
        figures=tuple(sorted(find_figures(content))),
        marks=tuple(sorted(find_marks(content).elements())),
        negations=count_negations(content),
        sides=tuple(find_sides(content)),
        qualifiers=tuple(find_qualifiers(content)),
        capitals=find_capitals(content),
        polarity_key=polarity_key(content),
        figure_key=figure_key(units),
        slot_key=slot_key(units),
        declared_slot=declared_slot if declared_slot and declared_slot.strip() else None,
    )
