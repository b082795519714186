"""Let a refiner write one text for memories that a switch, not a guard, keeps from being merged.

Source: spec/consolidate.md R90-R94.
"""

from collections.abc import Iterator, Mapping

from storage import StoreReader
from storage.errors import AdmissionError
from storage.leases import Lease, keep_lease
from storage.merge_facts import read_text_facts
from storage.models import Kind, MemoryRecord, Namespace
from storage.namespaces import read_namespace
from storage.plans import PlanHeader, read_pairs
from storage.records import read_records
from tasks.policies import ConsolidatePolicy
from tasks.providers.refiner import MOST_SOURCES, Refiner, RefineRequest, RefineSource
from tasks.providers.setup import ProviderSetupError
from tasks.refine_calls import RefineLimits
from tasks.refining import refine_clusters
from tasks.requests import JobRequest
from tasks.rules.clusters import form_clusters


def load_refiner(request: JobRequest) -> Refiner:
    """Make the refiner of a request.

    Raises:
        AdmissionError: There is none, or it cannot be made.
    """
    if request.refiner is None:
        raise AdmissionError("consolidate.refine", "no refiner is set: MEMTEND_REFINER")
    try:
        return request.refiner.load()
    except ProviderSetupError as error:
        raise AdmissionError("consolidate.refine", str(error)) from error


def refine_plan(
    request: JobRequest,
    plan: PlanHeader,
    policy: ConsolidatePolicy,
    lease: Lease,
    refiner: Refiner,
) -> dict[str, int]:
    """Ask the refiner about the clusters of pairs that a plan lists as `report_only`.

    Returns:
        How many clusters were refined, failed or were not attempted, and the calls that took.
    """
    store = request.handle()
    with store.read() as reader:
        owner = read_namespace(reader, plan.namespace_id)
        pairs = _list_unchanged(reader, plan)
        records = read_records(
            reader, owner.namespace_id, {name for pair in pairs for name in pair}
        )
    report = refine_clusters(
        store,
        refiner,
        list(_make_requests(owner.namespace, pairs, records)),
        limits=RefineLimits(
            attempts=policy.refine_attempts,
            max_calls=policy.refine_max_calls,
            max_tokens=policy.refine_max_tokens,
        ),
        now=plan.now,
        clock=request.clock,
        before_call=lambda: _prolong(request, lease),
        guard=lambda writer: keep_lease(writer, lease, clock=request.clock()),
    )
    figures = {
        "refined": report.count("refined"),
        "refine_failed": report.count("failed"),
        "refine_not_attempted": report.count("not_attempted"),
        "refine_permanent": report.count("permanent"),
        "refine_calls": report.calls,
    }
    return {name: count for name, count in figures.items() if count}


def _list_unchanged(reader: StoreReader, plan: PlanHeader) -> list[tuple[str, str]]:
    """List the pairs to refine, of texts that are still the judged ones."""
    rows = [row for row in read_pairs(reader, plan.plan_id) if "report_only" in row["reasons"]]
    ids = {row[side] for row in rows for side in ("id", "partner_id")}
    facts = read_text_facts(reader, plan.namespace_id, ids)
    numbers = {name: one.text_number for name, one in facts.items()}
    return [
        (row["id"], row["partner_id"])
        for row in rows
        if [numbers.get(row[side]) for side in ("id", "partner_id")] == row["figures"].get("texts")
    ]


def _prolong(request: JobRequest, lease: Lease) -> None:
    with request.handle().write() as writer:
        keep_lease(writer, lease, clock=request.clock())


def _make_requests(
    namespace: Namespace, pairs: list[tuple[str, str]], records: Mapping[str, MemoryRecord]
) -> Iterator[RefineRequest]:
    """Make a request for each cluster of one kind; of a large one, for its oldest members."""
    members = sorted(records.values(), key=lambda one: (one.created_at, one.id))
    kinds = {one.id: one.kind for one in members if one.kind != Kind.WORKING}
    passing = [pair for pair in pairs if kinds.get(pair[0]) == kinds.get(pair[1], "")]
    clustering = form_clusters([one.id for one in members], passing)
    for cluster in clustering.merges:
        yield RefineRequest(
            namespace=namespace,
            kind=kinds[cluster[0]],
            sources=tuple(
                RefineSource(
                    memory_id=name, revision=records[name].revision, content=records[name].content
                )
                for name in cluster[:MOST_SOURCES]
            ),
        )
