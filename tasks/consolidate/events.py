"""Which of two contradicting memories may replace the other; a person verifies it.

Source: spec/consolidate.md R83.
"""

from collections.abc import Iterable

from storage import StoreReader
from storage.records import read_records
from tasks.consolidate.pairs import JudgedPair
from tasks.rules.conflicts import ConflictClass
from tasks.rules.supersession import Proposal, gather_event_facts, propose_replacement

# So many contradictions are looked at: a report of more is not read.
_MOST = 1_000


def propose_replacements(
    reader: StoreReader, namespace_id: int, pairs: Iterable[JudgedPair]
) -> dict[tuple[str, str], Proposal]:
    """Propose replacements for the first contradictions, by the event times of their memories."""
    conflicts = [pair for pair in pairs if pair.conflict_class is not None][:_MOST]
    records = read_records(reader, namespace_id, {name for pair in conflicts for name in pair.ids})
    facts = {name: gather_event_facts(record) for name, record in records.items()}
    found = {}
    for pair in conflicts:
        proposal = propose_replacement(
            facts[pair.memory_id], facts[pair.partner_id], ConflictClass(str(pair.conflict_class))
        )
        if proposal is not None:
            found[pair.ids] = proposal
    return found
