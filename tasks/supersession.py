"""Verified supersession: one change set puts a memory in the place of others.

The replacement is created or activated with decision evidence, both ends of every relation are
added and the old memories are superseded, all or nothing. Source: spec/consolidate.md R80-R82.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from storage import Store
from storage.change_errors import EvidenceRequiredError, InvalidTransitionError
from storage.changes import ChangeSet, explain_refusal, parse_change_set
from storage.digests import digest_values
from storage.errors import AdmissionError, MemoryNotFoundError
from storage.models import Evidence, EvidenceKind, MemoryRecord, Namespace, RelationKind, Status
from storage.records import read_records
from storage.repository import ChangeResult, commit_change_set
from storage.staging import has_decision
from tasks.feedback import locate_memory


@dataclass(frozen=True, slots=True)
class Outdated:
    """A memory that is to be superseded, at the revision that this was decided on."""

    memory_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """What takes the place of the old memories.

    Attributes:
        memory_id: Its id.
        draft: What it will be (the fields of a create but id, status and time), if it is new.
        revision: Where an existing one stands.
        is_candidate: The existing one is a candidate, which the same change set activates.
    """

    memory_id: str
    draft: Mapping[str, Any] | None = None
    revision: int = 0
    is_candidate: bool = False


@dataclass(frozen=True, slots=True)
class SupersessionRequest:
    """A supersession with all that it depends on; the same request again changes nothing.

    `evidence` is what verified it: at least one of it is a decision. `key` absent: one that
    follows from everything else.
    """

    namespace: Namespace
    old: tuple[Outdated, ...]
    new: Replacement
    evidence: tuple[Evidence, ...]
    occurred_at: datetime
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """A memory after a supersession."""

    id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """What a supersession did, and on whose word; `replayed`: it had been done before."""

    namespace: Namespace
    old: tuple[Reached, ...]
    new: Reached
    evidence: tuple[Evidence, ...]
    affected: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class HandMade:
    """A supersession as a person asks for it.

    Attributes:
        old_id: The memory that is no longer true.
        new_id: The one that is.
        text: What the new one says, if it does not exist yet.
        verified_by: The uri of what verified it.
        approver: Who decided it.
        note: A remark that is kept with a new memory.
        expected_revision: Where the old one has to stand; absent: where it stands.
        namespace: Whose memories they are; absent: where the old one is.
        clock: Wall time.
    """

    old_id: str
    new_id: str
    clock: datetime
    text: str | None = None
    verified_by: str | None = None
    approver: str | None = None
    note: str | None = None
    expected_revision: int | None = None
    namespace: Namespace | None = None


def supersede_memory(store: Store, request: SupersessionRequest) -> Superseded:
    """Put a memory in the place of others.

    Args:
        store: The store; no lock may be held.
        request: What replaces what, at which revisions, and on whose word.

    Raises:
        EvidenceRequiredError: No evidence is a decision.
        ConflictError: A revision is not the expected one, or the key had other input.
        InvalidTransitionError: The replacement would not be active.
        MaintenanceError: Any other refusal of the repository; nothing was stored.
    """
    if not has_decision(request.evidence):
        raise EvidenceRequiredError(request.new.memory_id, "decision")
    change_set = parse_change_set(_describe(request))
    with store.write() as writer:
        result = commit_change_set(writer, change_set)
        if not result.replayed:
            _check_active(result, request.new.memory_id)
    return _report(request, change_set, result)


def supersede_by_hand(store: Store, asked: HandMade) -> Superseded:
    """Supersede one memory as a person asks for it; a new one takes over kind, tags and weight.

    Raises:
        MemoryNotFoundError: No such memory, and no text for a new one.
        MaintenanceError: See `supersede_memory`.
    """
    with store.read() as reader:
        owner = locate_memory(reader, asked.old_id, asked.namespace)
        records = read_records(reader, owner.namespace_id, [asked.old_id, asked.new_id])
    old = records.get(asked.old_id)
    if old is None:
        raise MemoryNotFoundError(asked.old_id)
    known = [one.updated_at for one in records.values() if one.updated_at is not None]
    occurred_at = max([asked.clock, *known])
    expected = old.revision if asked.expected_revision is None else asked.expected_revision
    request = SupersessionRequest(
        namespace=owner.namespace,
        old=(Outdated(old.id, expected),),
        new=_choose_replacement(asked, old, records.get(asked.new_id)),
        evidence=tuple(_gather_evidence(asked)),
        occurred_at=occurred_at,
    )
    return supersede_memory(store, request)


def _choose_replacement(
    asked: HandMade, old: MemoryRecord, new: MemoryRecord | None
) -> Replacement:
    if asked.text is not None:
        return Replacement(asked.new_id, draft=_draft(asked, asked.text, old))
    if asked.note is not None:
        raise AdmissionError("--note", "is kept with a new memory only: it needs --text")
    if new is None:
        raise MemoryNotFoundError(asked.new_id)
    is_candidate = new.status == Status.CANDIDATE
    return Replacement(new.id, revision=new.revision, is_candidate=is_candidate)


def _draft(asked: HandMade, text: str, old: MemoryRecord) -> dict[str, Any]:
    """Draft what replaces a memory; its tags stay, since they say whose subject it is."""
    said = {
        "uri": f"memtend:supersede/{asked.new_id}",
        "digest": digest_values(text),
        "kind": EvidenceKind.USER_STATEMENT,
        "occurred_at": asked.clock,
    }
    fields = ("kind", "importance", "tags", "pinned")
    metadata = {} if asked.note is None else {"note": asked.note}
    inherited = {name: getattr(old, name) for name in fields}
    return {**inherited, "content": text, "metadata": metadata, "evidence": [said]}


def _gather_evidence(asked: HandMade) -> Iterator[Evidence]:
    named = (
        (EvidenceKind.VERIFICATION, asked.verified_by, "{}"),
        (EvidenceKind.MANUAL, asked.approver, "memtend:approver/{}"),
    )
    for kind, name, form in named:
        if name is not None and name.strip():
            decided = {"old": asked.old_id, "new": asked.new_id, kind.value: name}
            yield _make_evidence(
                uri=form.format(name),
                digest=digest_values(decided),
                kind=kind,
                occurred_at=asked.clock,
            )


def _make_evidence(**fields: object) -> Evidence:
    try:
        return Evidence.model_validate(fields)
    except ValidationError as error:
        raise explain_refusal(error, "evidence") from None


def _describe(request: SupersessionRequest) -> dict[str, Any]:
    said = {
        "namespace": request.namespace.model_dump(),
        "occurred_at": request.occurred_at,
        "operations": list(_list_operations(request)),
    }
    return {"idempotency_key": request.key or _derive_key(request, said), **said}


def _derive_key(request: SupersessionRequest, said: Mapping[str, Any]) -> str:
    change_set = parse_change_set({"idempotency_key": "supersede", **said})
    evidence = [item.model_dump(mode="json") for item in request.evidence]
    digest = digest_values([change_set.model_dump(mode="json"), evidence])
    return "supersede-" + digest.removeprefix("sha256:")


def _list_operations(request: SupersessionRequest) -> Iterator[dict[str, Any]]:
    new = request.new
    revision = new.revision
    evidence = [item.model_dump() for item in request.evidence]
    if new.draft is not None:
        revision = 1
        named = {"id": new.memory_id, "status": Status.CANDIDATE}
        yield {"op": "create", "memory": {"created_at": request.occurred_at, **new.draft, **named}}
    if new.draft is not None or new.is_candidate:
        yield _operate("activate", new.memory_id, revision, evidence=evidence)
        revision += 1
    for old in request.old:
        superseded_by = _relate(RelationKind.SUPERSEDED_BY, new.memory_id)
        supersedes = _relate(RelationKind.SUPERSEDES, old.memory_id)
        yield _operate("add_relation", old.memory_id, old.revision, **superseded_by)
        yield _operate("add_relation", new.memory_id, revision, **supersedes)
        yield _operate("set_status", old.memory_id, old.revision + 1, status=Status.SUPERSEDED)
        revision += 1


def _operate(op: str, memory_id: str, revision: int, **fields: object) -> dict[str, Any]:
    return {"op": op, "memory_id": memory_id, "expected_revision": revision, **fields}


def _relate(kind: RelationKind, target_id: str) -> dict[str, Any]:
    return {"relation": {"kind": kind, "target_id": target_id}}


def _check_active(result: ChangeResult, new_id: str) -> None:
    """Refuse to hide a fact behind a memory that is not seen itself."""
    for changed in result.memories:
        record = changed.record
        if changed.memory_id == new_id and record is not None and record.status != Status.ACTIVE:
            raise InvalidTransitionError(new_id, before=record.status, after=Status.ACTIVE)


def _report(
    request: SupersessionRequest, change_set: ChangeSet, result: ChangeResult
) -> Superseded:
    reached = {one.memory_id: Reached(one.memory_id, one.revision) for one in result.memories}
    return Superseded(
        namespace=change_set.namespace,
        old=tuple(reached[one.memory_id] for one in request.old),
        new=reached[request.new.memory_id],
        evidence=request.evidence,
        affected=len(reached),
        replayed=result.replayed,
    )
