"""Supersessions in tests: requests in namespace t/p/s, and what can be seen after them."""

from datetime import timedelta
from typing import Any

from helpers.sets import SPACE, START, change, change_set, create, edge, evidence

from storage import Store
from storage.duplicate_texts import index_missing_tokens
from storage.memories import list_live
from storage.models import Evidence, MemoryRecord
from storage.namespaces import ensure_namespace
from storage.repository import apply_change_set, read_state
from tasks.duplicate_texts import PROFILE, tokenise_text
from tasks.stale_siblings import StaleSibling, find_stale_siblings
from tasks.supersession import Outdated, Replacement, SupersessionRequest

Json = dict[str, Any]
WHEN = START + timedelta(minutes=9)
LATER = START + timedelta(days=1)


def decided(kind: str = "verification", uri: str = "proof://1") -> tuple[Evidence, ...]:
    """Give one evidence of a kind, by default a decision."""
    return (Evidence.model_validate(evidence(uri, 9, kind)),)


def draft(content: str = "new fact") -> Json:
    """Give what a new memory will be, with an evidence of its own."""
    return {"kind": "semantic", "content": content, "evidence": [evidence("turn://n", 9)]}


def ask(
    old: str | tuple[Outdated, ...] = "o",
    revision: int = 1,
    *,
    new: Replacement | None = None,
    **said: Any,  # noqa: ANN401
) -> SupersessionRequest:
    """Ask for a supersession of memories by a new one, unless another replacement is given."""
    request = {
        "namespace": SPACE,
        "old": (Outdated(old, revision),) if isinstance(old, str) else old,
        "new": new or Replacement("n", draft=draft()),
        "evidence": decided(),
        "occurred_at": WHEN,
    }
    return SupersessionRequest(**{**request, **said})


def read(store: Store, memory_id: str) -> MemoryRecord | None:
    """Read a memory."""
    with store.read() as reader:
        return read_state(reader, SPACE, memory_id)


def reach(store: Store, memory_id: str) -> MemoryRecord:
    """Read a memory that must be there."""
    found = read(store, memory_id)
    assert found is not None
    return found


def add(store: Store, *memories: tuple[str, str], **fields: Any) -> None:  # noqa: ANN401
    """Add active memories: ids and texts."""
    made = (create(name, text, **fields) for name, text in memories)
    apply_change_set(store, change_set(f"add-{memories[0][0]}", 0, *made))


def annotate(store: Store, memory_id: str, revision: int, *, minute: int = 1) -> None:
    """Move a memory to its next revision."""
    step = change("annotate", memory_id, revision, importance=0.1 + revision / 100)
    apply_change_set(store, change_set(f"note-{memory_id}-{revision}", minute, step))


def supersede(store: Store, old: str, new: str, *, minute: int = 1) -> None:
    """Let one active memory supersede another by a plain change set."""
    ours, theirs = reach(store, old).revision, reach(store, new).revision
    steps = (
        change("add_relation", old, ours, **edge("superseded_by", new)),
        change("add_relation", new, theirs, **edge("supersedes", old)),
        change("set_status", old, ours + 1, status="superseded"),
    )
    apply_change_set(store, change_set(f"{new}-over-{old}", minute, *steps))


def find_stale(store: Store) -> list[StaleSibling]:
    """Find the stale siblings of the namespace, with its texts tokenised."""
    with store.write() as writer:
        owner = ensure_namespace(writer, SPACE).namespace_id
    index_missing_tokens(store, owner, tokenise_text, profile=PROFILE)
    return find_stale_siblings(store, owner, now=LATER)


def list_ids(store: Store) -> list[str]:
    """List the ids that an agent can see."""
    with store.write() as writer:
        owner = ensure_namespace(writer, SPACE).namespace_id
        return sorted(row["id"] for row in list_live(writer, owner, now=LATER, limit=100))
