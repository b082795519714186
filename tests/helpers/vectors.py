"""The vector files: their cases, and each case as a real store.

Rows go in past admission, as tables: a vector may hold what admission refuses.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, cast

import pyarrow as pa
import pytest
from helpers.rows import NOW, memory_table

from storage import Store, StoreWriter, create_store
from storage.gateway import DATABASE_FILE
from storage.instants import parse_expiry, parse_instant
from storage.memories import (
    RELATION_SCHEMA,
    REVISION_SCHEMA,
    insert_memories,
    insert_relations,
    insert_revisions,
)
from storage.models import Namespace, RelationKind
from storage.namespaces import StoredNamespace, ensure_namespace
from storage.plans import PlanHeader, store_plan
from tasks.jobs import RuleJob, find_rule, parse_policy
from tasks.limits import SafetyLimits
from tasks.policies import Policy

VECTORS = Path(__file__).parents[1] / "vectors"
NAMESPACE = Namespace(tenant="t1", principal="p1", scope="s1")
_NON_FINITE = ("NaN", "Infinity")
# The statements are tiny: more threads would only wait for one another.
ONE_THREAD = "SET GLOBAL threads = 1"
_INSTANTS = ("restored_at", "tombstoned_at", "last_accessed_at")
_COPIED = ("id", "kind", "status", "revision", "importance", "tags", "metadata", "pinned")
_OPTIONAL = ("content", "revision_kind", "access_count")
_INSERT_EVENTS = """
INSERT INTO access_events BY NAME
SELECT
    namespace_id, 'use' AS event_kind, event_id, memory_id, 1 AS revision, $at AS occurred_at,
    actor
FROM incoming
"""
_EVENT_SCHEMA = pa.schema(
    [
        ("namespace_id", pa.int32()),
        ("event_id", pa.string()),
        ("memory_id", pa.string()),
        ("actor", pa.string()),
    ]
)

Json = dict[str, Any]


class VectorFile(TypedDict):
    """A vector file: its defaults and its cases."""

    defaults: Json
    cases: list[Json]


@dataclass(frozen=True, slots=True)
class VectorCase:
    """A case of a vector file; what its inputs leave out stands in `defaults`."""

    case_id: str
    kind: str
    job: RuleJob
    inputs: Json
    expected: Json
    defaults: Json

    @property
    def now(self) -> datetime:
        """Give the decision clock."""
        return parse_instant(self.inputs.get("now", self.defaults["now"]))

    @property
    def policy(self) -> Policy:
        """Give the policy, the case's fields over the defaults."""
        values = self.defaults["policy"] | self.inputs.get("policy", {})
        return parse_policy(self.job, values)

    @property
    def limits(self) -> SafetyLimits:
        """Give the safety limits, the case's fields over the defaults."""
        values = self.defaults["limits"] | self.inputs.get("limits", {})
        return SafetyLimits.model_validate(values)

    @property
    def rows(self) -> list[Json]:
        """Give the rows and then those of the row groups, with all their fields."""
        given = [*self.inputs.get("rows", []), *expand_groups(self.inputs.get("row_groups", []))]
        return [self.defaults["row"] | row for row in given]


@cache
def load_vectors(job: str) -> dict[str, VectorCase]:
    """Load the vector file of a job; its cases by id."""
    text = (VECTORS / f"{job}-vectors.json").read_text(encoding="utf-8")
    file = cast("VectorFile", json.loads(text))
    return {
        case["id"]: VectorCase(
            case["id"],
            case["type"],
            find_rule(job),
            case["inputs"],
            case["expected"],
            file["defaults"],
        )
        for case in file["cases"]
    }


def each_case(job: str, kind: str) -> pytest.MarkDecorator:
    """Parametrise a test over the cases of one type, which must exist; test ids are theirs."""
    ids = [case_id for case_id, case in load_vectors(job).items() if case.kind == kind]
    assert ids
    return only_cases(job, *ids)


def only_cases(job: str, *case_ids: str) -> pytest.MarkDecorator:
    """Parametrise a test over the cases with these ids."""
    cases = [load_vectors(job)[case_id] for case_id in case_ids]
    return pytest.mark.parametrize("case", cases, ids=case_ids)


def each_input(job: str, case_id: str, field: str) -> pytest.MarkDecorator:
    """Parametrise a test over the values that one case lists, numbers read."""
    values = load_vectors(job)[case_id].inputs[field]
    ids = [f"{case_id}-{number}" for number in range(1, len(values) + 1)]
    return pytest.mark.parametrize("value", [read_number(value) for value in values], ids=ids)


def read_number(value: object) -> object:
    """Read the texts that stand for numbers outside JSON; anything else stays what it is."""
    if isinstance(value, Mapping):
        return {name: read_number(inner) for name, inner in value.items()}
    return float(str(value)) if value in _NON_FINITE else value


def expand_groups(groups: Iterable[Json]) -> list[Json]:
    """Write out row groups: `count` rows that differ in id and creation only."""
    rows = []
    for group in groups:
        start = group.get("created_at_start")
        step = timedelta(microseconds=group.get("created_at_step_us", 0))
        for index in range(group["count"]):
            created = {"created_at": parse_instant(start) + index * step} if start else {}
            rows.append({**group["row"], **created, "id": group["id_format"] % index})
    return rows


@cache
def _empty_database() -> bytes:
    """Give the file of an empty store; making one costs more than copying it."""
    with TemporaryDirectory() as directory:
        store, _ = create_store(Path(directory) / "store", clock=NOW)
        return (store.path / DATABASE_FILE).read_bytes()


def copy_store(path: Path) -> Store:
    """Make an empty store in a directory that does not exist yet."""
    path.mkdir(mode=0o700)
    (path / DATABASE_FILE).write_bytes(_empty_database())
    return Store(path)


def fill_store(path: Path, case: VectorCase) -> Store:
    """Make a store that holds the rows of a case."""
    store = copy_store(path)
    with store.write() as writer:
        insert_rows(writer, case.rows)
    return store


def insert_rows(writer: StoreWriter, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert vector rows, and the namespaces that they name."""
    owners = {
        triple: ensure_namespace(writer, Namespace.model_validate(row["namespace"])).namespace_id
        for triple, row in {tuple(row["namespace"].values()): row for row in rows}.items()
    }
    insert_owned(writer, rows, [owners[tuple(row["namespace"].values())] for row in rows])


def insert_owned(
    writer: StoreWriter, rows: Sequence[Mapping[str, Any]], namespace_ids: Sequence[int]
) -> None:
    """Insert vector rows with their earlier revisions, edges and actors."""
    owned = list(zip(namespace_ids, rows, strict=True))
    table = memory_table(*(_memory_row(row, namespace_id) for namespace_id, row in owned))
    insert_memories(writer, table)
    insert_revisions(writer, _earlier_revisions(table))
    insert_relations(writer, _both_ends(owned))
    if events := _events(owned):
        incoming = pa.Table.from_pylist(events, schema=_EVENT_SCHEMA)
        writer.insert(_INSERT_EVENTS, incoming, {"at": NOW})


def _memory_row(row: Mapping[str, Any], namespace_id: int) -> Json:
    created_at = parse_instant(row["created_at"])
    content_at = _optional_instant(row["content_at"]) or created_at
    expires_at = row["expires_at"]
    return {
        "namespace_id": namespace_id,
        "created_at": created_at,
        "content_at": content_at,
        "updated_at": _optional_instant(row.get("updated_at")) or content_at,
        "expires_at": None if expires_at is None else parse_expiry(expires_at),
        "salience": read_number(row["salience"]),
        **{name: _optional_instant(row[name]) for name in _INSTANTS},
        **{name: row[name] for name in _COPIED},
        **{name: row[name] for name in _OPTIONAL if name in row},
    }


def _optional_instant(text: object) -> datetime | None:
    return None if text is None else parse_instant(text)


def _earlier_revisions(memories: pa.Table) -> pa.Table:
    rows = [
        {**row, "memory_id": row["id"], "revision": revision, "revision_kind": "created"}
        for row in memories.to_pylist()
        for revision in range(1, row["revision"])
    ]
    return pa.Table.from_pylist(rows, schema=REVISION_SCHEMA)


def _both_ends(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> pa.Table:
    """Build the edges; the target holds the inverse if it is among the rows."""
    present = {(namespace_id, row["id"]) for namespace_id, row in rows}
    edges: dict[tuple[int, str, str, str], None] = {}
    for namespace_id, row in rows:
        for edge in row["relations"]:
            kind, target_id = RelationKind(edge["kind"]), edge["target_id"]
            edges[namespace_id, row["id"], kind.value, target_id] = None
            if (namespace_id, target_id) in present:
                edges[namespace_id, target_id, kind.inverse.value, row["id"]] = None
    names = ("namespace_id", "memory_id", "kind", "target_id")
    found = [{**dict(zip(names, edge, strict=True)), "since_revision": 1} for edge in edges]
    return pa.Table.from_pylist(found, schema=RELATION_SCHEMA)


def _events(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Json]:
    """Write one use by each of a row's distinct actors."""
    return [
        {
            "namespace_id": namespace_id,
            "event_id": f"{row['id']}:{number}",
            "memory_id": row["id"],
            "actor": f"actor-{number}",
        }
        for namespace_id, row in rows
        for number in range(row["actors"])
    ]


def find_owner(writer: StoreWriter) -> StoredNamespace:
    """Give the namespace that the vectors are about."""
    return ensure_namespace(writer, NAMESPACE)


def store_plan_of(store: Store, case: VectorCase) -> PlanHeader:
    """Put the rows of a case into an empty store, plan its job there and store the plan."""
    with store.write() as writer:
        writer.run_script(ONE_THREAD)
        insert_rows(writer, case.rows)
        owner = find_owner(writer)
    with store.write() as writer:
        plan = case.job.plan(writer, case.policy, namespace=owner, now=case.now)
        store_plan(writer, plan, clock=case.now)
    return plan.header


def fill_and_plan(path: Path, case: VectorCase) -> tuple[Store, PlanHeader]:
    """Make a store that holds the rows of a case and the plan for them."""
    store = copy_store(path)
    with store.session():
        return store, store_plan_of(store, case)
