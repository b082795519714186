"""Keys are stable, and a table's digest depends on its values alone and on each of them."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from storage.digests import (
    digest_parts,
    digest_record,
    digest_table,
    encode_json,
    lease_key,
    namespace_key,
)
from storage.models import DEFAULT_NAMESPACE, MemoryRecord, Namespace

HEADER = {"job": "prune"}
NOW = datetime(2026, 9, 30, tzinfo=UTC)
MAIN = "mtn_95f468b1145d05dc9783e0351ff90652b026590e39c6d8dbb5c1b02f8a8fa089"
COLUMNS: dict[str, tuple[pa.DataType, list[object]]] = {
    "id": (pa.string(), ["m1", "m2", None, "", "数据库"]),
    "revision": (pa.int64(), [3, 1, 4, 1, 5]),
    "status": (pa.string(), ["active", "candidate", "active", "conflicted", "active"]),
    "count": (pa.int64(), [1, 0, None, -1, 2**63 - 1]),
    "score": (pa.float64(), [0.1, 0.0, None, -1.5, 1e300]),
    "importance": (pa.float32(), [0.5, 0.0, None, 1.0, 0.25]),
    "pinned": (pa.bool_(), [True, False, None, False, True]),
    "at": (pa.timestamp("us", tz="UTC"), [NOW, NOW + timedelta(microseconds=1), None, NOW, NOW]),
}
CHANGES: list[tuple[str, int, object]] = [
    ("id", 0, "m3"),
    ("id", 2, ""),
    ("id", 3, None),
    ("id", 4, "数据"),
    ("revision", 0, 1),
    ("status", 0, "Active"),
    ("count", 0, 2),
    ("count", 2, 0),
    ("count", 1, None),
    ("score", 0, 0.1 + 2**-56),
    ("score", 2, 0.0),
    ("score", 1, -0.0),
    ("importance", 0, 0.5 + 2**-24),
    ("importance", 2, 0.0),
    ("pinned", 0, False),
    ("pinned", 2, False),
    ("pinned", 1, None),
    ("at", 0, NOW + timedelta(microseconds=1)),
    ("at", 2, datetime(1970, 1, 1, tzinfo=UTC)),
]


def build(columns: dict[str, tuple[pa.DataType, list[object]]]) -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


def texts(**columns: list[str | None]) -> str:
    return digest_table(HEADER, build({name: (pa.string(), [*v]) for name, v in columns.items()}))


TABLE = build(COLUMNS)
DIGEST = digest_table(HEADER, TABLE)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_digest_does_not_depend_on_chunks(size: int) -> None:
    pieces = [TABLE.slice(start, size) for start in range(0, TABLE.num_rows, size)]
    assert digest_table(HEADER, pa.concat_tables(pieces)) == DIGEST


@pytest.mark.parametrize("before", [1, 3, 8, 9])
def test_digest_of_a_slice_is_that_of_its_rows(before: int) -> None:
    padding = pa.concat_tables([TABLE] * 3).slice(0, before)
    longer = pa.concat_tables([padding, TABLE, TABLE]).combine_chunks()
    assert digest_table(HEADER, longer.slice(before, TABLE.num_rows)) == DIGEST


def test_digest_does_not_depend_on_empty_chunks() -> None:
    pieces = [TABLE.slice(0, 0), TABLE.slice(0, 2), TABLE.slice(2, 0), TABLE.slice(2)]
    assert digest_table(HEADER, pa.concat_tables(pieces)) == DIGEST


def test_digest_does_not_depend_on_what_lies_under_a_null() -> None:
    values = pa.py_buffer((7).to_bytes(8, "little") + (9).to_bytes(8, "little"))
    nulls = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x02"), values])
    plain = pa.array([None, 9], pa.int64())
    assert digest_table(HEADER, pa.table({"a": nulls})) == digest_table(
        HEADER, pa.table({"a": plain})
    )


@pytest.mark.parametrize(("name", "row", "value"), CHANGES)
def test_each_value_moves_the_digest(name: str, row: int, value: object) -> None:
    kind, values = COLUMNS[name]
    changed = COLUMNS | {name: (kind, [*values[:row], value, *values[row + 1 :]])}
    assert digest_table(HEADER, build(changed)) != DIGEST


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_moves_the_digest(name: str) -> None:
    assert digest_table(HEADER, TABLE.drop_columns(name)) != DIGEST
    renamed = [f"{column}_" if column == name else column for column in TABLE.column_names]
    assert digest_table(HEADER, TABLE.rename_columns(renamed)) != DIGEST


def test_order_of_rows_and_columns_moves_the_digest() -> None:
    assert digest_table(HEADER, TABLE.take([1, 0, 2, 3, 4])) != DIGEST
    assert digest_table(HEADER, TABLE.select(TABLE.column_names[::-1])) != DIGEST


def test_number_of_rows_moves_the_digest() -> None:
    digests = {digest_table(HEADER, TABLE.slice(0, rows)) for rows in range(TABLE.num_rows + 1)}
    assert len(digests) == TABLE.num_rows + 1


def test_header_moves_the_digest() -> None:
    assert digest_table({"job": "sweep"}, TABLE) != DIGEST
    assert digest_table({"job": "prune", "a": None}, TABLE) != DIGEST


def test_type_moves_the_digest() -> None:
    zeros = (pa.table({"a": pa.array([0], kind)}) for kind in (pa.int64(), pa.float64()))
    assert len({digest_table(HEADER, table) for table in zeros}) == 2


def test_moved_boundaries_between_texts_move_the_digest() -> None:
    digests = [
        texts(a=["ab", "c"]),
        texts(a=["a", "bc"]),
        texts(a=["abc", ""]),
        texts(a=["", "abc"]),
        texts(a=["abc", None]),
        texts(a=["abc"]),
        texts(a=["ab"], b=["c"]),
        texts(a=["a"], b=["bc"]),
        texts(a=["é"]),
        texts(a=["e\u0301"]),
    ]
    assert len(set(digests)) == len(digests)


def test_lease_keys_are_the_published_ones() -> None:
    assert lease_key("main", MAIN, "prune") == (
        "mtl_7bdc5eb49405dde63a842752dd4fbfecd34b8c4f87059088e7ffc95be7748440"
    )
    assert lease_key("main", MAIN, "refresh") == (
        "mtl_c9b7d6d5873ee01b5220146a4e6c8c3ed9f340191d855eb6fa9b28354cc4d9c4"
    )


@pytest.mark.parametrize(
    "other",
    [
        Namespace(tenant="defaul", principal="tdefault", scope="default"),
        Namespace(tenant="Default", principal="default", scope="default"),
        Namespace(tenant="default ", principal="default", scope="default"),
        Namespace(tenant="default", principal="default/default", scope="x"),
        Namespace(tenant="e\u0301", principal="default", scope="default"),
        Namespace(tenant="\u00e9", principal="default", scope="default"),
    ],
)
def test_namespace_keys_differ_where_the_parts_do(other: Namespace) -> None:
    keys = {namespace_key(other), namespace_key(DEFAULT_NAMESPACE), MAIN}
    assert len(keys) == 3
    assert {len(key) for key in keys} == {68}


def test_parts_are_separated() -> None:
    assert digest_parts("d", [b"ab", b"c"]) != digest_parts("d", [b"a", b"bc"])
    assert digest_parts("da", [b"b"]) != digest_parts("d", [b"ab"])


def test_json_is_compact_sorted_and_unescaped() -> None:
    assert encode_json({"b": [1, None, True], "a": "é"}) == '{"a":"é","b":[1,null,true]}'


def test_record_digest_ignores_order_of_evidence_and_relations() -> None:
    evidence = [
        {"uri": f"e://{x}", "digest": "d", "kind": "manual", "occurred_at": NOW} for x in "ab"
    ]
    relations = [{"kind": "related_to", "target_id": target} for target in "xy"]
    given = {"id": "m1", "content": "text", "created_at": NOW}
    one = MemoryRecord(**given, evidence=evidence, relations=relations)
    other = MemoryRecord(**given, evidence=evidence[::-1], relations=relations[::-1])
    assert digest_record(one) == digest_record(other)
    assert digest_record(one) != digest_record(MemoryRecord(**given, evidence=evidence))
