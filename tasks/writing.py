"""Write one memory as a host would."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import ValidationError

from storage import Store
from storage.admission import Candidate, admit_records
from storage.digests import digest_values
from storage.errors import AdmissionError
from storage.models import DEFAULT_NAMESPACE, MemoryRecord, Namespace, Origin
from storage.namespaces import ensure_namespace
from tasks.importing import explain_invalid


def add_memory(
    store: Store,
    values: Mapping[str, object],
    *,
    namespace: Namespace | None = None,
    clock: datetime,
) -> MemoryRecord:
    """Add one active memory; its evidence is that somebody said so.

    Args:
        store: Where to; no lock may be held.
        values: Fields of `MemoryRecord`; id and content are required.
        namespace: Where it belongs; the default namespace if absent.
        clock: Wall time: created_at.

    Raises:
        AdmissionError: A field is invalid, or the id is known; the field is named.
    """
    owner = namespace or DEFAULT_NAMESPACE
    said = {
        "uri": f"memtend:add/{values.get('id')}",
        "digest": digest_values(values.get("content")),
        "kind": "user_statement",
        "occurred_at": clock,
    }
    times = {"created_at": clock, "evidence": [said], "origin": Origin.STORE_API}
    try:
        record = MemoryRecord.model_validate({**values, **times})
    except ValidationError as error:
        fault = explain_invalid(str(values.get("id")), error)[0]
        raise AdmissionError(fault.field, fault.reason) from None
    candidate = Candidate(record.id, record, digest_values(str(record.id)))
    with store.write() as writer:
        stored = ensure_namespace(writer, owner)
        result = admit_records(writer, stored.namespace_id, [candidate], clock=clock)
    if result.imported != 1:
        raise AdmissionError("id", "memory_already_exists")
    return record
