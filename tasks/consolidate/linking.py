"""Say of contradicting memories that they contradict one another; who is right, a person decides.

Each pair is one change set, of texts that are still the judged ones; a linked pair is left alone.
Source: spec/consolidate.md R34.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from storage import Store, StoreWriter
from storage.changes import parse_change_set
from storage.errors import FenceLostError, MaintenanceError, StoreBusyError
from storage.leases import Lease, keep_lease
from storage.merge_facts import find_kept_apart, read_facts
from storage.models import Namespace, Status
from storage.namespaces import read_namespace
from storage.plans import PlanHeader, read_pairs
from storage.repository import commit_change_set
from tasks.requests import Clock

_LINKABLE = {Status.ACTIVE, Status.CONFLICTED}


class _Link(NamedTuple):
    """A pair that contradicts, with the numbers of the texts that were judged."""

    ids: tuple[str, str]
    texts: tuple[int, int]


def link_conflicts(
    store: Store, plan: PlanHeader, lease: Lease, *, is_marking: bool, clock: Clock
) -> dict[str, int]:
    """Link the contradictions of a plan, and mark both as conflicted if asked.

    Args:
        store: The store; no lock may be held.
        plan: The header of the stored plan.
        lease: The lease of the run.
        is_marking: Give both the status conflicted, too.
        clock: Wall time, for the lease.

    Returns:
        How many pairs were linked, were left alone as one of them has changed, and failed.
    """
    with store.read() as reader:
        links = list(_list_links(read_pairs(reader, plan.plan_id)))
        namespace = read_namespace(reader, plan.namespace_id).namespace
    done: Counter[str] = Counter()
    for link in links:
        outcome = _try(store, plan, lease, namespace, link, is_marking=is_marking, clock=clock())
        if outcome is not None:
            done[outcome] += 1
    return dict(done)


def _list_links(rows: list[dict[str, Any]]) -> Iterator[_Link]:
    for row in rows:
        if row["result"] == "conflict" and "related" not in row["reasons"]:
            first, second = row["figures"]["texts"]
            yield _Link((row["id"], row["partner_id"]), (first, second))


def _try(  # noqa: PLR0913 - the pieces of one transaction
    store: Store,
    plan: PlanHeader,
    lease: Lease,
    namespace: Namespace,
    link: _Link,
    *,
    is_marking: bool,
    clock: datetime,
) -> str | None:
    """Link a pair; one that cannot be linked, as it has no room for an edge, stops no other."""
    try:
        with store.write() as writer:
            keep_lease(writer, lease, clock=clock)
            return _link(writer, plan, namespace, link, is_marking=is_marking)
    except (FenceLostError, StoreBusyError):
        raise
    except MaintenanceError:
        return "links_failed"


def _link(
    writer: StoreWriter, plan: PlanHeader, namespace: Namespace, link: _Link, *, is_marking: bool
) -> str | None:
    owner = plan.namespace_id
    kept = find_kept_apart(writer, owner, link.ids)
    if any(joined.is_related for joined in kept.values()):
        return None
    facts = {row["memory_id"]: row for row in read_facts(writer, owner, link.ids).to_pylist()}
    is_same = all(
        name in facts and facts[name]["text_number"] == text and facts[name]["status"] in _LINKABLE
        for name, text in zip(link.ids, link.texts, strict=True)
    )
    if not is_same:
        return "links_changed"
    values = {
        "idempotency_key": _name_change_set(plan.plan_id, link.ids),
        "namespace": namespace.model_dump(),
        "occurred_at": max([plan.now, *(one["updated_at"] for one in facts.values())]),
        "operations": list(_list_operations(link.ids, facts, is_marking=is_marking)),
    }
    commit_change_set(writer, parse_change_set(values))
    return "linked"


def _list_operations(
    ids: tuple[str, str], facts: Mapping[str, Mapping[str, Any]], *, is_marking: bool
) -> Iterator[dict[str, Any]]:
    for name, partner in (ids, ids[::-1]):
        before = {"memory_id": name, "expected_revision": facts[name]["revision"]}
        relation = {"kind": "conflicts_with", "target_id": partner}
        yield {"op": "add_relation", **before, "relation": relation}
        if is_marking and facts[name]["status"] == Status.ACTIVE:
            before["expected_revision"] += 1
            yield {"op": "set_status", **before, "status": Status.CONFLICTED.value}


def _name_change_set(plan_id: str, ids: tuple[str, str]) -> str:
    return "link-" + hashlib.sha256("\0".join([plan_id, *ids]).encode()).hexdigest()
