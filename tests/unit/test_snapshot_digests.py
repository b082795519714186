"""The vectors of snapshots, and what moves their digests."""

import json
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from itertools import permutations
from pathlib import Path

import pytest
from helpers.snapshots import EVIDENCE, HERE, Said, make_record, snap

from storage.errors import AdmissionError, InvariantError, LimitExceededError, MaintenanceError
from storage.models import Kind, MemoryRecord, MemoryState, Namespace, Status
from storage.snapshot_profiles import (
    DEFAULT_PROFILE,
    HISTORY_PROFILE,
    PROFILES,
    UPSTREAM_PROFILE,
)
from storage.snapshots import (
    MAX_NODES,
    SnapshotRequest,
    snapshot_from_query,
    snapshot_from_rows,
    verify_snapshot,
)

_FILE = Path(__file__).parent.parent / "vectors" / "repository-vectors.json"
CASES = json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
AT = "2026-01-01T00:00:00Z"


def each_case(kind: str) -> pytest.MarkDecorator:
    cases = [pytest.param(case, id=case["id"]) for case in CASES if case["type"] == kind]
    assert cases
    return pytest.mark.parametrize("case", cases)


def read_rows(memories: Iterable[Said]) -> list[MemoryRecord]:
    return [MemoryRecord.model_validate(memory) for memory in memories]


def digest(record: MemoryRecord, profile: str = DEFAULT_PROFILE) -> str:
    return snap(record, profile=profile, statuses=list(Status)).digest


@each_case("digest")
def test_digest_and_size_are_the_published_ones(case: Said) -> None:
    given, expected = case["inputs"], case["expected"]
    request = SnapshotRequest(
        Namespace.model_validate(given["namespace"]),
        statuses=given["statuses"],
        profile=given["profile"],
    )
    found = snapshot_from_rows(request, read_rows(given["memories"]))
    assert list(found.ids) == expected["ids"]
    assert list(found.statuses) == expected["statuses"]
    assert (found.byte_count, found.digest) == (expected["byte_count"], expected["digest"])
    assert (found.token, found.payload) == (None, None)


@each_case("snapshot_verify")
def test_verify_ends_as_the_vectors_say(case: Said) -> None:
    given, expected = case["inputs"], case["expected"]
    rows = read_rows(given["memories"])
    true = snapshot_from_rows(SnapshotRequest(HERE, profile=given["profile"]), rows)
    claimed = replace(true, digest=given["digest"], byte_count=given["byte_count"])
    budgets = {name: given[name] for name in ("max_nodes", "max_bytes") if name in given}
    request = SnapshotRequest(HERE, profile=given["profile"], **budgets)
    if "error" not in expected:
        verify_snapshot(claimed, request, rows)
        return
    with pytest.raises(MaintenanceError) as caught:
        verify_snapshot(claimed, request, rows)
    assert caught.value.code == expected["error"]["code"]


@each_case("custom_snapshot")
def test_custom_repository_ends_as_the_vectors_say(case: Said) -> None:
    given, expected = case["inputs"], case["expected"]
    rows = [make_record(id=f"m{number:03}") for number in range(given.get("hits", 0))]
    request = SnapshotRequest(HERE, max_nodes=given.get("max_nodes", MAX_NODES))

    def query(namespace: Namespace, statuses: object, limit: int) -> list[MemoryRecord]:
        assert (namespace, statuses) == (HERE, ("active",))
        return rows[:limit]

    if "error" in expected:
        with pytest.raises(LimitExceededError) as caught:
            snapshot_from_query(request, query)
        assert {"code": caught.value.code, **caught.value.facts} == expected["error"]
        return
    found = snapshot_from_query(request, query, token=given.get("token"))
    assert len(found.ids) == expected.get("ids", 0)
    assert found.token is None


@pytest.mark.parametrize("profile", PROFILES)
def test_order_of_rows_evidence_and_edges_does_not_matter(profile: str) -> None:
    items = [{**EVIDENCE, "uri": f"e://{name}"} for name in "béa"]
    edges = [{"kind": kind, "target_id": "x"} for kind in ("related_to", "supersedes")]
    orders = permutations(["B", "_", "é", "\U0001f600"])
    found = {
        snap(
            *(
                make_record(id=name, evidence=items[::step], relations=edges[::step])
                for name in order
            ),
            profile=profile,
        )
        for order in orders
        for step in (1, -1)
    }
    assert len(found) == 1
    assert found.pop().ids == ("B", "_", "é", "\U0001f600")


@pytest.mark.parametrize("profile", PROFILES)
def test_payload_is_what_was_digested(profile: str) -> None:
    found = snap(make_record(content='"\n\u2028'), make_record(id="n2"), profile=profile)
    assert found.payload is not None
    domain = PROFILES[profile].domain.encode()
    assert found.digest == "sha256:" + sha256(domain + b"\0" + found.payload).hexdigest()
    assert found.byte_count == len(found.payload)
    said = json.loads(found.payload)
    assert said["profile"] == profile
    assert [one["content"] for one in said[[*said][-1]]] == ['"\n\u2028', "alpha"]


PAST = MemoryState.model_validate({"content": "old", "updated_at": AT})


def test_history_is_in_two_profiles_and_counts_there() -> None:
    older = make_record(revision=2, history=[PAST])
    other = make_record(revision=2, history=[PAST.model_copy(update={"content": "older"})])
    assert digest(older) == digest(other) == digest(make_record(revision=2))
    for profile in (HISTORY_PROFILE, UPSTREAM_PROFILE):
        found = {digest(one, profile) for one in (older, other, make_record(revision=2))}
        assert len(found) == 3


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(make_record(kind="working"), id="now"),
        pytest.param(
            make_record(revision=2, history=[PAST.model_copy(update={"kind": Kind.WORKING})]),
            id="earlier",
        ),
    ],
)
def test_upstream_profile_refuses_working_memories(record: MemoryRecord) -> None:
    assert digest(record)
    with pytest.raises(AdmissionError) as caught:
        digest(record, UPSTREAM_PROFILE)
    assert caught.value.field == "memory.kind"


def test_stored_number_that_is_not_finite_is_an_invariant_violation() -> None:
    record = make_record(content="canary").model_copy(update={"salience": float("nan")})
    with pytest.raises(InvariantError) as caught:
        digest(record)
    assert caught.value.facts["memory_id"] == "n1"
    assert "canary" not in str(caught.value)


LATER = "2026-02-01T00:00:00Z"
OUTSIDE: Said = {
    "access_count": 7,
    "origin": "store_api",
    **dict.fromkeys(("last_accessed_at", "content_at", "tombstoned_at", "restored_at"), LATER),
}
UNKNOWN_UPSTREAM: Said = {"salience": 1.5, "tags": ["t"], "pinned": True, "expires_at": LATER}
INSIDE: Said = {
    "id": "n2",
    "kind": "procedural",
    "status": "tombstoned",
    "content": "beta",
    "confidence": 0.25,
    "importance": 0.25,
    "metadata": {"k": ""},
    "evidence": [{**EVIDENCE, "kind": "verification"}],
    "relations": [{"kind": "related_to", "target_id": "n2"}],
    "updated_at": LATER,
    "revision": 2,
    "revision_kind": "annotated",
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", OUTSIDE)
def test_access_derived_clocks_and_origin_move_no_digest(name: str, profile: str) -> None:
    assert digest(make_record(**{name: OUTSIDE[name]}), profile) == digest(make_record(), profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", INSIDE)
def test_each_field_moves_every_digest(name: str, profile: str) -> None:
    assert digest(make_record(**{name: INSIDE[name]}), profile) != digest(make_record(), profile)


@pytest.mark.parametrize("name", UNKNOWN_UPSTREAM)
def test_upstream_profile_loses_some_fields(name: str) -> None:
    other = make_record(**{name: UNKNOWN_UPSTREAM[name]})
    assert digest(other, UPSTREAM_PROFILE) == digest(make_record(), UPSTREAM_PROFILE)
    assert digest(other) != digest(make_record())
    assert digest(other, HISTORY_PROFILE) != digest(make_record(), HISTORY_PROFILE)
