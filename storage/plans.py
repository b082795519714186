"""Plans and their decisions: stored once, never selected again, shown from the same rows.

A plan's id is a digest of what it decides and on which facts, so equal inputs give the same plan
and storing it again changes nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from storage.digests import digest_table
from storage.errors import PlanNotFoundError
from storage.gateway import StoreReader, StoreWriter
from storage.instants import format_instant
from storage.models import Namespace
from storage.queries import read_statements

_SQL = read_statements("storage.sql", "plans")
EVERYTHING = 2**62
_ID_DIGITS = 20  # 80 bits of the digest: short enough to type


@dataclass(frozen=True, slots=True)
class PlanHeader:
    """A plan without its decisions.

    `planned` counts the decisions, `carried` the ancestors that go with them; `judged` are the
    rows that the share of the safety limits is about, `visible` the rows that it is a share of.
    `profile` names the rules that detect duplicates, where a job has them.
    """

    plan_id: str
    job: str
    namespace_id: int
    now: datetime
    policy: dict[str, Any]
    batch_size: int
    planned: int
    carried: int
    judged: int
    visible: int
    counters: dict[str, int]
    warnings: list[str]
    profile: str | None = None

    @property
    def has_work(self) -> bool:
        """Whether an apply would change anything: decisions, links, or texts to be written."""
        beside = (self.counters.get(name) for name in ("to_link", "to_refine"))
        return bool(self.planned or any(beside))


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as a rule made it, ready to be stored.

    Attributes:
        header: What it is about, and its figures.
        decisions: The rows of `decisions`.
        pairs: The rows of `plan_pairs`, for a job that reports pairs.
    """

    header: PlanHeader
    decisions: pa.Table
    pairs: pa.Table | None = None


def identify_plan(
    job: str, namespace: Namespace, now: datetime, policy: Mapping[str, object], decisions: pa.Table
) -> str:
    """Digest what a plan decides; safety limits are no part of it."""
    header = {
        "job": job,
        "namespace": namespace.model_dump(),
        "now": format_instant(now),
        "policy": policy,
    }
    return "plan_" + digest_table(header, decisions)[:_ID_DIGITS]


def store_plan(writer: StoreWriter, plan: Plan, *, clock: datetime) -> bool:
    """Store a plan with its decisions; False if it is stored already."""
    header = plan.header
    if writer.rows(_SQL["has_plan"], {"plan_id": header.plan_id})[0][0]:
        return False
    names = ("plan_id", "job", "namespace_id", "now", "batch_size", "planned", "carried")
    params: dict[str, object] = {name: getattr(header, name) for name in (*names, "profile")}
    params |= {"judged": header.judged, "visible": header.visible, "clock": clock}
    for name in ("policy", "counters", "warnings"):
        params[name] = json.dumps(getattr(header, name), separators=(",", ":"))
    writer.execute(_SQL["insert_plan"], params)
    if plan.decisions.num_rows:
        is_merging = "head_revision" in plan.decisions.column_names
        statement = "insert_merge_decisions" if is_merging else "insert_decisions"
        writer.insert(_SQL[statement], plan.decisions, {"plan_id": header.plan_id})
    if plan.pairs is not None and plan.pairs.num_rows:
        writer.insert(_SQL["insert_pairs"], plan.pairs, {"plan_id": header.plan_id})
    return True


def read_plan(reader: StoreReader, plan_id: str) -> PlanHeader:
    """Read the header of a stored plan.

    Raises:
        PlanNotFoundError: There is no such plan.
    """
    records = reader.records(_SQL["read_plan"], {"plan_id": plan_id})
    if not records:
        raise PlanNotFoundError(plan_id)
    record = records[0]
    del record["created_at"]
    for name in ("policy", "counters", "warnings"):
        record[name] = json.loads(record[name])
    return PlanHeader(**record)


def read_decisions(
    reader: StoreReader, plan_id: str, *, limit: int = EVERYTHING
) -> list[dict[str, Any]]:
    """Read the decisions of a plan as people read them: by reason, then id, figures decoded."""
    records = reader.records(_SQL["read_decisions"], {"plan_id": plan_id, "limit": limit})
    for record in records:
        record["figures"] = json.loads(record["figures"])
    return records


def read_pairs(
    reader: StoreReader, plan_id: str, *, limit: int = EVERYTHING
) -> list[dict[str, Any]]:
    """Read what a plan reports beside its decisions: result, id, partner_id, reasons, figures."""
    records = reader.records(_SQL["read_pairs"], {"plan_id": plan_id, "limit": limit})
    for record in records:
        record["reasons"] = json.loads(record["reasons"])
        record["figures"] = json.loads(record["figures"])
    return records


def count_reasons(reader: StoreReader, plan_id: str) -> dict[str, int]:
    """Count the decisions of a plan by reason."""
    return dict(reader.rows(_SQL["count_reasons"], {"plan_id": plan_id}))


def count_outcomes(reader: StoreReader, plan_id: str, run_id: str) -> dict[str, int]:
    """Count what a run made of a plan: each decision once, by outcome."""
    return dict(reader.rows(_SQL["count_outcomes"], {"plan_id": plan_id, "run_id": run_id}))


def read_outcomes(reader: StoreReader, plan_id: str, run_id: str) -> dict[str, str]:
    """Read the outcome of each decision as a run sees it, in the order of apply."""
    return dict(reader.rows(_SQL["read_outcomes"], {"plan_id": plan_id, "run_id": run_id}))


def has_receipt(reader: StoreReader, plan_id: str) -> bool:
    """Tell whether any decision of a plan has been applied."""
    return bool(reader.rows(_SQL["has_receipt"], {"plan_id": plan_id})[0][0])


def read_receipts(reader: StoreReader, plan_id: str) -> list[dict[str, Any]]:
    """Read the receipts of a plan, by memory id."""
    records = reader.records(_SQL["read_receipts"], {"plan_id": plan_id})
    for record in records:
        for name in ("carried", "ancestors_kept", "figures"):
            record[name] = json.loads(record[name]) if record[name] else []
    return records


def diff_plan(reader: StoreReader, plan_id: str) -> list[dict[str, Any]]:
    """Compare each decision with its memory now: same, changed (which facts), gone or applied."""
    return reader.records(_SQL["diff_plan"], {"plan_id": plan_id})
