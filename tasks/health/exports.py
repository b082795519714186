"""What notebooks read: Parquet files in `exports/`, complete and without the live store.

No file holds content, tags, metadata, relations or vectors. Every file is replaced at once; all
files of a run carry its `run_id` and `taken_at` as metadata of their schema.

A namespace is told by the columns tenant, principal, scope; instants are UTC microseconds.

* memories, a row for each: memory_id, revision, kind, status, importance, salience, confidence,
  pinned, access_count, created_at, updated_at, content_at, last_accessed_at, expires_at,
  restored_at, tombstoned_at; of the sweep verdict, score, time_term, access_term, age_days,
  days_since_access, days_until_cold, clock_anomaly (list of columns); of the prune prune_verdict
  (NULL: it does not see the memory).
* runs: run_id, job, mode, trigger, slot, plan_id, now, outcome, code, found, applied, skipped
  (JSON), failed, figures (JSON), started_at, ended_at, elapsed_ms. The run that exports has not
  ended yet.
* decisions: plan_id, job, now, position, memory_id, reason, action, expected_revision, outcome,
  run_id, figures (JSON), head_id.
* pairs, what plans report beside their decisions: plan_id, job, now, position, result, memory_id,
  partner_id, reasons (JSON), figures (JSON).
* index_coverage, a row for each namespace: active, embedded, stale, failed, pending, retrying,
  permanent, quarantined, deferred, departed, is_served.
* forecast, a row for each namespace and horizon: days, cold, expired, purge, active (now).
* health, a row for each figure of each snapshot: run_id, taken_at, subject, metric, value or
  label, threshold (of a breach); without a namespace it is about the whole store.
* status, one row: taken_at, now (of the decisions), run_id, status (the JSON of `memtend status`),
  policy (JSON: the health policy, with the policies of sweep and prune that were judged with).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from storage import Store
from storage.erasures import count_erasures
from storage.exports import read_export, write_exports
from storage.health import History, export_history, export_memories
from storage.instants import format_instant, parse_instant
from storage.namespaces import StoredNamespace, list_namespaces
from tasks.health.measuring import Figures
from tasks.health.policy import HealthPolicy
from tasks.health.snapshot import Snapshot
from tasks.rules.decide import explain_prune, explain_sweep

STATUS = "status"
_INSTANTS = ("last_success", "last_started_at", "next_due")
_HISTORIES: tuple[History, ...] = ("runs", "decisions", "pairs", "health")
_VERDICTS = (
    "verdict",
    "score",
    "time_term",
    "access_term",
    "age_days",
    "days_since_access",
    "days_until_cold",
    "clock_anomaly",
)
_OWNER = pa.schema([(name, pa.string()) for name in ("tenant", "principal", "scope")])
_INDEX = pa.schema(
    [
        *_OWNER,
        *(
            (name, pa.int64())
            for name in (
                *("active", "embedded", "stale", "failed", "pending", "retrying", "permanent"),
                *("quarantined", "deferred", "departed"),
            )
        ),
        ("is_served", pa.bool_()),
    ]
)
_FORECAST = pa.schema(
    [
        *_OWNER,
        *((name, pa.int64()) for name in ("days", "cold", "expired", "purge", "active")),
    ]
)


def export_health(
    store: Store, policy: HealthPolicy, snapshot: Snapshot, *, now: datetime, run_id: str
) -> dict[str, int]:
    """Write all exports of a run; give the size of each in bytes.

    They are written once more if something was erased meanwhile: an erasure removes those that are
    there after it took its rows, so only what is read before and written later could stay.
    """
    about = {"run_id": run_id, "taken_at": format_instant(snapshot.taken_at)}
    while True:
        with store.read() as reader:
            before, targets = count_erasures(reader), list_namespaces(reader)
        tables = _list_tables(store, policy, snapshot, targets, now, run_id)
        marked = ((name, table.replace_schema_metadata(about)) for name, table in tables)
        sizes = write_exports(store.path, marked, run_id=run_id)
        with store.read() as reader:
            if count_erasures(reader) == before:
                return sizes


def _list_tables(  # noqa: PLR0913, PLR0917 - what an export knows
    store: Store,
    policy: HealthPolicy,
    snapshot: Snapshot,
    targets: Sequence[StoredNamespace],
    now: datetime,
    run_id: str,
) -> Iterator[tuple[str, pa.Table]]:
    yield (
        "memories",
        pa.concat_tables([_judge_memories(store, policy, one, now) for one in targets]),
    )
    since = snapshot.taken_at - timedelta(days=policy.export_days)
    for kind in _HISTORIES:
        with store.read() as reader:
            table = export_history(reader, kind, since=since)
        yield kind, table
    yield "index_coverage", _tabulate(snapshot, targets, _list_index, _INDEX)
    yield "forecast", _tabulate(snapshot, targets, _list_forecast, _FORECAST)
    status = {
        "taken_at": snapshot.taken_at,
        "now": now,
        "run_id": run_id,
        "status": dump_status(snapshot),
        "policy": policy.model_dump_json(),
    }
    yield STATUS, pa.Table.from_pylist([status])


def _judge_memories(
    store: Store, policy: HealthPolicy, target: StoredNamespace, now: datetime
) -> pa.Table:
    """Join the facts about memories with what the rules say of them; all are ordered by id."""
    number = target.namespace_id
    with store.read() as reader:
        facts = export_memories(reader, number)
        swept = explain_sweep(reader, policy.sweep, namespace_id=number, now=now)
        pruned = explain_prune(reader, policy.prune, namespace_id=number, now=now)
    for name in _VERDICTS:
        facts = facts.append_column(swept.schema.field(name), swept.column(name))
    places = pc.index_in(facts.column("memory_id"), value_set=pruned.column("memory_id"))
    return facts.append_column("prune_verdict", pruned.column("verdict").take(places))


def _tabulate(
    snapshot: Snapshot,
    targets: Sequence[StoredNamespace],
    list_rows: Callable[[Figures], Iterator[Figures]],
    schema: pa.Schema,
) -> pa.Table:
    rows = [
        one.namespace.model_dump() | row
        for one in targets
        if one.namespace_id in snapshot.parts
        for row in list_rows(snapshot.parts[one.namespace_id])
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _list_index(part: Figures) -> Iterator[Figures]:
    yield part["index"]


def _list_forecast(part: Figures) -> Iterator[Figures]:
    active = part["memories"]["active"]
    for days, counts in part["forecast"].items():
        yield {"days": int(days), "active": active, **counts}


def dump_status(snapshot: Snapshot) -> str:
    """Give the tree of a snapshot as JSON."""
    return json.dumps(snapshot.describe(), default=_encode, separators=(",", ":"))


def _encode(value: object) -> str:
    if isinstance(value, datetime):
        return format_instant(value)
    raise TypeError


def read_status(store: Store) -> Figures | None:
    """Read the last exported snapshot, without the live file; None: there is none."""
    table = read_export(store.path, STATUS)
    if table is None:
        return None
    status: Figures = json.loads(table.column("status")[0].as_py())
    status["taken_at"] = parse_instant(status["taken_at"])
    for job in status["jobs"].values():
        job |= {name: parse_instant(job[name]) for name in _INSTANTS if job[name] is not None}
    return status
