"""Write one memory as a host would."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import ValidationError

from storage import Store
from storage.admission import Candidate, admit_records
from storage.digests import digest_values
from storage.erasure_keys import ErasedMemoryError
from storage.errors import AdmissionError
from storage.models import (
    DEFAULT_NAMESPACE,
    Evidence,
    EvidenceKind,
    MemoryRecord,
    Namespace,
    Origin,
)
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
        namespace: Where it belongs; absent: what the values say, or the default namespace.
        clock: Wall time: created_at.

    Raises:
        AdmissionError: A field is invalid, or the id is known; the field is named.
        ErasedMemoryError: It was erased, or says what was.
    """
    record = _validate({**values, "created_at": clock, "origin": Origin.STORE_API})
    said = Evidence(
        uri=f"memtend:add/{record.id}",
        digest=digest_values(record.content),
        kind=EvidenceKind.USER_STATEMENT,
        occurred_at=clock,
    )
    record = record.model_copy(update={"evidence": (said,)})
    owner = namespace or record.namespace or DEFAULT_NAMESPACE
    if record.namespace not in {None, owner}:
        raise AdmissionError("namespace", "is given twice and differs")
    candidate = Candidate(record.id, record, digest_values(record.id))
    with store.write() as writer:
        stored = ensure_namespace(writer, owner)
        result = admit_records(writer, stored.namespace_id, [candidate], clock=clock)
        if result.rejects:
            raise AdmissionError(result.rejects[0].field, result.rejects[0].reason)
        if result.erased:
            raise ErasedMemoryError(record.id)
        if result.imported != 1:
            raise AdmissionError("id", "memory_already_exists")
    return record


def _validate(values: Mapping[str, object]) -> MemoryRecord:
    try:
        return MemoryRecord.model_validate(values)
    except ValidationError as error:
        fault = explain_invalid(str(values.get("id")), error)[0]
        raise AdmissionError(fault.field, fault.reason) from None
