"""Snapshots: complete, ordered views of a namespace under budgets, named by a digest.

A view is never cut: it fits its budgets or is refused. Rows flow in id byte order through the
encoder into the hash, one page after the other. Source: spec/repository.md R34-R38.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from storage.digests import encode_json
from storage.encoding import PayloadDigest
from storage.errors import (
    AdmissionError,
    InvariantError,
    LimitExceededError,
    NamespaceMismatchError,
)
from storage.gateway import StoreReader
from storage.models import MemoryRecord, Namespace, Status
from storage.namespaces import find_namespace, read_sequence
from storage.snapshot_pages import BYTES, NODES, Row, plan_pages, read_rows
from storage.snapshot_profiles import (
    DEFAULT_PROFILE,
    PROFILES,
    encode_head,
    encode_memory,
    encode_namespace,
)

MAX_NODES = 100_000
MAX_BYTES = 268_435_456
QUERY_HORIZON = 100  # spec/repository.md R38: as many hits as one query gives
_FORGED = "the snapshot is not that of its request and its rows"

Query = Callable[[Namespace, Collection[str], int], Iterable[MemoryRecord]]


class SnapshotOptions(TypedDict, total=False):
    """What a snapshot request may say beside its namespace."""

    statuses: Collection[str]
    max_nodes: int
    max_bytes: int
    profile: str


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Which memories, under which budgets, said how; `statuses` come out in canonical order."""

    namespace: Namespace
    statuses: Collection[str] = (Status.ACTIVE,)
    max_nodes: int = MAX_NODES
    max_bytes: int = MAX_BYTES
    profile: str = DEFAULT_PROFILE

    def __post_init__(self) -> None:
        """Refuse what no snapshot can answer.

        Raises:
            AdmissionError: A field is malformed; it is named.
            LimitExceededError: A budget above the hard limit.
        """
        object.__setattr__(self, "statuses", _check_statuses(self.statuses))
        _check_budget("snapshot.max_nodes", self.max_nodes, NODES, MAX_NODES)
        _check_budget("snapshot.max_bytes", self.max_bytes, BYTES, MAX_BYTES)
        if not isinstance(self.profile, str) or self.profile not in PROFILES:
            name = "snapshot.profile"
            raise AdmissionError(name, f"must be one of {', '.join(PROFILES)}")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One view: what it is of, the ids in order, and its identity.

    `token` is the namespace's change sequence, None if a custom repository has none; `payload` is
    kept only on demand. Budgets are no part of it.
    """

    profile: str
    namespace: Namespace
    statuses: tuple[str, ...]
    ids: tuple[str, ...]
    byte_count: int
    digest: str
    token: int | None
    payload: bytes | None = field(default=None, repr=False)


def take_snapshot(
    reader: StoreReader,
    namespace: Namespace,
    *,
    keep_payload: bool = False,
    **options: Unpack[SnapshotOptions],
) -> Snapshot:
    """Take a snapshot of a namespace of the store, which may be unknown: then it is empty.

    Args:
        reader: An open transaction; nothing is written.
        namespace: The only namespace that is read.
        keep_payload: Keep the canonical payload, up to `max_bytes` of memory.
        options: statuses, max_nodes, max_bytes, profile as in `SnapshotRequest`.

    Raises:
        AdmissionError: A bad request, or a kind that the profile does not know.
        LimitExceededError: More memories than `max_nodes` (actual: how many), or a payload longer
            than `max_bytes` (actual: one more).
        InvariantError: A stored value has no canonical text.
    """
    request = SnapshotRequest(namespace, **options)
    owner = find_namespace(reader, namespace)
    if owner is None:
        return _build(request, (), token=0, keep_payload=keep_payload)
    token = read_sequence(reader, owner.namespace_id)
    scope = {"namespace_id": owner.namespace_id, "statuses": list(request.statuses)}
    with_history = PROFILES[request.profile].past is not None
    pages = plan_pages(reader, scope, max_nodes=request.max_nodes, with_history=with_history)
    _check_bytes(request, sum(text_bytes for _, _, text_bytes in pages))
    members = (
        row
        for first_id, last_id, _ in pages
        for row in read_rows(
            reader, scope, {"first_id": first_id, "last_id": last_id}, with_history=with_history
        )
    )
    return _build(request, members, token=token, keep_payload=keep_payload)


def snapshot_from_rows(
    request: SnapshotRequest,
    records: Iterable[MemoryRecord],
    *,
    token: int | None = None,
    keep_payload: bool = False,
) -> Snapshot:
    """Build the snapshot of rows that the caller brings, in any order.

    A record without a namespace is one of the requested namespace.

    Raises:
        LimitExceededError: As `take_snapshot`.
        NamespaceMismatchError: A row of another namespace or status.
        InvariantError: An id occurs twice.
        AdmissionError: A row without created_at or updated_at, or of an unknown kind.
    """
    # Code points sort like the bytes of their UTF-8.
    rows = sorted(records, key=lambda record: record.id)
    _check_count(request, len(rows))
    _check_rows(request, rows)
    members = (_plain_row(record) for record in rows)
    return _build(request, members, token=token, keep_payload=keep_payload)


def verify_snapshot(
    snapshot: Snapshot, request: SnapshotRequest, records: Iterable[MemoryRecord]
) -> None:
    """Recompute a snapshot from its rows, in its order, and compare it with what it claims.

    The request may have other budgets than the one that it answered.

    Raises:
        InvariantError: Profile, namespace, statuses, order, byte count, digest or payload differ.
        LimitExceededError: The rows do not fit the budgets of this request.
    """
    rows = list(records)
    if tuple(record.id for record in rows) != snapshot.ids:
        raise InvariantError(_FORGED)
    keep_payload = snapshot.payload is not None
    try:
        found = snapshot_from_rows(request, rows, token=snapshot.token, keep_payload=keep_payload)
    except NamespaceMismatchError:
        raise InvariantError(_FORGED) from None
    if found != snapshot:
        raise InvariantError(_FORGED)


def snapshot_from_query(
    request: SnapshotRequest, query: Query, *, token: int | None = None
) -> Snapshot:
    """Build a snapshot for a custom repository that can only be queried.

    Args:
        request: As for any snapshot.
        query: Gives the records of a namespace with these statuses, at most so many.
        token: The repository's change token, if it has one.

    Raises:
        LimitExceededError: The query gave as many hits as it can, so there may be more; or as
            `take_snapshot`.
    """
    limit = min(request.max_nodes + 1, QUERY_HORIZON)
    hits = list(query(request.namespace, request.statuses, limit))
    if request.max_nodes >= QUERY_HORIZON and len(hits) >= QUERY_HORIZON:
        resource = "namespace snapshot query horizon"
        raise LimitExceededError(resource, limit=QUERY_HORIZON - 1, actual=QUERY_HORIZON)
    return snapshot_from_rows(request, hits, token=token)


def _check_statuses(statuses: object) -> tuple[str, ...]:
    name = "snapshot.statuses"
    if not isinstance(statuses, Collection) or isinstance(statuses, str | bytes) or not statuses:
        raise AdmissionError(name, "must be one or more statuses")
    if any(status not in list(Status) for status in statuses):
        raise AdmissionError(name, f"must be among {', '.join(Status)}")
    return tuple(status for status in Status if status in statuses)


def _check_budget(name: str, budget: object, resource: str, limit: int) -> None:
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        raise AdmissionError(name, "must be a whole number above zero")
    if budget > limit:
        raise LimitExceededError(resource, limit=limit, actual=budget)


def _check_count(request: SnapshotRequest, count: int) -> None:
    if count > request.max_nodes:
        raise LimitExceededError(NODES, limit=request.max_nodes, actual=count)


def _check_bytes(request: SnapshotRequest, byte_count: int) -> None:
    if byte_count > request.max_bytes:
        raise LimitExceededError(BYTES, limit=request.max_bytes, actual=request.max_bytes + 1)


def _check_rows(request: SnapshotRequest, rows: Iterable[MemoryRecord]) -> None:
    before = None
    for record in rows:
        is_foreign = record.namespace not in {None, request.namespace}
        if is_foreign or record.status not in request.statuses:
            raise NamespaceMismatchError("namespace snapshot")
        if record.id == before:
            raise InvariantError("it occurs twice in a snapshot", record.id)
        before = record.id
        _check_times(record)


def _check_times(record: MemoryRecord) -> None:
    name = "memory.created_at" if record.created_at is None else "memory.updated_at"
    times = [record.created_at, *(state.updated_at for state in (record, *record.history))]
    if None in times:
        raise AdmissionError(name, "must be set, in earlier states too")


class _Payload:
    """The payload on its way into the hash, under the byte budget of the request."""

    def __init__(self, request: SnapshotRequest, *, keep: bool) -> None:
        self._request = request
        self._kept = bytearray() if keep else None
        self.digest = PayloadDigest(PROFILES[request.profile].domain)

    @property
    def kept(self) -> bytes | None:
        return None if self._kept is None else bytes(self._kept)

    def add(self, text: str) -> None:
        piece = text.encode()
        _check_bytes(self._request, self.digest.byte_count + len(piece))
        self.digest.add(piece)
        if self._kept is not None:
            self._kept += piece


def _build(
    request: SnapshotRequest, members: Iterable[Row], *, token: int | None, keep_payload: bool
) -> Snapshot:
    profile = PROFILES[request.profile]
    owner = encode_namespace(profile, request.namespace)
    payload = _Payload(request, keep=keep_payload)
    payload.add(encode_head(profile, owner, tuple(request.statuses)))
    ids: list[str] = []
    for row in members:
        if ids:
            payload.add(",")
        ids.append(row["id"])
        for text in encode_memory(profile, row, owner):
            payload.add(text)
    payload.add("]}")
    return Snapshot(
        profile=request.profile,
        namespace=request.namespace,
        statuses=tuple(request.statuses),
        ids=tuple(ids),
        byte_count=payload.digest.byte_count,
        digest=str(payload.digest),
        token=token,
        payload=payload.kept,
    )


def _plain_row(record: MemoryRecord) -> Row:
    row = record.model_dump(mode="json", exclude={"namespace"})
    for state in (row, *row["history"]):
        state["tags"] = encode_json(state["tags"])
        state["metadata"] = encode_json(state["metadata"])
    return row
