"""Run the step cases of the repository's vectors on a real store."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from storage import Store
from storage.access import EventKind, parse_event, read_usage, record_event
from storage.encoding import format_f32
from storage.errors import MaintenanceError
from storage.instants import format_instant
from storage.models import MemoryRecord, Namespace
from storage.namespaces import find_namespace, read_sequence
from storage.query import query_memories
from storage.records import read_history
from storage.repository import apply_change_set, read_state
from storage.snapshots import take_snapshot

Said = dict[str, Any]


def expand(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Write out the short forms of the vector file."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "repeat" in value:
        text, count = value["repeat"]
        return text * count
    if "create_many" in value:
        return [_create_one(value["create_many"], i) for i in range(value["create_many"]["count"])]
    if "many" in value:
        many = value["many"]
        return [{"id": many["id_format"] % i, **many["each"]} for i in range(many["count"])]
    return {key: expand(item) for key, item in value.items()}


def _create_one(many: Mapping[str, Any], index: int) -> Said:
    memory_id = many["id_format"] % index
    turn = {
        "uri": many["evidence_uri_format"] % memory_id,
        "digest": f"d{memory_id}-turn",
        "kind": "session_turn",
        "occurred_at": many["memory"]["created_at"],
    }
    return {"op": "create", "memory": {"id": memory_id, **many["memory"], "evidence": [turn]}}


def run_step(store: Store, step: Mapping[str, Any]) -> Said:
    """Do one step and say what came of it, in the words of the vectors."""
    try:
        return _DOES[step["do"]](store, expand(dict(step)))
    except MaintenanceError as error:
        return {"error": {"code": error.code, **error.facts}}


def _apply(store: Store, step: Said) -> Said:
    result = apply_change_set(store, step["change_set"])
    memories = []
    for changed in result.memories:
        said = {"id": changed.memory_id, "revision": changed.revision}
        if changed.record is None:
            memories.append({**said, "memory": None})
            continue
        record = changed.record
        said |= {"status": record.status.value, "revision_kind": record.revision_kind.value}
        said |= {"evidence": len(record.evidence), "history": record.revision - 1}
        memories.append(said)
    return {"ok": {"sequence": result.sequence, "replayed": result.replayed, "memories": memories}}


def _get(store: Store, step: Said) -> Said:
    namespace = Namespace.model_validate(step["namespace"])
    with store.read() as reader:
        record = read_state(reader, namespace, step["id"])
    return {"memory": None if record is None else describe(record)}


def describe(record: MemoryRecord) -> Said:
    """Say a memory as the vectors do."""
    said: Said = {name: getattr(record, name) for name in ("id", "revision", "content", "pinned")}
    said |= {"status": record.status.value, "revision_kind": record.revision_kind.value}
    said |= {"importance": record.importance, "confidence": record.confidence}
    said |= {"evidence": len(record.evidence), "history": record.revision - 1}
    said["evidence_uris"] = [item.uri for item in record.evidence]
    said["relations"] = [edge.model_dump(mode="json") for edge in record.relations]
    said |= {"tags": list(record.tags), "metadata": dict(record.metadata)}
    for name in ("created_at", "updated_at", "expires_at", "last_accessed_at"):
        instant = getattr(record, name)
        said[name] = None if instant is None else format_instant(instant)
    said["access_count"] = record.access_count
    return said


def _history(store: Store, step: Said) -> Said:
    with store.read() as reader:
        owner = find_namespace(reader, Namespace.model_validate(step["namespace"]))
        states = () if owner is None else read_history(reader, owner.namespace_id, step["id"])
    return {
        "revisions": [
            {
                "revision": state.revision,
                "status": state.status.value,
                "content": state.content,
                "revision_kind": state.revision_kind.value,
                "updated_at": None
                if state.updated_at is None
                else format_instant(state.updated_at),
            }
            for state in states
        ]
    }


def _query(store: Store, step: Said) -> Said:
    with store.read() as reader:
        hits = query_memories(reader, step["query"])
    return {"hits": [{"id": hit.memory_id, "score": format_f32(hit.score)} for hit in hits]}


def _token(store: Store, step: Said) -> Said:
    with store.read() as reader:
        owner = find_namespace(reader, Namespace.model_validate(step["namespace"]))
        return {"sequence": 0 if owner is None else read_sequence(reader, owner.namespace_id)}


def _admission(store: Store, step: Said) -> Said:
    return _record(store, "admission", step)


def _use(store: Store, step: Said) -> Said:
    return _record(store, "use", step)


def _record(store: Store, kind: EventKind, step: Said) -> Said:
    with store.write() as writer:
        is_new = record_event(writer, kind, parse_event(step["event"]))
    return {"ok": "recorded" if is_new else "replay"}


def _usage(store: Store, step: Said) -> Said:
    with store.read() as reader:
        usage = read_usage(reader, Namespace.model_validate(step["namespace"]), step["id"])
    return {"usage": asdict(usage)}


def _snapshot(store: Store, step: Said) -> Said:
    request = dict(step["request"])
    namespace = Namespace.model_validate(request.pop("namespace"))
    with store.read() as reader:
        snapshot = take_snapshot(reader, namespace, **request)
    said: Said = {"profile": snapshot.profile, "statuses": list(snapshot.statuses)}
    said |= {"byte_count": snapshot.byte_count, "digest": snapshot.digest}
    return {"snapshot": {**said, "ids": list(snapshot.ids)}}


_DOES: dict[str, Callable[[Store, Said], Said]] = {
    "apply": _apply,
    "get": _get,
    "history": _history,
    "query": _query,
    "token": _token,
    "admission": _admission,
    "use": _use,
    "usage": _usage,
    "snapshot": _snapshot,
}
