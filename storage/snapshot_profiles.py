"""What each snapshot profile says of a memory, key by key: the payload that snapshots digest.

Source: spec/repository.md 4.5. Access figures, the derived clocks and the origin are in none, so
that being read moves no digest.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from storage.encoding import encode_canonical, format_f32, shorten_instant
from storage.errors import AdmissionError, InvariantError
from storage.models import EvidenceKind, Kind, Namespace, RelationKind

DEFAULT_PROFILE = "memtend.namespace-snapshot.sha256.v1"
HISTORY_PROFILE = "memtend.namespace-snapshot-history.sha256.v1"
UPSTREAM_PROFILE = "a3s.memory.namespace-snapshot.sha256.v1"

Encoder = Callable[[Any], str]
_EVIDENCE_PLACES = {kind: place for place, kind in enumerate(EvidenceKind)}
_RELATION_PLACES = {kind: place for place, kind in enumerate(RelationKind)}


class _Entry(NamedTuple):
    """One entry of an object: its key and colon, the field it tells, how that is written."""

    key: str
    field: str
    encode: Encoder


@dataclass(frozen=True, slots=True)
class SnapshotProfile:
    """One way to say a namespace and its memories."""

    name: str
    domain: str
    members: str  # the payload's key for its memories
    namespace: tuple[_Entry, ...]
    memory: tuple[_Entry, ...]
    past: tuple[_Entry, ...] | None  # of an earlier state; None: the profile has no history
    refused: frozenset[str] = frozenset()  # kinds that the profile does not know


def _name_entries(
    fields: str, renamed: Mapping[str, str], encoders: Mapping[str, Encoder]
) -> tuple[_Entry, ...]:
    """Give the entries of an object; a field without an encoder is text."""
    return tuple(
        _Entry(
            f"{encode_basestring(renamed.get(field, field))}:",
            field,
            encoders.get(field, encode_basestring),
        )
        for field in fields.split()
    )


def _choose_encoders(renamed: Mapping[str, str], encode_instant: Encoder) -> dict[str, Encoder]:
    """Choose how each field that is more than a text is written."""
    evidence = _name_entries(
        "uri digest kind occurred_at", renamed, {"occurred_at": encode_instant}
    )
    relation = _name_entries("kind target_id", renamed, {})
    return {
        "namespace": str,  # encoded once for all memories
        "revision": str,
        "confidence": format_f32,
        "importance": format_f32,
        "salience": lambda value: "null" if value is None else format_f32(value),
        "tags": str,  # as their columns: encode_json gives lists and maps of text canonically
        "metadata": str,
        "pinned": encode_canonical,
        "evidence": lambda items: _encode_list(evidence, sorted(items, key=_order_evidence)),
        "relations": lambda edges: _encode_list(relation, sorted(edges, key=_order_relation)),
        "created_at": encode_instant,
        "updated_at": encode_instant,
        "expires_at": encode_canonical,
    }


def _encode_object(entries: Iterable[_Entry], values: Mapping[str, Any]) -> str:
    texts = [key + encode(values[field]) for key, field, encode in entries]
    return "{" + ",".join(texts) + "}"


def _encode_list(entries: Iterable[_Entry], items: Iterable[Mapping[str, Any]]) -> str:
    return "[" + ",".join([_encode_object(entries, item) for item in items]) + "]"


def _order_evidence(item: Mapping[str, Any]) -> tuple[str, str, int, str]:
    return item["uri"], item["digest"], _EVIDENCE_PLACES[item["kind"]], item["occurred_at"]


def _order_relation(edge: Mapping[str, Any]) -> tuple[int, str]:
    return _RELATION_PLACES[edge["kind"]], edge["target_id"]


_STATE = (
    "revision kind status content confidence importance salience tags metadata pinned evidence "
    "relations"
)
_MEMORY = f"id namespace {_STATE} created_at updated_at expires_at revision_kind"
_PAST = f"{_STATE} updated_at expires_at revision_kind"
_UPSTREAM_STATE = "revision kind status content confidence importance evidence relations metadata"
_UPSTREAM_NAMES = {
    "tenant": "tenantId",
    "principal": "principalId",
    "scope": "scopeId",
    "metadata": "labels",
    "created_at": "createdAt",
    "updated_at": "updatedAt",
    "occurred_at": "occurredAt",
    "revision_kind": "revisionKind",
    "target_id": "targetId",
}


def _build_own(name: str, *, past: str | None) -> SnapshotProfile:
    encoders = _choose_encoders({}, encode_basestring)
    return SnapshotProfile(
        name=name,
        domain=name,
        members="memories",
        namespace=_name_entries("tenant principal scope", {}, {}),
        memory=_name_entries(_MEMORY, {}, encoders),
        past=None if past is None else _name_entries(past, {}, encoders),
    )


def _build_upstream() -> SnapshotProfile:
    names = _UPSTREAM_NAMES
    encoders = _choose_encoders(names, lambda text: encode_basestring(shorten_instant(text)))
    memory = f"id namespace {_UPSTREAM_STATE} created_at updated_at revision_kind"
    return SnapshotProfile(
        name=UPSTREAM_PROFILE,
        domain="a3s.memory.namespace-snapshot.v1",
        members="nodes",
        namespace=_name_entries("tenant principal scope", names, {}),
        memory=_name_entries(memory, names, encoders),
        past=_name_entries(f"{_UPSTREAM_STATE} updated_at revision_kind", names, encoders),
        refused=frozenset({Kind.WORKING}),
    )


PROFILES: Mapping[str, SnapshotProfile] = {
    DEFAULT_PROFILE: _build_own(DEFAULT_PROFILE, past=None),
    HISTORY_PROFILE: _build_own(HISTORY_PROFILE, past=_PAST),
    UPSTREAM_PROFILE: _build_upstream(),
}


def encode_namespace(profile: SnapshotProfile, namespace: Namespace) -> str:
    """Encode the triple, which stands in the payload and in each of its memories."""
    return _encode_object(profile.namespace, namespace.model_dump())


def encode_head(profile: SnapshotProfile, owner: str, statuses: Sequence[str]) -> str:
    """Encode what stands before the first memory; ``]}`` ends the payload."""
    name, members = encode_canonical(profile.name), encode_canonical(profile.members)
    said = encode_canonical(list(statuses))
    return f'{{"profile":{name},"namespace":{owner},"statuses":{said},{members}:['


def encode_memory(profile: SnapshotProfile, row: Mapping[str, Any], owner: str) -> Iterator[str]:
    """Encode one memory in pieces, the earlier states one by one.

    Args:
        profile: Says which fields, in which order.
        row: The fields of a MemoryRecord as JSON values, `tags` and `metadata` as their columns
            hold them; `history` may be any iterable of states.
        owner: The encoded namespace.

    Raises:
        AdmissionError: The profile does not know the kind of the memory.
        InvariantError: A stored number is not finite.
    """
    text = _encode_state(profile, profile.memory, {**row, "namespace": owner}, row["id"])
    if profile.past is None:
        yield text
        return
    yield text.removesuffix("}") + ',"history":['
    separator = ""
    for state in row["history"]:
        yield separator + _encode_state(profile, profile.past, state, row["id"])
        separator = ","
    yield "]}"


def _encode_state(
    profile: SnapshotProfile, entries: Iterable[_Entry], state: Mapping[str, Any], memory_id: str
) -> str:
    if state["kind"] in profile.refused:
        field = "memory.kind"
        raise AdmissionError(field, f"{profile.name} does not know {state['kind']} memories")
    try:
        return _encode_object(entries, state)
    except ValueError:
        raise InvariantError("it holds a number that is not finite", memory_id) from None
