"""Change a namespace by random sets and record uses and admissions until killed, telling all.

Says "ready", waits for the end of stdin. Then two lines a step, each JSON: before it [kind, what is
sent], kind being set, use or admission; after it the answer: {"sequence", "memories"} of a set,
{} of an event, {"refused": code} of either.
Arguments: the store's directory and a name, which seeds the chance and begins every key.
"""

import json
import sys
from collections.abc import Iterable
from itertools import count
from random import Random
from typing import Any

from helpers.moves import draw_set
from helpers.sets import SPACE, at

from storage import open_store
from storage.access import parse_event, record_event
from storage.errors import MaintenanceError
from storage.models import MemoryRecord, Status
from storage.namespaces import find_namespace, read_sequence
from storage.query import query_memories
from storage.records import read_records
from storage.repository import apply_change_set

MOST_APART = 4
MOST_IN_SESSION = 4
# Half of the steps are about the memories that changed last, so that processes meet there.
NEWEST = 6
store, name = open_store(sys.argv[1]), sys.argv[2]
chance, numbers = Random(name), count(1)  # noqa: S311 - a seed
NEWEST_FIRST = {"namespace": SPACE, "statuses": list(Status), "limit": 50}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def read_all() -> tuple[list[MemoryRecord], int]:
    """Give the memories, newest change first, and a minute that none of them lies after."""
    with store.read() as reader:
        owner = find_namespace(reader, SPACE)
        assert owner is not None
        ids = [hit.memory_id for hit in query_memories(reader, NEWEST_FIRST)]
        records = read_records(reader, owner.namespace_id, ids)
        newest = [records[memory_id] for memory_id in ids]
        return newest, read_sequence(reader, owner.namespace_id) + 1


def draw_step(records: list[MemoryRecord], minute: int) -> tuple[str, dict[str, Any]]:
    kind, key = chance.choice(("set", "set", "set", "use", "admission")), f"{name}-{next(numbers)}"
    if kind == "set":
        meeting = records[: chance.choice((NEWEST, len(records)))]
        return kind, draw_set(chance, key, meeting, minute=minute)
    record = chance.choice([one for one in records if one.status == "active"] or records)
    seen = {"memory_id": record.id, "revision": record.revision, "occurred_at": at(minute)}
    return kind, {"id": key, "namespace": SPACE.model_dump(), "actor": name, **seen}


def send(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    try:
        if kind == "set":
            result = apply_change_set(store, values)
            memories = [[one.memory_id, one.revision] for one in result.memories]
            return {"sequence": result.sequence, "memories": memories}
        with store.write() as writer:
            record_event(writer, "use" if kind == "use" else "admission", parse_event(values))
    except MaintenanceError as error:
        return {"refused": error.code}
    return {}


def tell(steps: Iterable[int]) -> None:
    for _ in steps:
        kind, values = draw_step(*read_all())
        say(json.dumps([kind, values]))
        say(json.dumps(send(kind, values)))


say("ready")
sys.stdin.read()
while True:
    tell(range(chance.randint(1, MOST_APART)))
    with store.session():
        tell(range(chance.randint(1, MOST_IN_SESSION)))
