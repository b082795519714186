"""Which requests are answered, under which budgets, in which order of checks; what is forged."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from helpers.snapshots import HERE, THERE, Said, make_record, snap

from storage.errors import (
    AdmissionError,
    InvariantError,
    LimitExceededError,
    NamespaceMismatchError,
)
from storage.models import MemoryRecord, Namespace, Status
from storage.snapshot_profiles import HISTORY_PROFILE, PROFILES
from storage.snapshots import (
    MAX_BYTES,
    MAX_NODES,
    Snapshot,
    SnapshotRequest,
    snapshot_from_query,
    verify_snapshot,
)


@pytest.mark.parametrize(("max_nodes", "limit"), [(1, 2), (98, 99), (99, 100), (MAX_NODES, 100)])
def test_query_is_asked_for_one_hit_more_than_fits(max_nodes: int, limit: int) -> None:
    asked: list[int] = []

    def query(_: Namespace, __: object, limit: int) -> list[MemoryRecord]:
        asked.append(limit)
        return []

    snapshot_from_query(SnapshotRequest(HERE, max_nodes=max_nodes), query, token=7)
    assert asked == [limit]


@pytest.mark.parametrize("profile", PROFILES)
def test_budgets_hold_to_the_byte_and_the_row(profile: str) -> None:
    rows = [make_record(), make_record(id="n2")]
    size = snap(*rows, profile=profile).byte_count
    exact = snap(*rows, profile=profile, max_bytes=size, max_nodes=2)
    assert exact == snap(*rows, profile=profile)
    with pytest.raises(LimitExceededError) as caught:
        snap(*rows, profile=profile, max_bytes=size - 1)
    assert caught.value.facts == {
        "resource": "namespace snapshot bytes",
        "limit": size - 1,
        "actual": size,
    }


def test_budget_may_end_before_the_first_row() -> None:
    with pytest.raises(LimitExceededError) as caught:
        snap(max_bytes=140)
    assert caught.value.facts["actual"] == 141


NODES = "namespace snapshot nodes"
BYTES = "namespace snapshot bytes"
NONE: list[str] = []


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        pytest.param({"statuses": NONE}, {"field": "snapshot.statuses"}, id="no-status"),
        pytest.param({"statuses": "active"}, {"field": "snapshot.statuses"}, id="text"),
        pytest.param({"statuses": ["archived"]}, {"field": "snapshot.statuses"}, id="unknown"),
        pytest.param({"statuses": [None]}, {"field": "snapshot.statuses"}, id="null-status"),
        pytest.param({"statuses": [["active"]]}, {"field": "snapshot.statuses"}, id="nested"),
        pytest.param({"max_nodes": 0}, {"field": "snapshot.max_nodes"}, id="V74-no-node"),
        pytest.param({"max_nodes": True}, {"field": "snapshot.max_nodes"}, id="bool"),
        pytest.param({"max_nodes": 1.0}, {"field": "snapshot.max_nodes"}, id="float"),
        pytest.param({"max_bytes": 0}, {"field": "snapshot.max_bytes"}, id="V74-no-byte"),
        pytest.param({"max_bytes": "9"}, {"field": "snapshot.max_bytes"}, id="text-budget"),
        pytest.param({"profile": "v1"}, {"field": "snapshot.profile"}, id="unknown-profile"),
        pytest.param({"profile": ["v1"]}, {"field": "snapshot.profile"}, id="list-of-profiles"),
        pytest.param(
            {"max_nodes": MAX_NODES + 1},
            {"resource": NODES, "limit": MAX_NODES, "actual": MAX_NODES + 1},
            id="V74-nodes",
        ),
        pytest.param(
            {"max_bytes": MAX_BYTES + 1},
            {"resource": BYTES, "limit": MAX_BYTES, "actual": MAX_BYTES + 1},
            id="V74-bytes",
        ),
    ],
)
def test_bad_request_is_refused(options: Said, facts: Said) -> None:
    with pytest.raises((AdmissionError, LimitExceededError)) as caught:
        SnapshotRequest(HERE, **options)
    assert facts.items() <= caught.value.facts.items()


def test_statuses_are_said_in_canonical_order_and_once() -> None:
    request = SnapshotRequest(HERE, statuses=[*reversed(Status), Status.ACTIVE])
    assert request.statuses == tuple(Status)
    assert snap(statuses={"tombstoned", "candidate"}).statuses == ("candidate", "tombstoned")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([make_record(namespace=THERE)], id="foreign-namespace"),
        pytest.param([make_record(status="candidate")], id="foreign-status"),
        pytest.param([make_record(), make_record(status="tombstoned")], id="before-the-duplicate"),
    ],
)
def test_foreign_row_is_refused(rows: list[MemoryRecord]) -> None:
    with pytest.raises(NamespaceMismatchError) as caught:
        snap(*rows, max_bytes=1)
    assert caught.value.facts == {"context": "namespace snapshot"}


def test_row_without_a_namespace_is_one_of_the_requested_one() -> None:
    assert snap(make_record()) == snap(make_record(namespace=HERE))


def test_id_that_occurs_twice_is_refused() -> None:
    with pytest.raises(InvariantError) as caught:
        snap(make_record(), make_record(id="a"), make_record(content="other"))
    assert caught.value.facts["memory_id"] == "n1"


def test_count_is_checked_before_the_rows_and_is_the_true_one() -> None:
    rows = [make_record(id=f"m{number}", namespace=THERE) for number in range(7)]
    with pytest.raises(LimitExceededError) as caught:
        snap(*rows, max_nodes=3, max_bytes=1)
    assert caught.value.facts == {"resource": NODES, "limit": 3, "actual": 7}


@pytest.mark.parametrize("name", ["created_at", "updated_at"])
def test_row_without_its_times_is_refused(name: str) -> None:
    record = make_record().model_copy(update={name: None})
    with pytest.raises(AdmissionError) as caught:
        snap(record)
    assert caught.value.field == f"memory.{name}"


def test_earlier_state_without_its_time_is_refused() -> None:
    record = make_record(revision=2, history=[{"content": "old"}])
    with pytest.raises(AdmissionError) as caught:
        snap(record, profile=HISTORY_PROFILE)
    assert caught.value.field == "memory.updated_at"


ROWS = [make_record(id="a"), make_record()]
TRUE = snap(*ROWS)
FORGERIES: dict[str, Callable[[Snapshot], Snapshot]] = {
    "profile": lambda true: replace(true, profile=HISTORY_PROFILE),
    "namespace": lambda true: replace(true, namespace=THERE),
    "statuses": lambda true: replace(true, statuses=("active", "tombstoned")),
    "order": lambda true: replace(true, ids=true.ids[::-1]),
    "missing": lambda true: replace(true, ids=true.ids[:1]),
    "byte-count": lambda true: replace(true, byte_count=true.byte_count - 1),
    "digest": lambda true: replace(true, digest=true.digest.upper()),
    "payload": lambda true: replace(true, payload=b"{}"),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_snapshot_is_refused(forge: Callable[[Snapshot], Snapshot]) -> None:
    with pytest.raises(InvariantError):
        verify_snapshot(forge(TRUE), SnapshotRequest(HERE), ROWS)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(ROWS[::-1], id="order"),
        pytest.param(ROWS[:1], id="missing"),
        pytest.param([ROWS[0], make_record(content="beta")], id="content"),
        pytest.param([ROWS[0], make_record(namespace=THERE)], id="namespace"),
        pytest.param([ROWS[0], make_record(status="candidate")], id="status"),
    ],
)
def test_snapshot_of_other_rows_is_refused(rows: list[MemoryRecord]) -> None:
    with pytest.raises(InvariantError):
        verify_snapshot(TRUE, SnapshotRequest(HERE), rows)


def test_snapshot_out_of_order_is_refused_though_its_rows_agree() -> None:
    claimed = replace(TRUE, ids=TRUE.ids[::-1])
    with pytest.raises(InvariantError):
        verify_snapshot(claimed, SnapshotRequest(HERE), ROWS[::-1])


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(SnapshotRequest(THERE), id="namespace"),
        pytest.param(SnapshotRequest(HERE, statuses=list(Status)), id="statuses"),
        pytest.param(SnapshotRequest(HERE, profile=HISTORY_PROFILE), id="profile"),
    ],
)
def test_answer_to_another_request_is_refused(request_: SnapshotRequest) -> None:
    rows = [record.model_copy(update={"namespace": HERE}) for record in ROWS]
    with pytest.raises(InvariantError):
        verify_snapshot(TRUE, request_, rows)


@pytest.mark.parametrize("token", [None, 0, 7])
def test_token_and_budgets_are_no_part_of_the_identity(token: int | None) -> None:
    request = SnapshotRequest(HERE, max_nodes=2, max_bytes=TRUE.byte_count)
    verify_snapshot(replace(TRUE, token=token), request, ROWS)
    verify_snapshot(replace(TRUE, payload=None), request, ROWS)


def test_verify_holds_the_budgets_of_its_request() -> None:
    with pytest.raises(LimitExceededError):
        verify_snapshot(TRUE, SnapshotRequest(HERE, max_nodes=1), ROWS)
