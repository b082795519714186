"""Whatever a store can hold comes back from a file: random memories, and files that are broken."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.imports import Importer, counts, edges, record, write_lines
from helpers.rows import NOW
from helpers.vectors import Json, copy_store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import Store
from storage.digests import digest_record
from storage.errors import AdmissionError
from storage.instants import EPOCH, format_instant
from storage.models import EvidenceKind, Kind, Origin, RelationKind, RevisionKind, Status
from storage.namespaces import list_namespaces
from storage.records import read_history, read_record
from storage.snapshot_profiles import HISTORY_PROFILE
from storage.snapshots import take_snapshot
from tasks.exporting import export_file
from tasks.formats.entries import Entry
from tasks.formats.native import SAID, read_native
from tasks.formats.parquet import FORMAT_KEY, parquet_schema
from tasks.formats.parts import encode_values, split_record
from tasks.importing import import_file

FORMS = ("jsonl", "parquet")
_YEAR_US = 365 * 86_400_000_000


def say_instant(us: int) -> str:
    return format_instant(EPOCH + timedelta(microseconds=us))


_CLOCK_US = st.integers(-1_900 * _YEAR_US, 1_000 * _YEAR_US)
_INSTANTS = _CLOCK_US.map(say_instant)
_ANY = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_PRINTED = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\0")
_TEXTS = st.text(_ANY, min_size=1, max_size=30).filter(str.strip)
_NAMES = st.text(_PRINTED, min_size=1, max_size=12).filter(str.strip)
_UNIT = st.floats(0, 1, width=32)
_EVIDENCE = st.fixed_dictionaries(
    {
        "uri": _NAMES,
        "digest": _NAMES,
        "kind": st.sampled_from(list(EvidenceKind)),
        "occurred_at": _INSTANTS,
    }
)
_STATE = {
    "kind": st.sampled_from(list(Kind)),
    "status": st.sampled_from(list(Status)),
    "content": _TEXTS,
    "confidence": _UNIT,
    "importance": _UNIT,
    "salience": st.none() | st.floats(0.25, 2, width=32),
    "tags": st.lists(_NAMES, max_size=3),
    "metadata": st.dictionaries(_NAMES, st.just("") | _TEXTS, max_size=3),
    "pinned": st.booleans(),
    "evidence": st.lists(_EVIDENCE, max_size=3, unique_by=lambda item: item["uri"]),
    "relations": st.lists(
        st.fixed_dictionaries(
            {
                "kind": st.sampled_from(list(RelationKind)),
                "target_id": st.sampled_from(["m0", "m1", "m2"]),
            }
        ),
        max_size=3,
    ),
    "expires_at": st.none() | _INSTANTS,
    "revision_kind": st.sampled_from(list(RevisionKind)),
}
_CLOCKS = ("content_at", "restored_at", "tombstoned_at", "last_accessed_at")
_RECORD = st.fixed_dictionaries(
    {
        **_STATE,
        "times": st.tuples(_CLOCK_US, _CLOCK_US).map(sorted),
        "gap": st.integers(1, 3),
        "access_count": st.integers(0, 2**63 - 1),
        "origin": st.sampled_from(list(Origin)),
        "history": st.lists(st.fixed_dictionaries({**_STATE, "updated_at": _INSTANTS}), max_size=3),
        **{name: st.none() | _INSTANTS for name in _CLOCKS},
    }
)


@st.composite
def records(draw: Callable[..., Any]) -> list[Json]:
    """Draw the records of a namespace with any names: ids, histories with gaps, edges."""
    drawn = draw(st.lists(_RECORD, min_size=1, max_size=3))
    namespace = {name: draw(_NAMES) for name in ("tenant", "principal", "scope")}
    return [finish(one, f"m{number}", namespace) for number, one in enumerate(drawn)]


def finish(drawn: Json, memory_id: str, namespace: Json) -> Json:
    said = {name: value for name, value in drawn.items() if name not in {"times", "gap"}}
    created_at, updated_at = map(say_instant, drawn["times"])
    states = [*said["history"], said]
    for number, state in enumerate(states):
        state["revision"] = 1 + number * drawn["gap"]
        state["relations"] = [e for e in state["relations"] if e["target_id"] != memory_id]
    own = {"id": memory_id, "namespace": namespace}
    return {**said, **own, "created_at": created_at, "updated_at": updated_at}


def describe(store: Store) -> list[object]:
    """Say everything that records say of a store."""
    found: list[object] = []
    with store.read() as reader:
        for owner in list_namespaces(reader):
            shot = take_snapshot(
                reader, owner.namespace, statuses=list(Status), profile=HISTORY_PROFILE
            )
            found += [owner.namespace, shot.digest] if shot.ids else []
            for name in shot.ids:
                one = read_record(reader, owner.namespace_id, name)
                assert one is not None
                history = read_history(reader, owner.namespace_id, name)
                found.append((digest_record(one), one.origin, history))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=[f"C53-any-{form}" for form in FORMS])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=records())
def test_any_memories_come_back(form: str, rows: list[Json]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        first, second = copy_store(folder / "first"), copy_store(folder / "second")
        report = Importer(first, folder / "lines", NOW)(*rows)
        assert counts(report) == (len(rows), 0, 0, 0)
        export_file(first, folder / f"all.{form}")
        again = import_file(second, folder / f"all.{form}", is_strict=True, clock=NOW)
        assert (again.rejects, counts(again)) == ([], (len(rows), 0, 0, 0))
        assert describe(second) == describe(first)


def read(path: Path) -> list[Entry]:
    return [entry for entry, _ in read_native(path)]


LONG = record("m1", history=[{"content": f"state {n}"} for n in range(9)]) | {
    "ledger": {"access_events": [{"event_id": f"e{n}"} for n in range(9)], "origin_digest": "x"}
}


def test_long_record_is_put_together_again(tmp_path: Path) -> None:
    lines = list(split_record(LONG, max_bytes=120))
    assert len(lines) > 6
    first, whole, last = read(
        write_lines(tmp_path / "f", record("a"), b"".join(lines).rstrip(), record("b"))
    )
    assert (first.ref, last.ref) == (1, len(lines) + 2)
    assert whole.values == {k: v for k, v in LONG.items() if k != "ledger"}
    assert whole.ledger == LONG["ledger"]


def test_short_record_is_one_line() -> None:
    assert list(split_record(LONG, max_bytes=10_000)) == [encode_values(LONG)]


PART = {"part_of": "m1", "list": "history", "items": [{"content": "old"}]}
OWNER = record("m1", parts=1)
BROKEN_PARTS: dict[str, tuple[list[Json], list[str]]] = {
    "missing": ([OWNER], ["parts"]),
    "of-another": ([PART | {"part_of": "m2"}, OWNER], ["parts"]),
    "not-announced": ([PART, record("m1")], ["parts"]),
    "too-few": ([PART, record("m1", parts=2)], ["parts"]),
    "unknown-list": ([PART | {"list": "content"}, OWNER], ["parts"]),
    "no-items": ([PART | {"items": "text"}, OWNER], ["parts"]),
    "into-text": ([PART, OWNER | {"history": "text"}], ["parts"]),
    "into-no-ledger": ([PART | {"list": "ledger.kept_apart"}, OWNER | {"ledger": 1}], ["parts"]),
    "at-the-end": ([record("m1"), PART], ["part_of"]),
}


@pytest.mark.parametrize("name", BROKEN_PARTS)
def test_record_without_its_parts_is_refused_and_costs_only_itself(
    tmp_path: Path, name: str
) -> None:
    lines, fields = BROKEN_PARTS[name]
    entries = read(write_lines(tmp_path / "f", record("a"), *lines))
    assert [fault.field for entry in entries for fault in entry.rejects] == fields
    assert entries[0].values == record("a")


def test_part_before_its_record_is_no_record(tmp_path: Path) -> None:
    (entry,) = read(write_lines(tmp_path / "f", PART, OWNER))
    assert entry.values == record("m1", history=[{"content": "old"}])


def write_parquet(path: Path, *rows: Json, schema: pa.Schema | None = None) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
    return path


def test_parquet_of_another_hand_needs_an_id_and_a_content(store: Store, tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "f", {"id": "a", "content": "x", "created_at": NOW.replace(tzinfo=None)}
    )
    assert counts(import_file(store, path, clock=NOW)) == (1, 0, 0, 0)
    path = write_parquet(tmp_path / "f", {"content": "x"})
    with pytest.raises(AdmissionError, match="id: is required"):
        import_file(store, path, clock=NOW)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"id": None}, "id"),
        ({"importance": 7.0}, "importance"),
        ({"importance": float("nan")}, "importance"),
        ({"importance": 1e300}, "importance"),
        ({"tags": '["x"'}, "tags"),
        ({"metadata": "[1]"}, "metadata"),
        ({"history": "[" * 100_000}, "history"),
        ({"tenant": "t"}, "namespace.principal"),
        ({"owner": "kim"}, "owner"),
    ],
)
def test_bad_row_costs_only_itself_and_is_named(
    store: Store, tmp_path: Path, row: Json, field: str
) -> None:
    good = {"id": "a", "content": "x", **dict.fromkeys(row)}
    path = write_parquet(tmp_path / "f", good | {"id": "a"}, good | {"id": "b"} | row)
    report = import_file(store, path, clock=NOW)
    assert counts(report) == (1, 0, 0, 1)
    assert report.rejects[0].record == 2
    assert field in [fault.field for fault in report.rejects]


def test_file_that_only_begins_as_parquet_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"PAR1 and nothing more PAR1")
    with pytest.raises(AdmissionError, match="cannot be read as Parquet"):
        import_file(store, tmp_path / "f", clock=NOW)


def test_parquet_of_another_version_is_refused(tmp_path: Path) -> None:
    schema = parquet_schema(SAID).with_metadata({FORMAT_KEY: b"memtend.memories version 2"})
    path = write_parquet(tmp_path / "f", {"id": "a", "content": "x"}, schema=schema)
    with pytest.raises(AdmissionError, match="version 1"):
        read(path)


def test_instants_of_parquet_are_no_numbers(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", {"id": "a", "content": "x", "created_at": 5})
    with pytest.raises(AdmissionError, match="timestamp"):
        read(path)


def test_progress_of_parquet_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", *(record(f"m{n}") for n in range(3)))
    sizes = [done for _, done in read_native(path)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == path.stat().st_size


def test_lines_hold_no_more_than_json(tmp_path: Path, store: Store) -> None:
    export_file(store, tmp_path / "f")
    assert json.loads((tmp_path / "f").read_text()) == {"format": "memtend.memories", "version": 1}


def test_memory_that_has_taken_in_hundreds_comes_back_whole(store: Store, tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(300)]
    losers = [record(name, status="superseded", **edges(("superseded_by", "a"))) for name in names]
    taken = edges(*(("supersedes", name) for name in names))
    Importer(store, tmp_path / "lines", NOW)(record("a", **taken), *losers)
    report = export_file(store, tmp_path / "all")
    assert (report.memories, report.warnings) == (301, [])
    values = [json.loads(line) for line in (tmp_path / "all").read_text().splitlines()[1:]]
    (kept,) = [one["relations"] for one in values if one["id"] == "a"]
    assert len(kept) == 300
