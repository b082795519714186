"""The identity of a change set: every field, with its defaults, in one fixed order.

Source: spec/repository.md 4.6. Two sets are the same set exactly if their digests are equal; the
order of operations, evidence, relations and tags counts, that of metadata keys does not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from storage.changes import Annotate, ChangeSet
from storage.encoding import PayloadDigest, encode_canonical

_DOMAIN = "memtend.change-set.v1"
_NAMESPACE = ("tenant", "principal", "scope")
_EVIDENCE = ("uri", "digest", "kind", "occurred_at")
_RELATION = ("kind", "target_id")
_MEMORY = (
    *("id", "kind", "status", "content", "confidence", "importance", "salience", "tags"),
    *("metadata", "pinned", "expires_at", "evidence", "relations", "created_at"),
)
_ADDRESS = ("op", "memory_id", "expected_revision")
_OPERATIONS: Mapping[str, Sequence[str]] = {
    "activate": (*_ADDRESS, "evidence"),
    "corroborate": (*_ADDRESS, "evidence"),
    "revise": (*_ADDRESS, "content", "mode", "evidence", "confidence", "importance"),
    "add_relation": (*_ADDRESS, "relation"),
    "remove_relation": (*_ADDRESS, "relation"),
    "set_status": (*_ADDRESS, "status"),
    "restore": _ADDRESS,
}
_NULL_WHEN_ABSENT = {"confidence": None, "importance": None}
_ANNOTATED = ("tags", "metadata", "pinned", "expires_at", "importance", "salience")
_NUMBERS = {"confidence", "importance", "salience"}


def digest_change_set(value: ChangeSet | Mapping[str, Any]) -> tuple[str, int]:
    """Digest a change set that is validated and has its defaults.

    Args:
        value: The set, or {idempotency_key, namespace, occurred_at, operations} as plain values
            with aware datetimes; of an annotate operation only the fields that the caller gave.

    Returns:
        ``sha256:`` and 64 hex digits, and the length of the payload in bytes.
    """
    values = _plain_values(value) if isinstance(value, ChangeSet) else value
    payload = {
        "idempotency_key": values["idempotency_key"],
        "namespace": _pick(_NAMESPACE, values["namespace"]),
        "occurred_at": values["occurred_at"],
        "operations": [_say_operation(operation) for operation in values["operations"]],
    }
    digest = PayloadDigest(_DOMAIN)
    digest.add(encode_canonical(payload).encode())
    return str(digest), digest.byte_count


def _plain_values(change_set: ChangeSet) -> dict[str, Any]:
    operations = [
        operation.model_dump(exclude_unset=isinstance(operation, Annotate))
        for operation in change_set.operations
    ]
    return {**change_set.model_dump(exclude={"operations"}), "operations": operations}


def _say_operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    name = operation["op"]
    if name == "create":
        return {"op": name, "memory": _pick(_MEMORY, operation["memory"])}
    if name == "annotate":
        given = [field for field in _ANNOTATED if field in operation]
        return _pick((*_ADDRESS, *given), operation)
    return _pick(_OPERATIONS[name], {**_NULL_WHEN_ABSENT, **operation})


def _pick(fields: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {field: _say_field(field, values[field]) for field in fields}


def _say_field(field: str, value: Any) -> object:  # noqa: ANN401 - any field of any operation
    if value is None:
        return None
    if field == "evidence":
        return [_pick(_EVIDENCE, item) for item in value]
    if field == "relations":
        return [_pick(_RELATION, edge) for edge in value]
    if field == "relation":
        return _pick(_RELATION, value)
    if field == "metadata":
        return dict(sorted(value.items()))
    return float(value) if field in _NUMBERS else value
