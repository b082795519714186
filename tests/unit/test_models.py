"""Whatever passes the models may be stored: sizes in bytes, plain text, finite numbers in range."""

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from storage.models import (
    EvidenceKind,
    Kind,
    MemoryRecord,
    Namespace,
    RelationKind,
    Status,
    format_namespace,
    parse_namespace,
    round_to_f32,
)

CANARY = "canary-4711"
BLANK = {"empty": "", "spaces": "  ", "no-break-space": "\u00a0", "newline": "\n"}
BROKEN = {"NUL": "a\0b", "surrogate": "a\ud800", "two-surrogates": "\ud83d\ude00"}
CONTROL = {"tab": "a\tb", "escape": "\x1b[1m", "newline-inside": "a\nb", "delete": "a\x7f"}
NO_TEXT = {"number": 1, "null": None, "bool": True, "bytes": b"a", "tuple": ("a",)}
TEXTS: dict[str, object] = {**BLANK, **BROKEN, **NO_TEXT}
IDENTIFIERS: dict[str, object] = {**TEXTS, **CONTROL}
NUMBERS: dict[str, object] = {
    "NaN": math.nan,
    "infinity": math.inf,
    "minus-infinity": -math.inf,
    "true": True,
    "text": "0.5",
    "huge": 10**400,
    "huge-negative": -(10**400),
    "list": [0.5],
}
UNITS: dict[str, object] = {
    **NUMBERS,
    "null": None,
    "7": 7,
    "just-above": 1.0000001,
    "1.01": 1.01,
    "-.1": -0.1,
    "-1": -1,
}
SALIENCES: dict[str, object] = {**NUMBERS, "0": 0, "just-below": 0.2499999, "just-above": 2.0000001}
INTEGERS: dict[str, object] = {
    "negative": -1,
    "past-64-bits": 2**63,
    "huge": 10**400,
    "true": True,
    "text": "1",
    "float": 1.0,
    "NaN": math.nan,
    "null": None,
}
FLAGS: dict[str, object] = {"1": 1, "text": "true", "null": None}
INSTANTS: dict[str, object] = {"word": "soonish", "number": 0, "bool": True, "no-day": "2026-02-30"}
BARE_DATE = {"bare-date": "2026-01-31"}


def evidence(**changes: object) -> dict[str, object]:
    made = {"uri": "e://1", "digest": "d1", "kind": "manual", "occurred_at": "2026-01-01T00:00Z"}
    return made | changes


def relation(**changes: object) -> dict[str, object]:
    return {"kind": "related_to", "target_id": "m2", **changes}


def namespace(**changes: object) -> dict[str, object]:
    return {"tenant": "t", "principal": "p", "scope": "s", **changes}


def record(changes: Mapping[str, object]) -> MemoryRecord:
    return MemoryRecord.model_validate({"id": "m1", "content": "text", **changes})


def numbered(count: int, make: Callable[[str], object] = str) -> list[object]:
    return [make(str(number)) for number in range(count)]


def each(
    field: str, values: Mapping[str, object], wrap: Callable[[Any], object] = lambda value: value
) -> Iterator[object]:
    """Give one parameter set a value: a record with that field."""
    for name, value in values.items():
        yield pytest.param({field: wrap(value)}, id=f"{field}-{name}")


def sizes(limit: int) -> dict[str, object]:
    """Give texts of just more bytes than the limit, in one-byte and in longer characters."""
    return {f"{limit + 1}-bytes": "x" * (limit + 1), "wide": "数" * (limit // 3 + 1)}


REFUSED = [
    *each("id", IDENTIFIERS | sizes(256)),
    *each("content", TEXTS | sizes(65_536)),
    *each("confidence", UNITS),
    *each("importance", UNITS),
    *each("salience", SALIENCES),
    *each("revision", INTEGERS | {"0": 0}),
    *each("access_count", INTEGERS),
    *each("pinned", FLAGS),
    *each("kind", {"capital": "Semantic", "blank": "semantic ", "other": "fact", "null": None}),
    *each("status", {"archived": "archived", "capital": "Active", "null": None}),
    *each("origin", {"other": "upload"}),
    *each("revision_kind", {"other": "changed"}),
    *each("tags", IDENTIFIERS | sizes(128), lambda tag: [tag]),
    *each("tags", {"65": numbered(65), "text": "keep", "null": None}),
    *each("metadata", IDENTIFIERS | sizes(128), lambda key: {key: "x"}),
    *each("metadata", {"spaces": "  ", **BROKEN, **NO_TEXT}, lambda value: {"of": value}),
    *each("metadata", sizes(1_024), lambda value: {"of": value}),
    *each("metadata", {"65": dict.fromkeys(numbered(65), "x"), "list": ["x"], "null": None}),
    *each("evidence", IDENTIFIERS | sizes(2_048), lambda uri: [evidence(uri=uri)]),
    *each("evidence", IDENTIFIERS | sizes(256), lambda digest: [evidence(digest=digest)]),
    *each("evidence", {"kind": "rumour", "null": None}, lambda kind: [evidence(kind=kind)]),
    *each("evidence", INSTANTS | BARE_DATE, lambda at: [evidence(occurred_at=at)]),
    *each("evidence", {"same-uri": [evidence(), evidence(digest="d2")]}),
    *each("evidence", {"unknown-field": [evidence(body="x")], "text": "e://1"}),
    *each("evidence", {"65": numbered(65, lambda uri: evidence(uri=uri))}),
    *each("relations", IDENTIFIERS | sizes(256), lambda target: [relation(target_id=target)]),
    *each("relations", {"kind": [relation(kind="merges")], "itself": [relation(target_id="m1")]}),
    *each("relations", {"unknown-field": [relation(weight=1)]}),
    *each("relations", {"257": numbered(257, lambda target: relation(target_id=target))}),
    *each("namespace", IDENTIFIERS | sizes(256), lambda part: namespace(scope=part)),
    *each("namespace", {"missing": {"tenant": "t", "principal": "p"}, "text": "t/p/s"}),
    *each("namespace", {"unknown-field": namespace(owner="o")}),
    *each("created_at", INSTANTS | BARE_DATE),
    *each("last_accessed_at", INSTANTS | BARE_DATE),
    *each("expires_at", INSTANTS),
    *each("updated_at", {"without-created_at": "2026-01-01T00:00Z"}),
    *each("history", {"same-revision": [{"content": "x", "revision": 1}]}),
    *each("owner", {"unknown-field": "x"}),
]
ACCEPTED = [
    *each("id", {"256-bytes": "x" * 256, "wide": "é" * 128, "SQL": "x' OR 1=1 --", "like": "%"}),
    *each("content", {"65536-bytes": "x" * 65_536, "wide": "数" * 21_845, "tab": "a\tb\nc"}),
    *each("importance", {"0": 0, "1": 1, "smallest": 5e-324}),
    *each("confidence", {"0": 0.0, "1": 1.0}),
    *each("salience", {"low": 0.25, "high": 2, "null": None}),
    *each("revision", {"1": 1, "largest": 2**63 - 1}),
    *each("access_count", {"0": 0, "past-32-bits": 2**31, "largest": 2**63 - 1}),
    *each("kind", {"working": "working", "member": Kind.SEMANTIC}),
    *each("tags", {"64": numbered(64), "128-bytes": ["x" * 128], "blank-inside": [" a b "]}),
    *each("metadata", {"64": dict.fromkeys(numbered(64), "x"), "empty-value": {"a": ""}}),
    *each("metadata", {"largest": {"k" * 128: "v" * 1_024}, "tab-in-value": {"a": "b\tc"}}),
    *each("evidence", {"64": numbered(64, lambda uri: evidence(uri=uri))}),
    *each("evidence", {"largest": [evidence(uri="u" * 2_048, digest="d" * 256)]}),
    *each("relations", {"256": numbered(256, lambda target: relation(target_id=target))}),
    *each("namespace", {"256-bytes": namespace(tenant="é" * 128), "null": None}),
    *each("expires_at", {"bare-date": "2026-01-31", "null": None}),
    *each("history", {"none": []}),
]


@pytest.mark.parametrize("changes", REFUSED)
def test_value_outside_the_bounds_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        record(changes)
    (error,), (field,) = caught.value.errors(), changes
    assert field in f"{error['loc']} {error['msg']}"


@pytest.mark.parametrize("changes", ACCEPTED)
def test_value_at_the_bounds_is_accepted(changes: dict[str, object]) -> None:
    record(changes)


@pytest.mark.parametrize("missing", ["id", "content"])
def test_id_and_content_are_required(missing: str) -> None:
    given = {"id": "m1", "content": "text"}
    del given[missing]
    with pytest.raises(ValidationError, match=missing):
        MemoryRecord.model_validate(given)


def test_refusal_names_the_field_and_not_the_value() -> None:
    for changes in ({"importance": CANARY}, {"tags": [f"{CANARY}\0"]}, {"kind": CANARY}):
        with pytest.raises(ValidationError, match=next(iter(changes))) as caught:
            record(changes)
        assert CANARY not in str(caught.value)


def test_defaults_are_those_of_the_rule() -> None:
    made = record({})
    assert (made.confidence, made.importance, made.salience) == (0.5, 0.5, None)
    assert (made.tags, made.metadata, made.pinned, made.expires_at) == ((), {}, False, None)
    assert (made.kind, made.status, made.revision) == (Kind.EPISODIC, Status.ACTIVE, 1)
    assert (made.access_count, made.evidence, made.relations) == (0, (), ())


@pytest.mark.parametrize(
    ("value", "stored"), [(0.8, 0.800000011920929), (1 / 3, 0.3333333432674408), (1, 1.0), (0, 0.0)]
)
def test_number_is_rounded_to_32_bits(value: float, stored: float) -> None:
    assert record({"importance": value}).importance == stored


def test_negative_zero_becomes_zero() -> None:
    assert math.copysign(1, record({"importance": -0.0}).importance) == 1
    assert math.copysign(1, round_to_f32(-1e-60)) == 1


def test_later_duplicates_of_tags_and_relations_are_dropped() -> None:
    edges = [relation(target_id="b"), relation(target_id="a"), relation(target_id="b")]
    made = record({"tags": ["b", "a", "b", "B"], "relations": edges})
    assert made.tags == ("b", "a", "B")
    assert [edge.target_id for edge in made.relations] == ["b", "a"]


def test_composed_and_decomposed_ids_stay_two() -> None:
    assert record({"id": "\u00e9"}).id != record({"id": "e\u0301"}).id


def test_instants_are_read_in_utc() -> None:
    made = record({"created_at": "2026-01-01T01:00+01:00", "expires_at": "2026-01-31"})
    assert made.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert made.expires_at == datetime(2026, 2, 1, tzinfo=UTC)


def test_update_before_the_creation_is_refused() -> None:
    created = {"created_at": "2026-01-02T00:00Z"}
    record(created | {"updated_at": "2026-01-02T00:00Z"})
    with pytest.raises(ValidationError, match="before created_at"):
        record(created | {"updated_at": "2026-01-01T23:59:59.999999Z"})


@pytest.mark.parametrize("revisions", [[1, 1], [2, 1], [1, 4], [1, 5]])
def test_history_that_does_not_grow_to_the_current_revision_is_refused(
    revisions: list[int],
) -> None:
    record({"revision": 4, "history": [{"content": "x", "revision": n} for n in (1, 3)]})
    with pytest.raises(ValidationError, match="revisions must grow"):
        record({"revision": 4, "history": [{"content": "x", "revision": n} for n in revisions]})


def test_record_reads_back_from_its_own_json() -> None:
    made = record(
        {
            "namespace": namespace(),
            "created_at": "0999-01-01T00:00Z",
            "salience": 0.3,
            "metadata": {"b": "", "a": "é"},
            "evidence": [evidence()],
            "relations": [relation()],
            "revision": 2,
            "history": [{"content": "before", "expires_at": "2026-01-31"}],
        }
    )
    assert MemoryRecord.model_validate_json(made.model_dump_json()) == made


def test_choices_stand_in_canonical_order() -> None:
    assert " ".join(Status) == "candidate active superseded conflicted tombstoned"
    assert " ".join(Kind) == "episodic semantic procedural working"
    assert " ".join(RelationKind) == "supersedes superseded_by conflicts_with related_to"
    assert " ".join(EvidenceKind) == (
        "user_statement tool_result artifact session_turn verification manual"
    )


def test_inverse_of_an_inverse_is_the_relation_itself() -> None:
    assert {kind.inverse.inverse is kind for kind in RelationKind} == {True}
    assert RelationKind.SUPERSEDES.inverse is RelationKind.SUPERSEDED_BY
    assert RelationKind.RELATED_TO.inverse is RelationKind.RELATED_TO


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t/p/s", ("t", "p", "s")),
        ("a%2Fb/p/s", ("a/b", "p", "s")),
        ("%2F/%2F%2F/s", ("/", "//", "s")),
        ("100%25/p/s", ("100%", "p", "s")),
        ("a%252Fb/p/s", ("a%2Fb", "p", "s")),
        ("%25252F/%2525/%25%2F%25", ("%252F", "%25", "%/%")),
        ("é/ p /数", ("é", " p ", "数")),
    ],
)
def test_namespace_text_and_parts_are_the_same(text: str, parts: tuple[str, str, str]) -> None:
    expected = Namespace(**dict(zip(("tenant", "principal", "scope"), parts, strict=True)))
    assert parse_namespace(text) == expected
    assert format_namespace(expected) == text
    assert format_namespace(expected.model_dump()) == text


@pytest.mark.parametrize("text", ["", "t", "t/p", "t/p/s/x", "/p/s", "t//s", "t/p/ ", "t/p/\u00a0"])
def test_text_without_three_parts_is_no_namespace(text: str) -> None:
    with pytest.raises(ValueError, match=r"tenant/principal/scope|must not be blank"):
        parse_namespace(text)
