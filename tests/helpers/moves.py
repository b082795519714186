"""Random change sets that fit what a namespace holds: every operation, and several in a set."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from helpers.sets import change, change_set, create, edge, evidence

from storage.models import MAX_EVIDENCE, MemoryRecord, Relation, RelationKind, Status

_WORDS = ("rust", "port", "beta", "deploy", "canary", "harbor", "quartz", "ledger", "数据库", "表")
_LIVE = (Status.CANDIDATE, Status.ACTIVE, Status.CONFLICTED)
Operations = list[dict[str, Any]]


@dataclass(slots=True)
class _Draw:
    """One set in the making; `free` are the memories that no operation of it touches yet."""

    chance: Random
    key: str
    minute: int
    free: list[MemoryRecord]
    numbers: Iterator[int]

    def take(self, statuses: Collection[Status], size: int) -> list[MemoryRecord]:
        """Take so many free memories with these statuses and room for evidence, or none."""
        fitting = [
            record
            for record in self.free
            if record.status in statuses and len(record.evidence) < MAX_EVIDENCE
        ]
        taken = fitting[:size] if len(fitting) >= size else []
        names = {record.id for record in taken}
        self.free = [record for record in self.free if record.id not in names]
        return taken

    def say(self) -> str:
        return " ".join(self.chance.choices(_WORDS, k=self.chance.randint(1, 5)))

    def prove(self) -> list[dict[str, Any]]:
        return [evidence(f"e://{self.key}/{next(self.numbers)}", self.minute)]


def draw_set(
    chance: Random, key: str, records: Collection[MemoryRecord], *, minute: int
) -> dict[str, Any]:
    """Draw a change set of one to three moves on different memories, none later than `minute`."""
    draw = _Draw(chance, key, minute, chance.sample(list(records), len(records)), count(1))
    operations: Operations = []
    for _ in range(chance.randint(1, 3)):
        move, statuses, size = chance.choice(_MOVES)
        taken = draw.take(statuses, size)
        if len(taken) == size:
            operations += move(draw, *taken)
    return change_set(key, minute, *(operations or _create(draw)))


def _create(draw: _Draw) -> Operations:
    status = draw.chance.choice(("candidate", "active"))
    return [create(f"{draw.key}-{next(draw.numbers)}", draw.say(), status=status)]


def _create_two(draw: _Draw) -> Operations:
    both = _create(draw) + _create(draw)
    for made, target in (both, both[::-1]):
        made["memory"]["relations"] = [edge("related_to", target["memory"]["id"])["relation"]]
    return both


def _activate(draw: _Draw, one: MemoryRecord) -> Operations:
    return [change("activate", one.id, one.revision, evidence=draw.prove())]


def _corroborate(draw: _Draw, one: MemoryRecord) -> Operations:
    return [change("corroborate", one.id, one.revision, evidence=draw.prove())]


def _revise(draw: _Draw, one: MemoryRecord) -> Operations:
    said = {"content": draw.say(), "mode": "refinement", "evidence": draw.prove()}
    return [change("revise", one.id, one.revision, **said)]


def _annotate(draw: _Draw, one: MemoryRecord) -> Operations:
    """Annotate twice: the second operation expects what the first one makes."""
    return [
        change("annotate", one.id, one.revision, tags=[draw.key], metadata={"by": draw.key}),
        change("annotate", one.id, one.revision + 1, pinned=not one.pinned),
    ]


def _bury(_draw: _Draw, one: MemoryRecord) -> Operations:
    return [change("set_status", one.id, one.revision, status="tombstoned")]


def _restore(_draw: _Draw, one: MemoryRecord) -> Operations:
    return [change("restore", one.id, one.revision)]


def _relate(_draw: _Draw, one: MemoryRecord, other: MemoryRecord) -> Operations:
    """Relate two memories, or end that they are related."""
    held = Relation(kind=RelationKind.RELATED_TO, target_id=other.id) in one.relations
    return _join(one, other, "related_to", op="remove_relation" if held else "add_relation")


def _supersede(_draw: _Draw, one: MemoryRecord, other: MemoryRecord) -> Operations:
    retired = change("set_status", one.id, one.revision + 1, status="superseded")
    return [*_join(one, other, "superseded_by"), retired]


def _conflict(_draw: _Draw, one: MemoryRecord, other: MemoryRecord) -> Operations:
    marked = [
        change("set_status", end.id, end.revision + 1, status="conflicted") for end in (one, other)
    ]
    return [*_join(one, other, "conflicts_with"), *marked]


def _join(
    one: MemoryRecord, other: MemoryRecord, kind: str, op: str = "add_relation"
) -> Operations:
    inverse = RelationKind(kind).inverse.value
    return [
        change(op, one.id, one.revision, **edge(kind, other.id)),
        change(op, other.id, other.revision, **edge(inverse, one.id)),
    ]


# Each move with the statuses and the number of the memories that it takes.
_MOVES: tuple[tuple[Callable[..., Operations], tuple[Status, ...], int], ...] = (
    (_create, (), 0),
    (_create_two, (), 0),
    (_activate, (Status.CANDIDATE,), 1),
    (_corroborate, _LIVE, 1),
    (_revise, _LIVE, 1),
    (_annotate, _LIVE, 1),
    (_bury, (*_LIVE, Status.SUPERSEDED), 1),
    (_restore, (Status.TOMBSTONED,), 1),
    (_relate, _LIVE, 2),
    (_supersede, (Status.ACTIVE,), 2),
    (_conflict, (Status.ACTIVE,), 2),
)
