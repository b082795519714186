"""Read everything about the memories of a namespace, as the values that the native import takes.

Rows come a page at a time in the order of their ids, so a store of any size needs the memory of one
page, or of its largest memory. Equal rows give equal values: times are text, absent values are left
out, numbers are the shortest text of their 32-bit float.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from storage.encoding import format_f32
from storage.gateway import StoreReader
from storage.instants import format_instant
from storage.models import EvidenceKind, RelationKind
from storage.namespaces import StoredNamespace
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "exporting")
_PAGE_BYTES = 8 * 1024 * 1024
_SALIENCES = (0.25, 2.0)
_PARTS = ("revisions", "evidence", "relations")
_LEDGER = ("access_events", "merge_sources", "merge_receipts", "kept_apart")
_NUMBERS = frozenset({"confidence", "importance", "salience"})
_DECODED = frozenset({"tags", "metadata", "losses", "losers", "figures"})
_EVIDENCE_PLACES = {kind.value: place for place, kind in enumerate(EvidenceKind)}
_RELATION_PLACES = {kind.value: place for place, kind in enumerate(RelationKind)}

Values = dict[str, Any]
_Rows = Mapping[str, list[Values]]


def count_memories(reader: StoreReader, namespace_id: int) -> int:
    """Count the memories of a namespace, whatever their status."""
    return int(reader.rows(_SQL["count_memories"], {"namespace_id": namespace_id})[0][0])


def read_values(reader: StoreReader, owner: StoredNamespace) -> Iterator[Values]:
    """Read every memory of a namespace with its history, its evidence, its edges and its ledger.

    The ledger is what the tables know of a memory beside its states: who read it, what it took in
    by merges, whom it is no duplicate of, and the digest of what its source said.
    """
    scope = {"namespace_id": owner.namespace_id}
    namespace = owner.namespace.model_dump()
    for first_id, last_id in reader.rows(_SQL["plan_pages"], {**scope, "page_bytes": _PAGE_BYTES}):
        limits = {**scope, "first_id": first_id, "last_id": last_id}
        parts = {name: _read_part(reader, name, limits) for name in (*_PARTS, *_LEDGER)}
        for row in reader.table(_SQL["page_memories"], limits).to_pylist():
            memory_id = row.pop("memory_id")
            yield {
                "id": memory_id,
                "namespace": namespace,
                **_build_values(row, {name: rows[memory_id] for name, rows in parts.items()}),
            }


def has_odd_salience(values: Mapping[str, Any]) -> bool:
    """Tell whether a salience is one that admission refuses: somebody wrote it past it."""
    salience = values.get("salience")
    return salience is not None and not _SALIENCES[0] <= salience <= _SALIENCES[1]


def _read_part(reader: StoreReader, name: str, limits: Mapping[str, object]) -> _Rows:
    found: defaultdict[str, list[Values]] = defaultdict(list)
    for row in reader.table(_SQL[f"page_{name}"], limits).to_pylist():
        found[row.pop("memory_id")].append(row)
    return found


def _build_values(row: Values, parts: _Rows) -> Values:
    evidence, edges = parts["evidence"], parts["relations"]
    evidence.sort(key=_order_evidence)
    edges.sort(key=_order_relation)
    history = [_build_state(past, evidence, edges) for past in parts["revisions"]]
    lists = {name: [_plain(item) for item in parts[name]] for name in _LEDGER}
    digest = row.pop("origin_digest")
    ledger = _without_absent({"origin_digest": digest} | {k: v or None for k, v in lists.items()})
    return _without_absent(
        {**_build_state(row, evidence, edges), "history": history, "ledger": ledger or None}
    )


def _build_state(row: Values, evidence: Iterable[Values], edges: Iterable[Values]) -> Values:
    revision = row["revision"]
    return _plain(row) | {
        "evidence": [
            _plain({name: item[name] for name in ("uri", "digest", "kind", "occurred_at")})
            for item in evidence
            if item["since_revision"] <= revision
        ],
        "relations": [
            {"kind": edge["kind"], "target_id": edge["target_id"]}
            for edge in edges
            if _holds(edge, revision)
        ],
    }


def _holds(edge: Values, revision: int) -> bool:
    until = edge["until_revision"]
    return bool(edge["since_revision"] <= revision and (until is None or revision < until))


def _order_evidence(item: Values) -> tuple[object, ...]:
    return item["uri"], item["digest"], _EVIDENCE_PLACES[item["kind"]], item["occurred_at"]


def _order_relation(edge: Values) -> tuple[object, ...]:
    return _RELATION_PLACES[edge["kind"]], edge["target_id"], edge["since_revision"]


def _plain(row: Values) -> Values:
    return _without_absent({name: _say(name, value) for name, value in row.items()})


def _say(name: str, value: Any) -> Any:  # noqa: ANN401 - a value of any column
    if value is None:
        return None
    if isinstance(value, datetime):
        return format_instant(value)
    if name in _NUMBERS:
        return float(format_f32(value)) if math.isfinite(value) else value
    return json.loads(value) if name in _DECODED else value


def _without_absent(values: Values) -> Values:
    return {name: value for name, value in values.items() if value is not None}
