"""From hits to what an agent is shown: context ids, context items, admissions and uses.

A preview records nothing and authorises nothing. What is shown is admitted when the context is
assembled, and whatever cannot be admitted is taken out of it. Source: spec/recall.md R13-R16.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from storage import Store
from storage.access import AccessEvent, parse_event, record_events
from storage.digests import digest_parts
from storage.errors import AdmissionError, LimitExceededError, MaintenanceError, StorageError
from storage.models import Namespace
from tasks.hits import Hit
from tasks.memory_protocol import MemoryItem

CONTEXT_PROFILE = "a3s.code.memory.context.session-run-invocation-sequence-sha256.v2"
_CONTEXT_PREFIX = "a3s-code-context-v2-"
_ADMISSION_DOMAIN = "a3s.code.memory.admission.v1"
_ADMISSION_PREFIX = "a3s-code-admission-"
_SCHEME = "memtend:"
_MAX_SEQUENCE = 2**64 - 1
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One piece of a context, ours or somebody else's; `tokens` is an estimate."""

    id: str
    source: str
    content: str
    tokens: int
    priority: float
    trust: float
    freshness: float
    metadata: Mapping[str, object] = field(default_factory=dict)


def name_context(session: str, run: str, invocation: str, sequence: int) -> str:
    """Name a model context; a value to correlate by, not a credential (R16).

    Raises:
        AdmissionError: A part is blank, or the sequence is no unsigned 64-bit number.
    """
    parts: list[bytes] = []
    for label, text in (("session", session), ("run", run), ("invocation", invocation)):
        parts += [label.encode(), sha256(_check_part(label, text)).digest()]
    if isinstance(sequence, bool) or not 0 <= sequence <= _MAX_SEQUENCE:
        raise AdmissionError("context.sequence", "must be from 0 to 2^64 - 1")
    parts += [b"sequence", struct.pack("<Q", sequence)]
    return _CONTEXT_PREFIX + digest_parts(CONTEXT_PROFILE, parts).hex()


def _check_part(label: str, text: str) -> bytes:
    if not text.strip():
        raise AdmissionError(f"context.{label}", "must not be blank")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise AdmissionError(f"context.{label}", "must not contain a lone surrogate") from None


def name_admission(context_id: str, memory_id: str, revision: int) -> str:
    """Name the admission of a revision to a context: the same one is counted once."""
    parts = [context_id.encode(), memory_id.encode(), struct.pack("<Q", revision)]
    return _ADMISSION_PREFIX + digest_parts(_ADMISSION_DOMAIN, parts).hex()


def make_item(hit: Hit) -> ContextItem:
    """Make the context item of a hit (R14)."""
    return ContextItem(
        id=f"{_SCHEME}{hit.memory_id}:r{hit.revision}",
        source=f"{_SCHEME}//{_escape(hit.memory_id)}?revision={hit.revision}",
        content=hit.content,
        tokens=max(1, len(hit.content.encode()) // _BYTES_PER_TOKEN),
        priority=0.4,
        trust=0.8,
        freshness=0.6,
        metadata={
            "memory_id": hit.memory_id,
            "revision": hit.revision,
            "kind": hit.kind,
            "evidence": hit.evidence_count,
            "channel": hit.channel,
            "related_from": hit.related_from,
        },
    )


def _escape(text: str) -> str:
    """Escape every byte but ASCII letters and digits; urllib would leave four more as they are."""
    return "".join(
        chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"%{byte:02X}"
        for byte in text.encode()
    )


def admit(  # noqa: PLR0913 - what, into which context, when
    store: Store,
    namespace: Namespace,
    items: Sequence[ContextItem],
    hits: Iterable[Hit],
    *,
    context_id: str | None,
    occurred_at: datetime | None,
    actor: str | None = None,
) -> list[ContextItem]:
    """Admit what a context shows of the hits, and give what may stay in it (R15).

    Args:
        store: Where the admissions are recorded, in one transaction.
        namespace: Whose memories the hits are.
        items: The context as it was assembled, items of other origin included.
        hits: What was recalled for it.
        context_id: The name of the context; without one nothing of ours may stay.
        occurred_at: When it was assembled; likewise.
        actor: Who is shown it.

    Returns:
        The items in their order, without those that look like ours but are no hit, were altered,
        or could not be recorded: revised, frozen or expired meanwhile.
    """
    known = {_identify(make_item(hit)): hit for hit in hits}
    shown = [known.get(_identify(item)) for item in items]
    ours = {hit.memory_id: hit for hit in shown if hit is not None}
    admitted = _record(
        store, namespace, ours.values(), context_id=context_id, occurred_at=occurred_at, actor=actor
    )
    return [
        item
        for item, hit in zip(items, shown, strict=True)
        if (not _claims_memory(item) if hit is None else hit.memory_id in admitted)
    ]


def _identify(item: ContextItem) -> tuple[str, str, bytes]:
    digest = sha256(item.content.encode("utf-8", "surrogatepass")).digest()
    return item.id, item.source, digest


def _claims_memory(item: ContextItem) -> bool:
    return item.id.startswith(_SCHEME) or item.source.startswith(_SCHEME)


def _record(  # noqa: PLR0913 - as above
    store: Store,
    namespace: Namespace,
    hits: Iterable[Hit],
    *,
    context_id: str | None,
    occurred_at: datetime | None,
    actor: str | None,
) -> set[str]:
    """Record admissions, and give the ids of the memories that were or had been admitted."""
    if context_id is None:
        return set()
    try:
        events = [
            parse_event(
                {
                    "id": name_admission(context_id, hit.memory_id, hit.revision),
                    "namespace": namespace,
                    "memory_id": hit.memory_id,
                    "revision": hit.revision,
                    "occurred_at": occurred_at,
                    "context_id": context_id,
                    "actor": actor,
                }
            )
            for hit in hits
        ]
        refusals = record_events(store, "admission", events) if events else []
    except (AdmissionError, LimitExceededError, StorageError):
        return set()
    pairs = zip(events, refusals, strict=True)
    return {event.memory_id for event, refusal in pairs if refusal is None}


def record_uses(  # noqa: PLR0913 - what, when, under which ids
    store: Store,
    namespace: Namespace,
    hits: Sequence[Hit],
    *,
    occurred_at: datetime,
    new_id: Callable[[], str],
    actor: str | None = None,
) -> list[MaintenanceError | None]:
    """Record that hits were used; each gets None, or why it was not recorded."""
    events = [
        AccessEvent(
            id=new_id(),
            namespace=namespace,
            memory_id=hit.memory_id,
            revision=hit.revision,
            occurred_at=max(occurred_at, hit.updated_at),
            actor=actor,
        )
        for hit in hits
    ]
    return record_events(store, "use", events) if events else []


def leave_out_known(items: Iterable[MemoryItem], hits: Iterable[Hit]) -> list[MemoryItem]:
    """Leave out the items of a V1 search whose text a hit has, too (R15)."""
    texts = {_flatten(hit.content) for hit in hits}
    return [item for item in items if _flatten(item.content) not in texts]


def _flatten(text: str) -> str:
    return " ".join(text.lower().split())
