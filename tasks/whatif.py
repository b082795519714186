"""What-if: how a job would decide under other policies; nothing is stored or applied.

Each policy is judged by the job's own rule on the rows as they are, so that a figure here is the
figure of the plan that the same policy would make. Source: DESIGN 9.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from storage.errors import PlanRefusedError
from storage.namespaces import StoredNamespace
from storage.plans import PlanHeader
from tasks.apply import guard_plan
from tasks.jobs import find_job
from tasks.limits import SafetyLimits
from tasks.requests import JobRequest
from tasks.stages import find_targets

_CARRIED = "carried"


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy that differs in one field: `request` holds it whole."""

    field: str
    value: object
    request: JobRequest


def compare_policies(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Compare what a job would do under each policy.

    Returns:
        A row for each variant and namespace: found, reasons, carried, visible, the share of the
        visible memories that the safety limits are about (None: there are none), and the limit
        that would refuse the plan (None: it would be applied).

    Raises:
        StoreNotFoundError: There is no store.
        AdmissionError: A job without plans, or an unknown namespace.
    """
    return [row for variant in variants for row in _judge(variant)]


def _judge(variant: Variant) -> list[dict[str, Any]]:
    find_job(variant.request.job)
    request, targets = find_targets(variant.request)
    about = {"field": variant.field, "value": variant.value}
    return [about | _describe(request, target) for target in targets]


def _describe(request: JobRequest, target: StoredNamespace) -> dict[str, Any]:
    job = find_job(request.job)
    plan = job.make_plan(request.handle(), request.policy, namespace=target, now=request.now)
    reasons = Counter(plan.decisions.column("reason").to_pylist())
    del reasons[_CARRIED]
    header = plan.header
    return {
        "job": request.job,
        "namespace": target.namespace.model_dump(),
        "now": request.now,
        "found": header.planned,
        "reasons": dict(sorted(reasons.items())),
        "carried": header.carried,
        "visible": header.visible,
        "share": round(header.judged / header.visible, 6) if header.visible else None,
        "refused_by": _find_limit(header, request.limits),
        "warnings": header.warnings,
    }


def _find_limit(plan: PlanHeader, limits: SafetyLimits) -> str | None:
    try:
        guard_plan(plan, limits)
    except PlanRefusedError as error:
        return str(error.facts["limit"])
    return None
