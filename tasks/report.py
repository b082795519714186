"""From outcomes to a run's end: counters that add up, the outcome's name, its markdown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from storage.errors import (
    AdmissionError,
    InternalError,
    LeaseHeldError,
    MaintenanceError,
    PlanRefusedError,
    StoreBusyError,
)
from storage.models import Namespace, format_namespace
from storage.plans import PlanHeader
from storage.run_errors import SlotMissedError, StoreNotRunningError
from storage.runs import Outcome, RunEnd

# The outcome of several namespaces together is the first of these (spec/maintenance.md R23).
WORST_FIRST: tuple[Outcome, ...] = (
    "failed",
    "refused",
    "partial",
    "applied",
    "planned",
    "unchanged",
    "skipped_busy",
    "skipped_missed",
    "abandoned",
)

# To be skipped is no fault; the code of the row is the reason.
_SKIPS = (LeaseHeldError, StoreBusyError, StoreNotRunningError, SlotMissedError)


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run as people see it: its row, and the plan that it worked on."""

    run_id: str
    job: str
    namespace: Namespace
    end: RunEnd
    plan: PlanHeader | None = None
    error: dict[str, object] | None = field(default=None)


@dataclass(frozen=True, slots=True)
class Performed:
    """How a job without a plan ended on one namespace."""

    end: RunEnd
    error: BaseException | None = None


# What a job may have done beside its decisions.
_DONE = frozenset({"linked", "refined"})


def count_up(
    plan: PlanHeader, outcomes: Mapping[str, int], figures: Mapping[str, int] | None = None
) -> RunEnd:
    """Add up the outcomes of an applied plan; `figures` count what it did beside its decisions.

    Rows that could not be scored count as failed: the run was not a plain success.
    """
    beside = dict(figures or {})
    outcomes = dict(outcomes)
    unscorable = plan.counters.get("unscorable", 0)
    applied = outcomes.pop("applied", 0)
    failed = outcomes.pop("failed", 0) + unscorable
    found = plan.planned + unscorable
    if found != applied + failed + sum(outcomes.values()):
        return RunEnd("failed", plan.plan_id, code="internal:CountMismatch", found=found)
    outcome: Outcome = "applied"
    if failed or beside.get("refine_failed"):
        outcome = "partial"
        if plan.profile is not None and not applied and not _DONE.intersection(beside):
            outcome = "failed"
    elif outcomes.get("already_applied", 0) == found and not _DONE.intersection(beside):
        outcome = "unchanged"
    skipped = dict(sorted(outcomes.items()))
    return RunEnd(
        outcome,
        plan.plan_id,
        found=found,
        applied=applied,
        skipped=skipped,
        failed=failed,
        figures=beside,
    )


def count_cut_short(end: RunEnd, plan: PlanHeader, outcomes: Mapping[str, int]) -> RunEnd:
    """Add to a failed run what it had committed by then; the rest of its plan is `not_reached`."""
    rest = plan.planned - sum(outcomes.values())
    reached = count_up(plan, {**outcomes, "not_reached": rest} if rest else outcomes)
    return replace(reached, outcome=end.outcome, code=end.code, error=end.error)


def end_planned(plan: PlanHeader) -> RunEnd:
    """End a run that stored its plan and applied nothing."""
    found = plan.planned + plan.counters.get("unscorable", 0)
    skipped = {"dry_run": found} if found else {}
    outcome: Outcome = "planned" if found else "unchanged"
    return RunEnd(outcome, plan.plan_id, found=found, skipped=skipped)


def end_with_error(error: BaseException, plan: PlanHeader | None) -> RunEnd:
    """End a run that an error stopped; only errors of memtend keep their text."""
    plan_id = plan.plan_id if plan is not None else None
    if isinstance(error, PlanRefusedError) and plan is not None:
        skipped = {"refused": plan.planned}
        return RunEnd(
            "refused", plan_id, error.code, str(error), found=plan.planned, skipped=skipped
        )
    if isinstance(error, _SKIPS):
        outcome: Outcome = (
            "skipped_missed" if isinstance(error, SlotMissedError) else "skipped_busy"
        )
        code = str(error.facts.get("reason", error.code))
        return RunEnd(outcome, plan_id, code=code, error=str(error))
    if isinstance(error, AdmissionError):
        return RunEnd("refused", plan_id, code=error.code, error=str(error))
    if isinstance(error, MaintenanceError):
        code = str(error) if isinstance(error, InternalError) else error.code
        return RunEnd("failed", plan_id, code=code, error=str(error))
    code = "cancelled" if not isinstance(error, Exception) else f"internal:{type(error).__name__}"
    return RunEnd("failed", plan_id, code=code, error=code)


def describe_error(error: BaseException) -> dict[str, object]:
    """Give an error as data: its type, its text and its facts; foreign errors by class only."""
    if isinstance(error, MaintenanceError):
        return {"type": error.code, "message": str(error), **error.facts}
    name = f"internal:{type(error).__name__}"
    return {"type": name, "message": name}


def find_worst(results: Iterable[RunResult]) -> RunResult | None:
    """Find the run that stands for several: the first of the worst outcome."""
    ordered = sorted(results, key=lambda result: WORST_FIRST.index(result.end.outcome))
    return ordered[0] if ordered else None


def describe_result(result: RunResult) -> dict[str, object]:
    """Give a run as data."""
    end = result.end
    return {
        "run_id": result.run_id,
        "plan_id": end.plan_id,
        "job": result.job,
        "namespace": result.namespace.model_dump(),
        "outcome": end.outcome,
        "found": end.found,
        "applied": end.applied,
        "skipped": end.skipped,
        "failed": end.failed,
    }


def write_summary(results: Iterable[RunResult]) -> str:
    """Write a markdown table of runs: figures and ids, no content."""
    lines = [
        "| namespace | outcome | found | applied | skipped | failed |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for result in results:
        end = result.end
        skipped = ", ".join(f"{name} {count}" for name, count in end.skipped.items()) or "0"
        name = format_namespace(result.namespace).replace("|", "\\|")
        figures = f"{end.found} | {end.applied} | {skipped} | {end.failed}"
        lines.append(f"| {name} | {end.outcome} | {figures} |")
    return "\n".join(lines)
