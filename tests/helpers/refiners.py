"""A refiner whose answers a test chooses by call, and clusters of stored memories."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from helpers.rows import NOW
from helpers.runs import dump_tables
from helpers.sets import SPACE, change_set, create

from storage import Store, StoreWriter
from storage.invariants import check_invariants
from storage.models import Kind, MemoryRecord, Namespace, Status
from storage.namespaces import find_namespace
from storage.records import read_records
from storage.repository import apply_change_set
from tasks.providers.refiner import (
    Refiner,
    RefineRequest,
    RefineResponse,
    RefinerIdentity,
    RefineSource,
)
from tasks.refine_calls import RefineLimits
from tasks.refining import RefineReport, refine_clusters

IDENTITY = RefinerIdentity(provider="fixture", model="refine-v1", revision="r1")
TEXT = "Set the retry budget of job {} to 10 attempts and never raise it"
_ATTEMPTS = """
SELECT member_ids, state, reason, failed_runs, next_attempt_at, candidate_id
FROM refiner_attempts
ORDER BY member_ids
"""
_TABLES = ("memories", "revisions", "evidence", "relations", "change_sets")
Step = BaseException | Callable[[RefineRequest], object]


def join_texts(request: RefineRequest) -> object:
    """Answer as a refiner should: the first text, which holds what the others say."""
    content = next(iter(request.texts.values()))
    return {"content": content, "sources": list(request.texts)}


class ScriptedRefiner:
    """Answers each call as the next step of its script says, then always as `always` does."""

    identity = IDENTITY

    def __init__(self, *script: Step, always: Step = join_texts, tokens: int | None = None) -> None:
        """Take the steps: an error to raise, or what makes the output, and the cost of a call."""
        self.asked: list[RefineRequest] = []
        self._script, self._always, self._tokens = list(script), always, tokens

    def refine(self, request: RefineRequest) -> RefineResponse:
        """Answer once."""
        self.asked.append(request)
        step = self._script.pop(0) if self._script else self._always
        if isinstance(step, BaseException):
            raise step
        return RefineResponse(output=step(request), tokens=self._tokens)


def read_all(store: Store, namespace: Namespace, ids: Iterable[str]) -> dict[str, MemoryRecord]:
    """Read memories of a namespace by id."""
    with store.read() as reader:
        owner = find_namespace(reader, namespace)
        assert owner is not None
        return read_records(reader, owner.namespace_id, ids)


def ask_about(store: Store, namespace: Namespace, ids: Sequence[str]) -> RefineRequest:
    """Make a request of memories as they are stored."""
    records = read_all(store, namespace, ids)
    kinds: set[Kind] = {record.kind for record in records.values()}
    (kind,) = kinds
    sources = tuple(
        RefineSource(memory_id=name, revision=records[name].revision, content=records[name].content)
        for name in ids
    )
    return RefineRequest(namespace=namespace, kind=kind, sources=sources)


def list_candidates(store: Store, namespace: Namespace) -> list[str]:
    """List the ids of the candidates of a namespace."""
    with store.read() as reader:
        owner = find_namespace(reader, namespace)
        assert owner is not None
        rows = reader.rows(
            "SELECT id FROM memories WHERE namespace_id = $owner AND status = $status ORDER BY id",
            {"owner": owner.namespace_id, "status": Status.CANDIDATE.value},
        )
    return [name for (name,) in rows]


def fill(store: Store, count: int) -> list[RefineRequest]:
    """Add clusters of two memories each."""
    pairs = [(f"m{number:02}a", f"m{number:02}b") for number in range(count)]
    for number, pair in enumerate(pairs):
        text = TEXT.format(f"j{number}")
        drafts = [create(name, f"{text}{'.' * end}") for end, name in enumerate(pair)]
        apply_change_set(store, change_set(f"fill-{number}", 0, *drafts))
    return [ask_about(store, SPACE, pair) for pair in pairs]


class Options(TypedDict, total=False):
    """What a test may tell `refine_clusters` beside who, what and when."""

    limits: RefineLimits
    before_call: Callable[[], None]
    guard: Callable[[StoreWriter], None]
    sleep: Callable[[float], None]


def refine(
    store: Store,
    refiner: Refiner,
    clusters: Iterable[RefineRequest],
    *,
    clock: datetime = NOW,
    **options: Unpack[Options],
) -> RefineReport:
    """Refine clusters without waits; wall time stands still."""
    given: Options = {"limits": RefineLimits(), "sleep": lambda _: None}
    given.update(options)
    return refine_clusters(store, refiner, list(clusters), now=clock, clock=lambda: clock, **given)


def read_attempts(store: Store) -> list[tuple[Any, ...]]:
    """Read what is known of all clusters, in a store where all invariants hold."""
    with store.read() as reader:
        assert not [check for check in check_invariants(reader) if check.broken]
        return reader.rows(_ATTEMPTS)


def dump_memories(store: Store) -> object:
    """Read all that a set can change of memories."""
    dumped = dump_tables(store)
    return {name: dumped[name] for name in _TABLES}
